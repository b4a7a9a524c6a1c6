#include "cli/table.h"

#include <algorithm>

#include "cli/text.h"

namespace rouse::cli {
namespace {

constexpr std::size_t kGap = 2;

std::string render_row(const std::vector<Cell>& row, const std::vector<std::size_t>& widths,
                       const Terminal& terminal) {
    std::string line;
    std::size_t used = 0;
    std::size_t owed = 0;  // blanks that are due before the next text
    for (std::size_t i = 0; i < row.size(); ++i) {
        std::string text = row[i].text;
        if (terminal.width > 0) {
            const std::size_t at = used + owed;
            text = cut_to(text, at < terminal.width ? terminal.width - at : 0);
        }
        const std::size_t columns = columns_of(text);
        if (columns > 0) {
            line.append(owed, ' ').append(coloured(text, row[i].colour, terminal));
            used += owed + columns;
            owed = 0;
        }
        owed += widths[i] - columns + kGap;
    }
    return line + "\n";
}

}  // namespace

void Table::add(std::vector<Cell> row) {
    for (Cell& cell : row)
        cell.text = printable(cell.text);
    rows_.push_back(std::move(row));
}

std::vector<std::size_t> Table::widths() const {
    std::vector<std::size_t> widths;
    const auto widen = [&](std::size_t column, std::string_view text) {
        if (column >= widths.size()) widths.resize(column + 1);
        widths[column] = std::max(widths[column], columns_of(text));
    };
    for (std::size_t i = 0; i < headers_.size(); ++i)
        widen(i, headers_[i]);
    for (const std::vector<Cell>& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i)
            widen(i, row[i].text);
    }
    return widths;
}

std::string Table::render(const Terminal& terminal) const {
    const std::vector<std::size_t> columns = widths();
    std::string out;
    if (!headers_.empty()) {
        std::vector<Cell> head;
        head.reserve(headers_.size());
        for (const std::string& header : headers_)
            head.emplace_back(header, Colour::dim);
        out += render_row(head, columns, terminal);
    }
    for (const std::vector<Cell>& row : rows_)
        out += render_row(row, columns, terminal);
    return out;
}

}  // namespace rouse::cli
