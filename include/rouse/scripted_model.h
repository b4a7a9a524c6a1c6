#pragma once

// A model that plays a script: for demos and tests, without a key. Each model call takes the first
// entry that matches and was not used yet in its session; a call that nobody scripted fails.
//
//   {"when":{"user":"deploy"},"say":"On it.","call":[{"tool":"deploy","input":{"branch":"main"}}]}
//   {"when":{"tool_result":"deploy"},"say":"Done: {{result}}"}
//
// {{result}} is the latest tool result, {{n}} the number of this model call in the conversation.
// What was used is told from the conversation itself, so a script goes on where it was after a
// restart.

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rouse/model.h"

namespace rouse {

struct ScriptWhen {
    std::string user;         // a part of what the user said last
    std::string tool_result;  // a tool whose result came last
    Extra extra = {};
    friend bool operator==(const ScriptWhen&, const ScriptWhen&) = default;
    static constexpr auto fields() {
        return std::tuple(field("user", &ScriptWhen::user),
                          field("tool_result", &ScriptWhen::tool_result));
    }
};
struct ScriptCall {
    std::string tool;
    RawJson input = {};
    std::string id = {};  // made up when empty
    Extra extra = {};
    friend bool operator==(const ScriptCall&, const ScriptCall&) = default;
    static constexpr auto fields() {
        return std::tuple(field("id", &ScriptCall::id), required("tool", &ScriptCall::tool),
                          field("input", &ScriptCall::input));
    }
};
struct ScriptFailure {
    std::int32_t status = 0;  // as a provider would answer
    Extra extra = {};
    friend bool operator==(const ScriptFailure&, const ScriptFailure&) = default;
    static constexpr auto fields() {
        return std::tuple(required("status", &ScriptFailure::status));
    }
};

struct ScriptEntry {
    ScriptWhen when = {};
    std::string say = {};
    std::vector<ScriptCall> call = {};
    std::int64_t delay_ms = 0;
    std::optional<ScriptFailure> error = {};
    bool repeat = false;
    Usage usage = {};
    Extra extra = {};
    friend bool operator==(const ScriptEntry&, const ScriptEntry&) = default;
    static constexpr auto fields() {
        using S = ScriptEntry;
        return std::tuple(field("when", &S::when), field("say", &S::say), field("call", &S::call),
                          field("delay_ms", &S::delay_ms), field("error", &S::error),
                          field("repeat", &S::repeat), field("usage", &S::usage));
    }
};

class ScriptedModel final : public Model {
 public:
    explicit ScriptedModel(std::vector<ScriptEntry> script);
    // One entry a line. invalid  invalid_script: with the name and the line
    static Result<std::shared_ptr<ScriptedModel>> from_text(std::string_view text,
                                                            const std::string& name = "script");
    static Result<std::shared_ptr<ScriptedModel>> from_file(const std::string& path);

    bool stays_inside() const override { return true; }

    //   invalid      unscripted; or as a provider's 4xx
    //   unavailable  as a provider's 408, 409, 429, 5xx
    Task<ModelResult> generate(ModelRequest request, const OnText& on_text) override;

 private:
    // How far the conversation of one session has used the script up.
    struct Progress {
        std::vector<bool> used;
        std::size_t seen = 0;   // messages of the conversation
        std::size_t calls = 0;  // answers of the model among them
    };
    class Conversation;

    std::optional<std::size_t> pick(const Conversation& before, const Progress& progress) const;
    void catch_up(const ModelRequest& request, Progress& progress) const;
    Result<std::pair<const ScriptEntry*, std::size_t>> next_entry(const ModelRequest& request);

    Progress& progress_of(const SessionId& session);

    std::vector<ScriptEntry> script_;
    std::mutex mutex_;  // for the two below
    // Of the sessions that asked last, the latest first. Others are told from their conversations.
    using Sessions = std::list<std::pair<SessionId, Progress>>;
    Sessions latest_;
    std::unordered_map<SessionId, Sessions::iterator> by_session_;
};

}  // namespace rouse
