// What the files store finds in the text of its index is what a store finds that looks at values.

#include <gtest/gtest.h>

#include <memory>

#include "base/env.h"
#include "base/id_source.h"
#include "domain/wait_rules.h"
#include "store/files/file_store.h"
#include "store/memory/memory_store.h"
#include "testing/crashing_fs.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse {
namespace {

const BootId kBoot("boot_1");
const BootId kEarlierBoot("boot_0");

// Among them some that look like a part of a row.
const std::vector<std::string> kTexts = {
    "",    "a",  "b",           "a\",\"task\":\"b",           "\"phase\":\"parked\"",
    "a\\", "\"", "line\nbreak", "x\",\"wait\":\"external\",", "ä\",\"alias\":\"a"};

// The same commits in both stores.
class TwoStores {
 public:
    explicit TwoStores(std::uint64_t seed) : random_(seed), ids_(clock_, random_) {
        clock_.set(from_epoch_ms(1'800'000'000'000));
        FileStoreOptions options;
        options.threads = FileStoreOptions::Threads::none;
        files_ = *FileStore::open(Env{clock_, random_, fs_, log_}, "/data", options);
    }

    Store& files() { return *files_; }
    Store& memory() { return memory_; }
    void checkpoint() { EXPECT_TRUE(files_->checkpoint()); }
    Timestamp now() { return clock_.now(); }

    std::size_t below(std::size_t end) { return random_.below(end); }
    template <class T>
    const T& one_of(const std::vector<T>& values) {
        return values[below(values.size())];
    }

    void add_session() {
        SessionCreated session;
        session.id = ids_.make<SessionId>();
        session.title = one_of(kTexts);
        session.agent = one_of(kTexts);
        session.task_id = one_of(kTexts);
        session.alias = one_of(kTexts);
        session.external_id = one_of(kTexts);
        if (!sessions_.empty() && below(3) == 0) {
            session.parent.emplace().session_id = one_of(sessions_);
        }
        sessions_.push_back(session.id);
        commit(session.id, {session});
    }

    // Anything that shows in a row.
    void change_session() {
        clock_.advance(Milliseconds(below(2000)));
        const SessionId id = one_of(sessions_);
        const auto state = memory_.load(id);
        if (!state) return;
        SessionUpdated renamed;
        renamed.alias = one_of(kTexts);
        switch (below(8)) {
            case 0: return commit(id, {renamed});
            case 1: return delete_session(id);
            case 2: return start_run(id, **state);
            case 3: return end_run(id, **state);
            default: return park(id, **state);
        }
    }

 private:
    void commit(const SessionId& id, const Records& records) {
        for (Store* store : {&files(), &memory()})
            EXPECT_TRUE(store->commit_and_wait(make_commit(id, std::nullopt, records)));
    }
    void delete_session(const SessionId& id) {
        commit(id, {SessionDeleted{}});
        std::erase(sessions_, id);
    }
    void start_run(const SessionId& id, const SessionState& state) {
        if (state.run_is_open()) return;
        const BootId& boot = below(2) == 0 ? kBoot : kEarlierBoot;
        commit(id, {RunStarted{ids_.make<RunId>(), boot, {}, {}}});
    }
    void end_run(const SessionId& id, const SessionState& state) {
        if (!state.run_is_open() || state.is_parked()) return;
        if (below(2) == 0) return commit(id, {RunCompleted{state.run->run_id, {}}});
        const auto reason =
            below(2) == 0 ? InterruptReason::wait_timeout : InterruptReason::process_restart;
        commit(id, {RunInterrupted{state.run->run_id, reason}});
    }
    void park(const SessionId& id, const SessionState& state) {
        if (state.is_parked()) return;
        if (!state.run_is_open()) start_run(id, state);
        ParkCommand park;
        park.run_id = (*memory_.load(id))->run->run_id;
        park.wait_id = ids_.make<WaitId>();
        park.token = {ids_.make<TokenId>(), hash_of_secret(ids_.secret())};
        const std::size_t calls = 1 + below(2);
        for (std::size_t i = 0; i < calls; ++i) {
            PendingCreated call;
            call.pending_id = make_pending_id(id, ids_.random_text(20));
            call.call_id = {"call_" + std::to_string(i)};
            call.run_id = park.run_id;
            call.tool = one_of(kTexts);
            call.waits_for = one_of(std::vector{WaitsFor::external, WaitsFor::person,
                                                WaitsFor::timer, WaitsFor::message});
            if (below(3) > 0) call.expires_at = now() + Milliseconds(below(5) * 1000);
            park.calls.push_back(call);
        }
        const Result<Records> records = plan_park(**memory_.load(id), park);
        ASSERT_TRUE(records);
        commit(id, *records);
    }

