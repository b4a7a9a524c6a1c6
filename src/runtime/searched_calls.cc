#include "runtime/searched_calls.h"

#include <algorithm>

namespace rouse {
namespace {

// Then everything is looked through again, should something have come up that nobody told us of.
constexpr std::chrono::minutes kTrusted{1};

// Workers may ask for names that no tool has.
constexpr std::size_t kMostTools = 1000;

const SearchedCalls::Tools& names_of(const SearchedCalls::Tools& tools) {
    static const SearchedCalls::Tools kAll{""};
    return tools.empty() ? kAll : tools;
}

}  // namespace

std::optional<SessionId> SearchedCalls::where_to_look(const Tools& tools, Time now) const {
    std::optional<SessionId> first;
    for (const std::string& tool : names_of(tools)) {
        const auto found = by_tool_.find(tool);
        if (found == by_tool_.end() || now - found->second.at >= kTrusted) return SessionId();
        const std::optional<SessionId>& from = found->second.from;
        if (from && (!first || *from < *first)) first = from;
    }
    return first;
}

void SearchedCalls::looked(const Tools& tools, const std::optional<SessionId>& first, Time now) {
    if (by_tool_.size() >= kMostTools) by_tool_.clear();
    for (const std::string& tool : names_of(tools)) {
        const auto [known, is_new] = by_tool_.try_emplace(tool, Searched{first, now});
        if (is_new) continue;
        Searched& searched = known->second;
        if (now - searched.at >= kTrusted) {
            searched = {first, now};
        } else if (searched.from && (!first || *searched.from < *first)) {
            searched.from = first;  // what came up for others on the way is none of this tool's
        }
    }
}

void SearchedCalls::comes_up(std::string_view tool, const SessionId& session) {
    const auto lower = [&](std::string_view name) {
        const auto known = by_tool_.find(name);
        if (known == by_tool_.end()) return;
        std::optional<SessionId>& from = known->second.from;
        if (!from || session < *from) from = session;
    };
    lower(tool);
    lower("");
}

}  // namespace rouse
