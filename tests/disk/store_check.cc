// The other half of the disk campaigns: after the cut, opens and recovers the store and checks that
// every acknowledged commit is there, that verify has nothing to say, and that a second recovery
// changes no session, but for noting that it now is the one to drive what nobody has driven yet.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <span>

#include "agent/recovery_manager.h"
#include "base/id_source.h"
#include "store/files/file_store.h"
#include "store/files/verify.h"

namespace rouse {
namespace {

struct Ack {
    SessionId session;
    Seq seq = 0;
};

std::vector<Ack> read_acks(const std::string& path, std::uint64_t limit) {
    std::vector<Ack> acks;
    std::ifstream file(path);
    std::string line;
    while (acks.size() < limit && std::getline(file, line) && !file.eof()) {
        std::istringstream words(line);
        std::string ack;
        std::string session;
        std::uint64_t number = 0;
        Ack one;
        if (!(words >> ack >> number >> session >> one.seq) || ack != "ack") break;
        one.session = SessionId(session);
        acks.push_back(std::move(one));
    }
    return acks;
}

using Logs = std::map<SessionId, std::vector<std::string>>;

class Check {
 public:
    Check(Env env, std::string directory) : env_(env), directory_(std::move(directory)) {}

    bool run(const std::vector<Ack>& acks) {
        Logs first;
        Logs second;
        return open_and_read(acks, first) && is_clean() && open_and_read(acks, second) &&
               is_clean() && is_same(first, second);
    }

 private:
    bool say(const std::string& what) {
        std::cout << "store_check: " << what << "\n";
        return false;
    }

    bool open_and_read(const std::vector<Ack>& acks, Logs& logs) {
        Result<std::unique_ptr<FileStore>> store = FileStore::open(env_, directory_);
        if (!store) return say("open: " + store.error().message);
        const BootId boot = IdSource(env_.clock, env_.random).make<BootId>();
        const Result<BootReport> report = RecoveryManager(env_, **store).recover(boot);
        if (!report) return say("recover: " + report.error().message);
        if (!report->set_aside.empty()) return say("a session is damaged");
        for (const Ack& ack : acks) {
            const auto state = (*store)->load(ack.session);
            if (!state) return say("lost: " + state.error().message);
            if ((*state)->last_seq >= ack.seq) continue;
            return say("lost: " + ack.session.text() + " ends at " +
                       std::to_string((*state)->last_seq) + ", acknowledged was " +
                       std::to_string(ack.seq));
        }
        SessionFilter all;
        all.limit = std::numeric_limits<std::size_t>::max();
        for (const SessionSummary& row : (*store)->list(all)) {
            const auto lines = (*store)->read(row.id, 1, std::numeric_limits<std::size_t>::max());
            if (!lines) return say("read: " + lines.error().message);
            logs[row.id] = *lines;
        }
        if (const Result<void> closed = (*store)->close(); !closed) {
            return say("close: " + closed.error().message);
        }
        return true;
    }

    bool is_clean() {
        const Result<VerifyReport> report = verify(env_, directory_, VerifyMode::look);
        if (!report) return say("verify: " + report.error().message);
        for (const Finding& finding : report->findings)
            say(finding.file + ": " + finding.what);
        return report->findings.empty();
    }

    bool is_same(const Logs& first, const Logs& second) {
        if (first.size() != second.size()) return say("a second recovery made or lost a session");
        for (const auto& [id, lines] : first) {
            const std::vector<std::string>& later = second.at(id);
            bool same = later.size() >= lines.size() &&
                        std::ranges::equal(lines, std::span(later).first(lines.size()));
            for (std::size_t i = lines.size(); i < later.size(); ++i) {
                const Result<Record> record = parse_record(later[i]);
                same = same && record && std::holds_alternative<RunRedriven>(record->body);
            }
            if (!same) return say("a second recovery changed " + id.text());
        }
        return true;
    }

    Env env_;
    std::string directory_;
};

}  // namespace
}  // namespace rouse

int main(int argc, char** argv) {
    std::string directory;
    std::string acks;
    std::uint64_t acked = std::numeric_limits<std::uint64_t>::max();
    CLI::App program("Checks a store after a cut");
    program.add_option("--dir", directory)->required();
    program.add_option("--acks", acks)->required();
    program.add_option("--acked", acked);
    CLI11_PARSE(program, argc, argv);
    rouse::SystemClock clock;
    rouse::SystemRandom random;
    rouse::RealFs fs;
    rouse::Logger log(rouse::LogLevel::off);
    rouse::Check check({clock, random, fs, log}, directory);
    return check.run(rouse::read_acks(acks, acked)) ? 0 : 1;
}
