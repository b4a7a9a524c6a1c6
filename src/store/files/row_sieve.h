#pragma once

// Tells from the text of an index row, without parsing it, that a filter does not take it. Most
// rows of a long index are passed over this way, at a small part of what parsing them would cost.
//
// A quote inside of a JSON string is escaped, so the text `"agent":"helper"` stands in a row only
// where the member does; and a row is written in one way only, so that equal values are equal text.

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "store/store.h"

namespace rouse::files {

class RowSieve {
 public:
    RowSieve() = default;  // takes every row
    explicit RowSieve(const SessionFilter& filter);
    explicit RowSieve(const PendingFilter& filter);
    explicit RowSieve(const WaitFilter& filter);  // for rows of sessions that wait
    // Rows with one of these members.
    static RowSieve with_any(const std::vector<std::string_view>& members);

    // False: the filter does not take it. True: parse it, and look.
    bool operator()(std::string_view row) const;

 private:
    using Texts = std::vector<std::string>;

    void needs(std::string_view member, const std::optional<std::string>& value);
    void needs_any_of(std::string_view member, const std::vector<std::string>& values);
    void needs_status(SessionStatus status);

    std::vector<Texts> any_of_;  // of each list, one must be there
    Texts none_of_;
    std::string updated_before_;  // as RFC 3339
    PendingFilter::TakesTool takes_tool_;
};

// What a row says of itself. Absent: it has no such member.
std::optional<Timestamp> time_in_row(std::string_view row, std::string_view member);
std::optional<WaitKind> wait_in_row(std::string_view row);
// The packs that the rows of a text name.
void note_packs(std::string_view rows, std::set<std::uint64_t>& packs);

}  // namespace rouse::files
