#include "rouse/session.h"

namespace rouse {
namespace {

Error not_suspended() {
    return {ErrorKind::precondition, "not_suspended",
            "the session waits for nothing; send it a message instead"};
}

}  // namespace

Task<Result<std::optional<Suspension>>> Session::load_suspension() {
    co_return std::optional<Suspension>();
}
Task<Result<Suspension>> Session::save_suspended_turn(Suspension suspension) {
    co_return suspension;
}
Task<Result<void>> Session::save_resumed_turn(Turn turn) {
    return save_turn(std::move(turn));
}
Task<Result<void>> Session::cancel_suspension() {
    co_return not_suspended();
}
Result<Suspension> Session::choose_state(const Suspension& /*stored*/, const Suspension& passed) {
    return passed;
}
Task<Result<void>> Session::begin_turn(std::vector<Message> /*input*/) {
    co_return Result<void>();
}
Task<Result<void>> Session::add_assistant(AssistantStep /*step*/) {
    co_return Result<void>();
}
Task<Result<std::optional<Message>>> Session::new_mail() {
    co_return std::optional<Message>();
}
Task<Result<void>> Session::add_user(Message /*message*/) {
    co_return Result<void>();
}
Task<Result<void>> Session::calls_starting(std::vector<CallId> /*calls*/) {
    co_return Result<void>();
}
Task<Result<std::vector<PendingId>>> Session::calls_pending(std::vector<Starting> calls) {
    co_return std::vector<PendingId>(calls.size());
}
Task<Result<void>> Session::call_started(Started /*started*/) {
    co_return Result<void>();
}
Task<Result<ToolResult>> Session::call_ended(CallId /*call*/, ToolResult result) {
    co_return result;
}
Task<Result<void>> Session::accept_answers(Answers /*answers*/) {
    co_return Result<void>();
}
Task<Result<void>> Session::model_retrying(RetryStep /*step*/) {
    co_return Result<void>();
}
Task<Result<void>> Session::context_repaired(std::vector<std::string> /*changes*/) {
    co_return Result<void>();
}
Task<Result<Suspension>> Session::wait_for_input(InputWait wait) {
    co_return Error(ErrorKind::unavailable, "token_budget", std::move(wait.prompt));
}
Task<Result<void>> Session::reach_disk() {
    co_return Result<void>();
}
Task<Result<void>> Session::turn_failed(Error /*error*/) {
    co_return Result<void>();
}
Task<Result<std::optional<Session::Interrupted>>> Session::interrupted() {
    co_return std::optional<Interrupted>();
}
Task<Result<void>> Session::go_on() {
    co_return Error(ErrorKind::precondition, "not_interrupted", "no turn was interrupted");
}

namespace {

class MemorySession final : public Session {
 public:
    explicit MemorySession(SessionId id) : id_(std::move(id)) {}

    const SessionId& id() const override { return id_; }
    Task<Result<std::span<const Message>>> history() override {
        co_return std::span<const Message>(history_);
    }

    Task<Result<void>> save_turn(Turn turn) override {
        if (suspension_) {
            co_return Error(ErrorKind::conflict, "suspended_session",
                            "the session waits; resume it or cancel its suspension first");
        }
        append(std::move(turn));
        co_return Result<void>();
    }

    bool keeps_suspensions() const override { return true; }
    Task<Result<std::optional<Suspension>>> load_suspension() override { co_return suspension_; }

    Task<Result<Suspension>> save_suspended_turn(Suspension suspension) override {
        suspension_ = std::move(suspension);
        co_return *suspension_;
    }

    Task<Result<void>> save_resumed_turn(Turn turn) override {
        if (!suspension_) co_return not_suspended();
        suspension_.reset();
        append(std::move(turn));
        co_return Result<void>();
    }

    Task<Result<void>> cancel_suspension() override {
        if (!suspension_) co_return not_suspended();
        suspension_.reset();
        co_return Result<void>();
    }

 private:
    void append(Turn turn) { std::ranges::move(turn.messages, std::back_inserter(history_)); }

    SessionId id_;
    std::vector<Message> history_;
    std::optional<Suspension> suspension_;
};

}  // namespace

std::shared_ptr<Session> make_memory_session(SessionId id) {
    return std::make_shared<MemorySession>(std::move(id));
}

}  // namespace rouse
