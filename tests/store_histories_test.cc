// All histories of one to three verbs of a store, cut at each file operation (P2). The operations
// of a history's last verb are enough: those of the others are the last ones of a shorter history.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "testing/store_checks.h"
#include "testing/store_workload.h"

namespace rouse::testing {
namespace {

enum class Verb : std::uint8_t {
    create,
    append,
    park,
    settle,
    remove,
    fork,
    checkpoint,
    reopen,
};
constexpr std::array<const char*, 8> kNames = {"create", "append", "park",       "settle",
                                               "remove", "fork",   "checkpoint", "reopen"};

using History = std::vector<Verb>;

std::string name_of(const History& history) {
    std::string name;
    for (const Verb verb : history) {
        name += (name.empty() ? "" : ", ") + std::string(kNames[static_cast<std::size_t>(verb)]);
    }
    return name;
}

std::vector<History> all_histories(std::size_t length) {
    std::vector<History> histories = {{}};
    for (std::size_t i = 0; i < length; ++i) {
        std::vector<History> longer;
        for (const History& history : histories) {
            for (std::size_t verb = 0; verb < kNames.size(); ++verb) {
                longer.push_back(history);
                longer.back().push_back(static_cast<Verb>(verb));
            }
        }
        histories = std::move(longer);
    }
    return histories;
}

// Takes verbs, each on the sessions that the ones before it left.
class Player {
 public:
    Player(StoreWorld& world, Fs& fs, std::vector<SessionId> sessions)
        : world_(world), fs_(fs), sessions_(std::move(sessions)) {}

    bool start() {
        process_ = std::make_unique<StoreProcess>(world_, fs_,
                                                  BootId("boot_p" + std::to_string(++boots_)));
        return process_->open() && process_->recover();
    }

    // A verb that the rules refuse changes nothing.
    void take(Verb verb) {
        const SessionId fresh("sess_n" + std::to_string(++made_));
        switch (verb) {
            case Verb::create:
                if (process_->create(fresh)) sessions_.push_back(fresh);
                break;
            case Verb::append:
                if (!sessions_.empty()) {
                    (void)process_->update(sessions_.back(), std::string(900, 't'));
                }
                break;
            case Verb::park: park(); break;
            case Verb::settle: settle(); break;
            case Verb::remove:
                if (!sessions_.empty() && process_->remove(sessions_.back())) sessions_.pop_back();
                break;
            case Verb::fork:
                if (!sessions_.empty() && process_->fork(sessions_.back(), fresh)) {
                    sessions_.push_back(fresh);
                }
                break;
            case Verb::checkpoint: (void)process_->files().checkpoint(); break;
            case Verb::reopen:
                (void)process_->close();
                process_.reset();
                (void)start();
                break;
        }
    }

 private:
    bool is_parked(const SessionId& id) {
        const auto state = process_->store().load(id);
        return state && (*state)->is_parked();
    }

    void park() {
        const auto free = std::ranges::find_if(sessions_.rbegin(), sessions_.rend(),
                                               [&](const auto& id) { return !is_parked(id); });
        if (free == sessions_.rend() || !process_->message(*free, "Deploy it.")) return;
        if (process_->say(*free, "Two at once.", 2)) {
            (void)process_->park(*free, Milliseconds(60'000));
        }
    }

    // One call, so that settling twice ends the wait of a session with two.
    void settle() {
        const auto parked = std::ranges::find_if(sessions_.rbegin(), sessions_.rend(),
                                                 [&](const auto& id) { return is_parked(id); });
        if (parked != sessions_.rend()) (void)process_->settle(*parked, 0, "done");
    }

    StoreWorld& world_;
    Fs& fs_;
    std::vector<SessionId> sessions_;
    int boots_ = 0;
    int made_ = 0;
    std::unique_ptr<StoreProcess> process_;
};

// A disk with an idle and a parked session, whose process was killed when its journal was nearly at
// the point at which the next segment is prepared.
class StoreHistoriesTest : public ::testing::TestWithParam<std::size_t> {
 protected:
    void SetUp() override {
        StoreProcess process(world_, fs_, BootId("boot_0"));
        ASSERT_TRUE(process.open());
        ASSERT_TRUE(process.recover());
        for (const SessionId& id : sessions_) {
            ASSERT_TRUE(process.create(id));
        }
        ASSERT_TRUE(process.message(sessions_[1], "Deploy it."));
        ASSERT_TRUE(process.say(sessions_[1], "Two at once.", 2));
        ASSERT_TRUE(process.park(sessions_[1], Milliseconds(3'600'000)));
        base_ = fs_.copy();
    }

    // Plays it up to the last verb, and that with the power cut at its operation `cut`. False: the
    // history is through before.
    bool play(const History& history, std::int64_t cut, StoreWorld& world, CrashingFs& fs) {
        Player player(world, fs, sessions_);
        EXPECT_TRUE(player.start());
        for (std::size_t i = 0; i + 1 < history.size(); ++i) {
            player.take(history[i]);
        }
        fs.reset_operations();
        fs.set_plan({.crash_at = cut, .seed = static_cast<std::uint64_t>(cut)});
        player.take(history.back());
        fs.set_plan({});
        return fs.crashed();
    }

    StoreWorld world_;
    CrashingFs fs_;
    const std::vector<SessionId> sessions_ = {SessionId("sess_idle"), SessionId("sess_parked")};
    std::unique_ptr<CrashingFs> base_;
};

TEST_P(StoreHistoriesTest, AreAllOrNothingVerbByVerbWhereverTheyAreCut) {
    const std::size_t length = GetParam();
    const std::vector<CutOutcome>& outcomes = cut_outcomes();
    CaseCount cases("cuts of histories of " + std::to_string(length));
    std::size_t turn = 0;
    for (const History& history : all_histories(length)) {
        for (std::int64_t cut = 1;; cut += kCaseStep) {
            StoreWorld world = world_.fork();
            const std::unique_ptr<CrashingFs> fs = base_->copy();
            if (!play(history, cut, world, *fs)) break;
            // Of the long ones each cut turns out in one way; over all of them every way is tried.
            const std::size_t tries = length < 3 ? outcomes.size() : 1;
            for (std::size_t i = 0; i < tries; ++i) {
                const CutOutcome& outcome = outcomes[turn++ % outcomes.size()];
                const std::unique_ptr<CrashingFs> disk = cut_power(*fs, outcome, cut);
                StoreWorld after = world.fork();
                cases.add(check_disk(after, *disk, Depth::recover),
                          name_of(history) + " cut at operation " + std::to_string(cut) +
                              " of the last, " + outcome.name,
                          *fs);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Lengths, StoreHistoriesTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace rouse::testing
