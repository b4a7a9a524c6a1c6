#include "rouse/scripted_model.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace rouse {
namespace {

std::string result_text(const RawJson& content) {
    if (const auto text = read_json_string(content.text())) return *text;
    const auto blocks = from_json<Content>(content.text(), "content");
    if (!blocks) return content.text();
    return text_of(Message{Role::user, *blocks, {}});
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
    for (std::size_t at = text.find(what); at != std::string::npos;
         at = text.find(what, at + with.size())) {
        text.replace(at, what.size(), with);
    }
}

Error failure_of(std::int32_t status) {
    const std::string message = "the scripted model answered " + std::to_string(status);
    if (status == 401 || status == 403) return {ErrorKind::denied, "model_denied", message};
    const bool later = status == 408 || status == 409 || status == 429 || status >= 500;
    if (later) return {ErrorKind::unavailable, "model_unavailable", message};
    return {ErrorKind::invalid, "model_refused", message};
}

Result<ScriptEntry> read_entry(std::string_view line) {
    const Result<RawJson> json = RawJson::parse(line);
    if (!json) return json.error();
    Result<ScriptEntry> entry = from_json<ScriptEntry>(json->text(), "the entry");
    if (!entry) {
        return Error(ErrorKind::invalid, "invalid_script",
                     "not an entry: it has when{user|tool_result}, say, call[{id,tool,input}], "
                     "delay_ms, error{status}, repeat, usage");
    }
    std::string unknown = entry->extra.text + entry->when.extra.text + entry->usage.extra.text;
    if (entry->error) unknown += entry->error->extra.text;
    for (const ScriptCall& call : entry->call)
        unknown += call.extra.text;
    if (unknown.empty()) return entry;
    return Error(ErrorKind::invalid, "invalid_script", "nobody knows " + unknown.substr(1));
}

}  // namespace

// A conversation in two parts, as one.
class ScriptedModel::Conversation {
 public:
    explicit Conversation(const ModelRequest& request)
        : request_(request), size_(request.history.size() + request.turn.size()) {}
    Conversation(const Conversation& whole, std::size_t first)
        : request_(whole.request_), size_(first) {}

    std::size_t size() const { return size_; }
    const Message& at(std::size_t i) const {
        const std::size_t before = request_.history.size();
        return i < before ? request_.history[i] : request_.turn[i - before];
    }

    // What came since the model spoke last.
    bool user_said(const std::string& part) const {
        for (std::size_t i = size_; i > 0; --i) {
            if (at(i - 1).role == Role::assistant) return false;
            if (text_of(at(i - 1)).find(part) != std::string::npos) return true;
        }
        return false;
    }
    bool has_result_of(const std::string& tool) const {
        std::vector<const ToolResultBlock*> results;
        for (std::size_t i = size_; i-- > 0;) {
            if (at(i).role == Role::assistant) return names_tool(at(i), results, tool);
            for (const Block& block : at(i).content) {
                if (const auto* result = block.get_if<ToolResultBlock>()) results.push_back(result);
            }
        }
        return false;
    }
    std::string latest_result() const {
        for (std::size_t i = size_; i-- > 0;) {
            const Content& content = at(i).content;
            for (auto block = content.rbegin(); block != content.rend(); ++block) {
                const auto* result = block->get_if<ToolResultBlock>();
                if (result != nullptr) return result_text(result->content);
            }
        }
        return {};
    }

 private:
    static bool names_tool(const Message& assistant,
                           const std::vector<const ToolResultBlock*>& results,
                           const std::string& tool) {
        for (const Block& block : assistant.content) {
            const auto* use = block.get_if<ToolUseBlock>();
            if (use == nullptr || use->name != tool) continue;
            for (const ToolResultBlock* result : results) {
                if (result->tool_use_id == use->id) return true;
            }
        }
        return false;
    }

    const ModelRequest& request_;
    std::size_t size_;
};

ScriptedModel::ScriptedModel(std::vector<ScriptEntry> script) : script_(std::move(script)) {}

Result<std::shared_ptr<ScriptedModel>> ScriptedModel::from_text(std::string_view text,
                                                                const std::string& name) {
    std::vector<ScriptEntry> script;
    std::size_t number = 0;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        ++number;
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        Result<ScriptEntry> entry = read_entry(line);
        if (!entry) {
            return Error(ErrorKind::invalid, "invalid_script",
                         name + ":" + std::to_string(number) + ": " + entry.error().message);
        }
        script.push_back(*std::move(entry));
    }
    return std::make_shared<ScriptedModel>(std::move(script));
}

