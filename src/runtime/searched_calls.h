#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "domain/ids.h"

namespace rouse {

// What was looked through for workers, and where nothing was found: so that they do not look
// through all calls that wait, most of which may wait for somebody else.
class SearchedCalls final {
 public:
    using Clock = std::chrono::steady_clock;
    using Time = Clock::time_point;
    using Tools = std::vector<std::string>;  // empty: all

    // The first session in which a call for one of these tools may wait; nothing: in none.
    std::optional<SessionId> where_to_look(const Tools& tools, Time now) const;

    // That was done, from there on and at the same time: the first call was found in this session,
    // or none was.
    void looked(const Tools& tools, const std::optional<SessionId>& first, Time now);

    // A call of this tool waits now.
    void comes_up(std::string_view tool, const SessionId& session);

    void forget() { by_tool_.clear(); }
    bool empty() const { return by_tool_.empty(); }

 private:
    struct Searched {
        std::optional<SessionId> from;
        Time at;  // when all was looked through
    };
    std::map<std::string, Searched, std::less<>> by_tool_;  // "": all tools
};

}  // namespace rouse
