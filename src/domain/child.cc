#include "domain/child.h"

#include <algorithm>

namespace rouse {
namespace {

std::string closing_line(const SessionId& child) {
    return "\n<task_metadata>session_id: " + child.text() + "</task_metadata>";
}

}  // namespace

RawJson wish_metadata(const ChildWish& wish) {
    return RawJson::trusted("{\"" + std::string(kChildWish) + "\":" + to_json(wish) + "}");
}

std::optional<ChildWish> read_wish(const RawJson& metadata) {
    std::vector<JsonMember> members;
    if (metadata.absent() || !split_object(metadata.text(), members)) return std::nullopt;
    const auto found = std::ranges::find(members, kChildWish, &JsonMember::key);
    if (found == members.end()) return std::nullopt;
    Result<ChildWish> wish = from_json<ChildWish>(found->value, kChildWish);
    if (!wish) return std::nullopt;
    return *std::move(wish);
}

ToolResult child_result(const SessionId& child, std::string_view text) {
    return text_result(std::string(text) + closing_line(child));
}

std::string child_error(const SessionId& child, std::string_view what) {
    return std::string(what) + closing_line(child);
}

const PendingCall* find_call_for_child(const SessionState& parent, const SessionId& child) {
    const auto found = std::ranges::find_if(parent.pending, [&](const PendingCall& call) {
        if (!is_open(call.status) || call.waits_for != WaitsFor::child) return false;
        const std::optional<ChildWish> wish = read_wish(call.metadata);
        return wish && wish->session_id == child;
    });
    return found == parent.pending.end() ? nullptr : &*found;
}

}  // namespace rouse