Result<std::shared_ptr<ScriptedModel>> ScriptedModel::from_file(const std::string& path) {
    std::error_code ignored;
    std::ifstream file(path, std::ios::binary);
    if (!file || std::filesystem::is_directory(path, ignored)) {
        return Error(ErrorKind::not_found, "no_such_file", "cannot read the script " + path);
    }
    std::ostringstream text;
    text << file.rdbuf();
    return from_text(text.str(), path);
}

std::optional<std::size_t> ScriptedModel::pick(const Conversation& before,
                                               const Progress& progress) const {
    for (std::size_t i = 0; i < script_.size(); ++i) {
        if (progress.used[i] && !script_[i].repeat) continue;
        const ScriptWhen& when = script_[i].when;
        if (!when.user.empty() && !before.user_said(when.user)) continue;
        if (!when.tool_result.empty() && !before.has_result_of(when.tool_result)) continue;
        return i;
    }
    return std::nullopt;
}

// Plays the part of the conversation that it has not seen: each answer in it used an entry up.
void ScriptedModel::catch_up(const ModelRequest& request, Progress& progress) const {
    const Conversation whole(request);
    progress.used.resize(script_.size());
    for (; progress.seen < whole.size(); ++progress.seen) {
        if (whole.at(progress.seen).role != Role::assistant) continue;
        ++progress.calls;
        const auto entry = pick(Conversation(whole, progress.seen), progress);
        if (entry) progress.used[*entry] = true;
    }
}

ScriptedModel::Progress& ScriptedModel::progress_of(const SessionId& session) {
    constexpr std::size_t kRemembered = 100;
    const auto [known, is_new] = by_session_.try_emplace(session);
    if (is_new) {
        latest_.emplace_front(session, Progress{});
        known->second = latest_.begin();
    } else {
        latest_.splice(latest_.begin(), latest_, known->second);
    }
    if (latest_.size() > kRemembered) {
        by_session_.erase(latest_.back().first);
        latest_.pop_back();
    }
    return latest_.front().second;
}

Result<std::pair<const ScriptEntry*, std::size_t>> ScriptedModel::next_entry(
    const ModelRequest& request) {
    const std::lock_guard lock(mutex_);
    Progress alone;
    Progress& progress = request.session_id.empty() ? alone : progress_of(request.session_id);
    const Conversation whole(request);
    // A turn that failed was dropped: what it used stays used.
    progress.seen = std::min(progress.seen, whole.size());
    catch_up(request, progress);
    const auto entry = pick(whole, progress);
    if (!entry) {
        const std::string last = whole.size() == 0 ? "" : to_json(whole.at(whole.size() - 1));
        return Error(ErrorKind::invalid, "unscripted",
                     "the script has no entry for model call " +
                         std::to_string(progress.calls + 1) + ", after " + last.substr(0, 300));
    }
    progress.used[*entry] = true;
    if (!script_[*entry].error) {
        ++progress.calls;
        ++progress.seen;  // the answer, which comes next
    }
    const std::size_t number = progress.calls + (script_[*entry].error ? 1 : 0);
    return std::pair(&script_[*entry], number);
}

Task<ModelResult> ScriptedModel::generate(ModelRequest request, const OnText& on_text) {
    const Result<std::pair<const ScriptEntry*, std::size_t>> next = next_entry(request);
    if (!next) co_return next.error();
    const auto [entry, number] = *next;
    if (entry->delay_ms > 0) {
        const auto executor = co_await boost::asio::this_coro::executor;
        boost::asio::steady_timer timer(executor);
        timer.expires_after(std::chrono::milliseconds(entry->delay_ms));
        co_await timer.async_wait(boost::asio::use_awaitable);
    }
    if (entry->error) co_return failure_of(entry->error->status);
    const auto filled = [&](std::string text) {
        if (text.find("{{") == std::string::npos) return text;
        replace_all(text, "{{n}}", std::to_string(number));
        replace_all(text, "{{result}}", Conversation(request).latest_result());
        return text;
    };
    ModelResponse response;
    response.model = "scripted";
    response.usage = entry->usage;
    response.stop_reason = entry->call.empty() ? "end_turn" : "tool_use";
    if (!entry->say.empty()) {
        std::string text = filled(entry->say);
        if (Result<void> sent = on_text(text); !sent) co_return sent.error();
        response.content.emplace_back(TextBlock{std::move(text), {}});
    }
    for (std::size_t i = 0; i < entry->call.size(); ++i) {
        const ScriptCall& call = entry->call[i];
        const std::string made = "call_" + std::to_string(number) + "_" + std::to_string(i + 1);
        const RawJson input = call.input.absent() ? RawJson::trusted("{}") : call.input;
        response.content.emplace_back(
            ToolUseBlock{CallId{call.id.empty() ? made : call.id}, call.tool, input, {}});
    }
    co_return response;
}

}  // namespace rouse
