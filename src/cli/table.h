#pragma once

// Rows with aligned columns, for people.

#include <string>
#include <vector>

#include "cli/terminal.h"

namespace rouse::cli {

struct Cell {
    std::string text;
    Colour colour = Colour::plain;

    Cell(std::string t) : text(std::move(t)) {}  // NOLINT: plain text is a cell
    Cell(const char* t) : text(t) {}             // NOLINT
    Cell(std::string t, Colour c) : text(std::move(t)), colour(c) {}
};

class Table final {
 public:
    // Without headers, there is no first line.
    explicit Table(std::vector<std::string> headers = {}) : headers_(std::move(headers)) {}

    // Text may come from anywhere: it is made printable here.
    void add(std::vector<Cell> row);
    bool empty() const { return rows_.empty(); }

    // Lines that fit the terminal: what does not is cut on the right.
    std::string render(const Terminal& terminal) const;

 private:
    std::vector<std::size_t> widths() const;

    std::vector<std::string> headers_;
    std::vector<std::vector<Cell>> rows_;
};

}  // namespace rouse::cli
