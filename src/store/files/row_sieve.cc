#include "store/files/row_sieve.h"

#include <string.h>

#include <algorithm>
#include <charconv>

namespace rouse::files {
namespace {

std::size_t find_text(std::string_view text, std::string_view wanted) {
    const void* found = ::memmem(text.data(), text.size(), wanted.data(), wanted.size());
    return found == nullptr
               ? std::string_view::npos
               : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

bool has_text(std::string_view text, std::string_view wanted) {
    return find_text(text, wanted) != std::string_view::npos;
}

std::string begin_of(std::string_view member) {
    return "\"" + std::string(member) + "\":";
}

std::string phase_is(RunPhase phase) {
    return begin_of("phase") + to_json_string(to_string(phase));
}

// The text behind `"member":"`, up to the next quote.
std::optional<std::string_view> string_in_row(std::string_view row, std::string_view begin) {
    const std::size_t at = find_text(row, begin);
    if (at == std::string_view::npos) return std::nullopt;
    row.remove_prefix(at + begin.size());
    return row.substr(0, row.find('"'));
}

}  // namespace

RowSieve RowSieve::with_any(const std::vector<std::string_view>& members) {
    RowSieve sieve;
    Texts& texts = sieve.any_of_.emplace_back();
    for (const std::string_view member : members)
        texts.push_back(begin_of(member));
    return sieve;
}

void RowSieve::needs(std::string_view member, const std::optional<std::string>& value) {
    if (!value) return;
    if (value->empty()) {
        none_of_.push_back(begin_of(member));
    } else {
        any_of_.push_back({begin_of(member) + to_json_string(*value)});
    }
}

void RowSieve::needs_any_of(std::string_view member, const std::vector<std::string>& values) {
    if (values.empty() || std::ranges::find(values, "") != values.end()) return;
    Texts& texts = any_of_.emplace_back();
    for (const std::string& value : values)
        texts.push_back(begin_of(member) + to_json_string(value));
}

void RowSieve::needs_status(SessionStatus status) {
    const std::string active = phase_is(RunPhase::active);
    const std::string parked = phase_is(RunPhase::parked);
    const std::string interrupted = phase_is(RunPhase::interrupted);
    switch (status) {
        case SessionStatus::running: any_of_.push_back({active}); break;
        case SessionStatus::waiting: any_of_.push_back({parked}); break;
        case SessionStatus::interrupted_waiting: any_of_.push_back({parked, interrupted}); break;
        case SessionStatus::interrupted_startup: any_of_.push_back({active, interrupted}); break;
        case SessionStatus::idle: none_of_ = {active, parked, interrupted}; break;
    }
}

RowSieve::RowSieve(const SessionFilter& filter) {
    needs("agent", filter.agent);
    needs("task", filter.task_id);
    needs("alias", filter.alias);
    needs("external", filter.external_id);
    if (filter.parent) needs("parent", filter.parent->text());
    if (filter.has_alias) any_of_.push_back({begin_of("alias")});
    if (filter.suspended) {
        const std::string parked = phase_is(RunPhase::parked);
        *filter.suspended ? any_of_.push_back({parked}) : none_of_.push_back(parked);
    }
    if (filter.status) needs_status(*filter.status);
    if (filter.updated_before) updated_before_ = to_rfc3339(*filter.updated_before);
}

RowSieve::RowSieve(const PendingFilter& filter) : takes_tool_(filter.takes_tool) {
    any_of_.push_back({begin_of("pending")});
    needs_any_of("task", filter.tasks);
    if (filter.status) needs("status", std::string(to_string(*filter.status)));
    if (filter.waits_for) needs("for", std::string(to_string(*filter.waits_for)));
}

RowSieve::RowSieve(const WaitFilter& filter) {
    if (filter.kind) needs("wait", std::string(to_string(*filter.kind)));
    needs("task", filter.task_id);
    needs("agent", filter.agent);
    needs_any_of("task", filter.tasks);
}

bool RowSieve::operator()(std::string_view row) const {
    const auto is_there = [&](const std::string& text) { return has_text(row, text); };
    for (const Texts& texts : any_of_) {
        if (std::ranges::none_of(texts, is_there)) return false;
    }
    if (std::ranges::any_of(none_of_, is_there)) return false;
    if (!updated_before_.empty()) {
        const auto updated = string_in_row(row, "\"updated\":\"");
        if (!updated || *updated >= updated_before_) return false;
    }
    if (!takes_tool_ || takes_tool_("")) return true;  // an empty name is not written
    constexpr std::string_view kTool = "\"tool\":\"";
    for (std::size_t at = find_text(row, kTool); at != std::string_view::npos;
         at = find_text(row, kTool)) {
        row.remove_prefix(at + kTool.size());
        const std::string_view name = row.substr(0, row.find('"'));
        if (name.contains('\\') || takes_tool_(name)) return true;
    }
    return false;
}

std::optional<Timestamp> time_in_row(std::string_view row, std::string_view member) {
    const auto text = string_in_row(row, begin_of(member) + "\"");
    if (!text) return std::nullopt;
    const Result<Timestamp> time = parse_rfc3339(*text);
    return time ? std::optional(*time) : std::nullopt;
}

std::optional<WaitKind> wait_in_row(std::string_view row) {
    const auto text = string_in_row(row, "\"wait\":\"");
    return text ? parse_enum<WaitKind>(*text) : std::nullopt;
}

void note_packs(std::string_view rows, std::set<std::uint64_t>& packs) {
    constexpr std::string_view kBegin = "\"packed\":{\"pack\":";
    for (;;) {
        const std::size_t at = find_text(rows, kBegin);
        if (at == std::string_view::npos) return;
        rows.remove_prefix(at + kBegin.size());
        std::uint64_t number = 0;
        (void)std::from_chars(rows.data(), rows.data() + rows.size(), number);
        packs.insert(number);
    }
}

}  // namespace rouse::files
