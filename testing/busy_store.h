#pragma once

// A store that keeps two logs open: whatever comes to rest beside them is written down.

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "store/files/file_store.h"
#include "store/files/layout.h"
#include "store/files/verify.h"
#include "testing/crashing_fs.h"
#include "testing/session_driver.h"
#include "testing/store_workload.h"

namespace rouse::testing {

class BusyStoreTest : public ::testing::Test {
 protected:
    static constexpr std::size_t kOpenLogs = 2;

    BusyStoreTest() { open(); }

    void open() {
        FileStoreOptions options;
        options.threads = FileStoreOptions::Threads::none;
        options.segment_bytes = 32U << 10U;
        options.journal_kept = Milliseconds(0);
        options.journal_kept_bytes = 0;
        options.open_logs = kOpenLogs;
        Result<std::unique_ptr<FileStore>> opened =
            FileStore::open(world_.env(*disk_), kStoreDirectory, options);
        ASSERT_TRUE(opened) << opened.error().message;
        store_ = *std::move(opened);
    }
    void commit(SessionDriver& driver, Result<Records> planned) {
        ASSERT_TRUE(planned) << planned.error().message;
        const Result<Committed> done =
            store_->commit_and_wait(make_commit(driver.id(), driver.state().last_seq, *planned));
        ASSERT_TRUE(done) << done.error().message;
        driver.apply(*planned, done->appends.front().first, world_.clock.now());
    }
    // It waits for a call.
    void park(SessionDriver& driver) {
        commit(driver, driver.create());
        commit(driver, driver.message());
        commit(driver, driver.say_and_park({{}}));
    }
    void finish(SessionDriver& driver) {
        commit(driver, driver.settle(driver.pending(0), text_result("done")));
        commit(driver, driver.complete());
    }
    void end(SessionDriver& driver) {
        park(driver);
        finish(driver);
    }
    // So that whatever came to rest before is written down.
    void make_others_end() {
        for (std::size_t i = 0; i <= kOpenLogs; ++i)
            end(others_.emplace_back(100 + others_.size()));
    }

    std::string what_is_wrong(VerifyMode mode = VerifyMode::look) {
        const Result<VerifyReport> report = verify(world_.env(*disk_), kStoreDirectory, mode);
        if (!report) return report.error().message;
        return report->clean()
                   ? ""
                   : report->findings.front().file + ": " + report->findings.front().what;
    }

    StoreWorld world_;
    std::unique_ptr<CrashingFs> disk_ = std::make_unique<CrashingFs>();
    files::Layout layout_{kStoreDirectory};
    std::unique_ptr<FileStore> store_;
    std::deque<SessionDriver> others_;
};

}  // namespace rouse::testing
