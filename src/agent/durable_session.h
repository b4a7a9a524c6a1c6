#pragma once

// A session whose log is in a store. It works on a copy of the state that runs ahead of the disk:
// steps that nobody outside can see yet are kept back and go along with the next commit that
// matters.

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>
#include <vector>

#include "agent/companions.h"
#include "agent/store_async.h"
#include "base/env.h"
#include "base/id_source.h"
#include "domain/rules.h"
#include "domain/transcript.h"
#include "rouse/session.h"
#include "store/store.h"

namespace rouse {

class DurableSession final : public Session {
 public:
    // `world` is kept as long as the session needs what `env` refers to.
    DurableSession(std::shared_ptr<void> world, Env env, std::shared_ptr<Store> store, BootId boot,
                   SessionId id, Companions* companions = nullptr);

    // Reads what was written to the log since this object last looked.
    Result<void> refresh();
    // Somebody else has just committed these: they need not be read. Ignored where they do not
    // continue what this object has seen.
    void take_over(Seq first, const Records& records);
    bool can_take_over(Seq first) const;
    // What was taken over is on its way to the disk with this commit. The session works on, and
    // waits for it before anything leaves this process.
    void go_ahead_of(std::shared_ptr<CommitUnderWay> commit) { ahead_ = std::move(commit); }
    // Turns end while their last commit is on its way, too: whoever runs them on this loop waits
    // for reach_disk() before anybody hears of it. What belongs to the turn is gone by then, and
    // only its outcome lies in memory while the disk works.
    void end_ahead_on(boost::asio::any_io_executor loop) { loop_ = std::move(loop); }
    // Nothing that it works on is on its way to the disk.
    bool is_on_disk() const { return !ahead_ || (ahead_->ended() && !ahead_->refused()); }
    // With what is not on disk yet.
    const SessionState& state() const { return state_; }
    // About how much memory its conversation takes.
    std::size_t conversation_bytes();

    const SessionId& id() const override { return id_; }
    Task<Result<std::span<const Message>>> history() override;
    Task<Result<void>> save_turn(Turn turn) override;
    bool keeps_suspensions() const override { return true; }
    Task<Result<std::optional<Suspension>>> load_suspension() override;
    Task<Result<Suspension>> save_suspended_turn(Suspension suspension) override;
    Task<Result<void>> save_resumed_turn(Turn turn) override;
    Task<Result<void>> cancel_suspension() override;
    Result<Suspension> choose_state(const Suspension& stored, const Suspension& passed) override;

    Task<Result<void>> begin_turn(std::vector<Message> input) override;
    Task<Result<void>> add_assistant(AssistantStep step) override;
    Task<Result<void>> add_user(Message message) override;
    Task<Result<std::optional<Message>>> new_mail() override;
    Task<Result<void>> calls_starting(std::vector<CallId> calls) override;
    Task<Result<std::vector<PendingId>>> calls_pending(std::vector<Starting> calls) override;
    Task<Result<void>> call_started(Started started) override;
    Task<Result<ToolResult>> call_ended(CallId call, ToolResult result) override;
    Task<Result<void>> accept_answers(Answers answers) override;
    Task<Result<void>> model_retrying(RetryStep step) override;
    Task<Result<void>> context_repaired(std::vector<std::string> changes) override;
    std::optional<Paid> paid() const override;
    MessageId latest_step() const override;
    // The id that what the model is saying will have once it is recorded; another one when it is
    // asked again.
    const MessageId& coming_step();
    Task<Result<Suspension>> wait_for_input(InputWait wait) override;
    bool waits_for_input() const override;
    Task<Result<void>> reach_disk() override;
    // Only what it went ahead of: what it keeps back stays there.
    Task<Result<void>> until_it_arrives();
    Task<Result<void>> turn_failed(Error error) override;
    Task<Result<std::optional<Interrupted>>> interrupted() override;
    Task<Result<void>> go_on() override;

 private:
    using Plan = std::function<Result<Records>(const SessionState&)>;

    enum class Step : std::uint8_t { another, last };  // last: what is planned ends the turn

    // Commits what was kept back and what the plan adds; planned again when somebody else wrote.
    //   cancelled  run_ended: the run that this turn is has been ended by somebody else
    Task<Result<void>> write(Plan plan, Step step = Step::another);
    Task<Result<void>> send(Commit commit, Companions::Then then);
    // The last commit of a turn that does not wait for it.
    Task<Result<void>> send_last(Commit commit, Companions::Then then);
    // One at a time writes; at its end the next in line wakes.
    Task<void> until_nobody_writes();
    class Writing {
     public:
        explicit Writing(DurableSession& session) : session_(session) { session.writing_ = true; }
        Writing(const Writing&) = delete;
        Writing& operator=(const Writing&) = delete;
        ~Writing();

     private:
        DurableSession& session_;
    };
    void keep(RecordBody record);
    Task<Result<void>> write_kept();
    void fold_ahead(const Records& records);
    void note(const RecordView& record);
    Result<void> reload();
    Result<void> read_from(Seq seq);
    Result<void> put_back(Records kept, const std::optional<RunId>& run);
    Result<void> catch_up();
    bool runs_ahead();
    std::span<const TranscriptEntry> turn() const;
    Interrupted turn_so_far() const;
    Result<Records> plan_answers(const SessionState& state, const Answers& answers);
    PendingCreated created(const PendingToolCall& call, Timestamp at);
    bool is_written(const PendingToolCall& call) const;
    const PendingCall* open_call(const CallId& id) const;
    bool others_are_under_way(const CallId& id) const;
    std::optional<RunId> open_run() const;
    Timestamp now() const { return clamped(state_, env_.clock.now()); }

    std::shared_ptr<void> world_;
    Env env_;
    std::shared_ptr<Store> store_;
    IdSource ids_;
    BootId boot_;
    SessionId id_;

    Companions* companions_;

    SessionState state_;                     // with what is kept back
    Seq sent_ = 0;                           // the last seq that the log has
    Records kept_;                           // behind it
    std::size_t kept_bytes_ = 0;             // of results among them
    bool stale_ = true;                      // the log has to be read from the beginning
    std::shared_ptr<CommitUnderWay> ahead_;  // the latest that it goes ahead of
    std::optional<Error> lost_;              // why what was sent last is not in the log, until that
                                             // is read again
    boost::asio::any_io_executor loop_;      // on which turns end ahead; empty: they do not
    RunId run_;                              // that the turn in progress is
    std::optional<MessageId> coming_step_;
    bool writing_ = false;
    std::vector<boost::asio::steady_timer*> writers_;  // that wait for their turn

    // The same log as a conversation. The history is made from the transcript as it grows.
    Transcript transcript_;
    std::size_t weighed_entries_ = 0;
    std::size_t weighed_bytes_ = 0;
    std::vector<Message> history_;
    std::vector<std::vector<Message>> lent_;  // that the turn in progress may still look at
    std::size_t history_entries_ = 0;
    std::optional<SessionCompacted> history_compacted_;
    Usage turn_usage_;
    std::vector<std::pair<InboxReceived, Timestamp>> letters_;  // that the agent has not seen
};

}  // namespace rouse