    testing::ManualClock clock_;
    testing::SeededRandom random_;
    testing::CrashingFs fs_;
    Logger log_{LogLevel::off};
    IdSource ids_;
    std::unique_ptr<FileStore> files_;
    MemoryStore memory_{clock_};
    std::vector<SessionId> sessions_;
};

std::optional<std::string> maybe_text(TwoStores& stores) {
    if (stores.below(3) > 0) return std::nullopt;
    return stores.one_of(kTexts);
}

SessionFilter some_sessions(TwoStores& stores) {
    SessionFilter filter;
    filter.boot = kBoot;
    filter.now = stores.now();
    filter.agent = maybe_text(stores);
    filter.task_id = maybe_text(stores);
    filter.alias = maybe_text(stores);
    filter.external_id = maybe_text(stores);
    filter.has_alias = stores.below(4) == 0;
    if (stores.below(3) == 0) filter.suspended = stores.below(2) == 0;
    if (stores.below(2) == 0) filter.status = static_cast<SessionStatus>(stores.below(5));
    if (stores.below(4) == 0) filter.updated_before = stores.now() - Milliseconds(20'000);
    filter.limit = 1 + stores.below(4);
    return filter;
}

PendingFilter some_calls(TwoStores& stores) {
    PendingFilter filter;
    if (stores.below(2) == 0) filter.waits_for = static_cast<WaitsFor>(stores.below(4));
    if (stores.below(4) == 0) filter.status = static_cast<PendingStatus>(stores.below(3));
    if (const auto tool = maybe_text(stores)) {
        filter.takes_tool = [tool](std::string_view name) { return name == *tool; };
    }
    for (std::size_t tasks = stores.below(3); tasks > 0; --tasks)
        filter.tasks.push_back(stores.one_of(kTexts));
    if (stores.below(3) == 0) {
        const std::vector<SessionSummary> some = stores.memory().list({});
        if (!some.empty()) filter.from = some[stores.below(some.size())].id;
    }
    filter.limit = 1 + stores.below(4);
    return filter;
}

WaitFilter some_waits(TwoStores& stores) {
    WaitFilter filter;
    if (stores.below(2) == 0) filter.kind = static_cast<WaitKind>(stores.below(6));
    filter.task_id = maybe_text(stores);
    filter.agent = maybe_text(stores);
    for (std::size_t tasks = stores.below(3); tasks > 0; --tasks)
        filter.tasks.push_back(stores.one_of(kTexts));
    filter.limit = 1 + stores.below(4);
    return filter;
}

std::vector<SessionSummary> page_of(Store& store, const SessionFilter& filter) {
    return store.list(filter);
}
std::vector<OpenPending> page_of(Store& store, const PendingFilter& filter) {
    return store.pending(filter);
}
std::vector<SessionSummary> page_of(Store& store, const WaitFilter& filter) {
    return store.waits(filter);
}

void go_behind(SessionFilter& filter, const SessionSummary& last) {
    filter.before = last.id;
}
void go_behind(PendingFilter& filter, const OpenPending& last) {
    // A cursor that people see is a part of the id.
    const std::string& id = last.call.pending_id.text();
    filter.after = PendingId(id.substr(0, id.rfind('_') + 9));
}
void go_behind(WaitFilter& filter, const SessionSummary& last) {
    filter.after = wait_position(last);
}

template <class Filter>
auto all_pages(Store& store, Filter filter) {
    auto all = page_of(store, filter);
    for (std::size_t seen = 0; all.size() - seen == filter.limit;) {
        seen = all.size();
        go_behind(filter, all.back());
        for (auto& one : page_of(store, filter))
            all.push_back(std::move(one));
    }
    return all;
}

TEST(StoreListsTest, TheTextOfTheIndexTellsWhatItsValuesTell) {
    std::size_t found = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        TwoStores stores(seed);
        // Rows of the last checkpoint, rows that changed since, new ones and deleted ones.
        for (int i = 0; i < 40; ++i)
            stores.add_session();
        for (int i = 0; i < 120; ++i)
            stores.change_session();
        stores.checkpoint();
        for (int i = 0; i < 5; ++i)
            stores.add_session();
        for (int i = 0; i < 15; ++i)
            stores.change_session();
        EXPECT_EQ(stores.files().count_waits(), stores.memory().count_waits());
        for (int i = 0; i < 150 && !::testing::Test::HasFailure(); ++i) {
            const SessionFilter sessions = some_sessions(stores);
            const auto listed = all_pages(stores.files(), sessions);
            EXPECT_TRUE(listed == all_pages(stores.memory(), sessions)) << "filter " << i;
            const PendingFilter calls = some_calls(stores);
            const auto pending = all_pages(stores.files(), calls);
            EXPECT_TRUE(pending == all_pages(stores.memory(), calls)) << "filter " << i;
            const WaitFilter waits = some_waits(stores);
            const auto waiting = all_pages(stores.files(), waits);
            EXPECT_TRUE(waiting == all_pages(stores.memory(), waits)) << "filter " << i;
            found += listed.size() + pending.size() + waiting.size();
        }
    }
    EXPECT_GT(found, 10'000U);  // else the filters took nothing, and proved nothing
}

}  // namespace
}  // namespace rouse
