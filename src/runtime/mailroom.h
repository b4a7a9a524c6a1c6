#pragma once

// Letters that people and programs send, fan-outs, and chains that a person lets go on. What an
// agent sends goes out with the record of its call (SessionCompanions).
//
// On the loop of the runs, by one thread.

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/mail_planner.h"
#include "runtime/request_note.h"
#include "runtime/session_companions.h"
#include "runtime/system_log.h"

namespace rouse {

class Mailroom final {
 public:
    struct Parts {
        Env env;
        std::shared_ptr<Store> store;
        SystemLog& system;
        SessionCompanions& companions;
        MailPlanner& planner;
        boost::asio::any_io_executor loop;
    };
    explicit Mailroom(Parts parts) : parts_(std::move(parts)) {}

    struct Sent {
        Letter letter;
        std::vector<MailStop> stops;
        std::string answer;  // a JSON object
    };
    // As MailPlanner::plan; store errors.
    Task<Result<Sent>> send(MailQuestion question, std::optional<RequestNote> note);

    // A letter to more sessions than one commit takes, in parts; done when all of them have it.
    void carry(const Letter& letter);
    // The same for what the last process left.
    void start();

    // `may_see` says so of a task; without it, of all.
    //   not_found     unknown_chain, also when a session of another task would go on
    //   precondition  not_stopped
    using MaySee = std::function<bool(const std::string& task_id)>;
    Task<Result<void>> continue_chain(std::string id, std::uint32_t hops, std::uint32_t wakes,
                                      MaySee may_see);

 private:
    Task<void> carry_all(Letter letter, bool again);
    Task<Result<void>> deliver(Letter part);
    std::vector<InboxReceived> received(const SessionId& session) const;
    bool is_seen(const ChainRow& chain, const MaySee& may_see) const;
    // Plans until no log that it reads moves meanwhile.
    using Plan = std::function<Companions::Then(Commit&)>;
    Task<Result<void>> commit(Plan plan);

    Parts parts_;
};

}  // namespace rouse
