#pragma once

// Text that must not be seen: it has no way into a log line, an error or a stream but reveal().

#include <ostream>
#include <string>
#include <utility>

namespace rouse {

class Secret {
 public:
    Secret() = default;
    explicit Secret(std::string text) : text_(std::move(text)) {}

    // For the one place that must have it. Search for this word to review them all.
    const std::string& reveal() const { return text_; }

    friend std::ostream& operator<<(std::ostream& out, const Secret&) { return out << "***"; }

 private:
    std::string text_;
};

}  // namespace rouse
