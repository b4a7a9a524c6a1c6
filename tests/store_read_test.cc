// Reading parts of a long log and of the journal: what stands where, and how much of the files is
// read for it.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/id_source.h"
#include "store/files/file_store.h"
#include "testing/crashing_fs.h"
#include "testing/forwarding_fs.h"
#include "testing/seeded_random.h"
#include "testing/store_workload.h"

namespace rouse {
namespace {

using testing::CrashingFs;
using testing::kStoreDirectory;
using testing::SeededRandom;

// Counts what is read of the files.
class CountingFs final : public testing::ForwardingFs {
 public:
    using ForwardingFs::ForwardingFs;
    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
        Result<std::unique_ptr<File>> file = ForwardingFs::open(path, mode);
        if (!file) return file;
        return std::make_unique<CountingFile>(*std::move(file), bytes_);
    }
    std::uint64_t take_bytes() { return std::exchange(bytes_, 0); }

 private:
    class CountingFile final : public testing::ForwardingFile {
     public:
        CountingFile(std::unique_ptr<File> file, std::uint64_t& bytes)
            : ForwardingFile(std::move(file)), bytes_(bytes) {}
        Result<std::size_t> read_some_at(std::uint64_t offset, std::span<char> into) override {
            const Result<std::size_t> read = ForwardingFile::read_some_at(offset, into);
            bytes_ += read ? *read : 0;
            return read;
        }

     private:
        std::uint64_t& bytes_;
    };

    std::uint64_t bytes_ = 0;
};

class StoreReadTest : public ::testing::Test {
 protected:
    explicit StoreReadTest(FileStoreOptions options = {}) {
        options.threads = FileStoreOptions::Threads::none;
        Result<std::unique_ptr<FileStore>> opened = FileStore::open(env_, kStoreDirectory, options);
        EXPECT_TRUE(opened);
        store_ = *std::move(opened);
        SessionCreated created;
        created.id = id_ = ids_.make<SessionId>();
        commit({created});
    }

    void commit(Records records) {
        EXPECT_TRUE(store_->commit_and_wait(make_commit(id_, std::nullopt, std::move(records))));
    }
    void say(std::size_t letters) {
        commit({MessageUser{
            ids_.make<MessageId>(), text_content(std::string(letters, 'x')), false, {}}});
    }
    std::vector<std::string> read(Seq from, std::size_t limit) {
        const Result<std::vector<std::string>> lines = store_->read(id_, from, limit);
        EXPECT_TRUE(lines) << (lines ? "" : lines.error().message);
        return lines ? *lines : std::vector<std::string>();
    }
    // What read() should give, from all there is.
    static std::vector<std::string> slice(const std::vector<std::string>& all, Seq from,
                                          std::size_t limit) {
        std::vector<std::string> lines;
        for (std::size_t at = from - 1; at < all.size() && lines.size() < limit; ++at)
            lines.push_back(all[at]);
        return lines;
    }

    SystemClock clock_;
    SystemRandom random_;
    Logger log_{LogLevel::off};
    IdSource ids_{clock_, random_};
    CrashingFs disk_;
    CountingFs fs_{disk_};
    Env env_{clock_, random_, fs_, log_};
    std::unique_ptr<FileStore> store_;
    SessionId id_;
};

TEST_F(StoreReadTest, EveryPartOfALogIsWhatStandsThere) {
    SeededRandom rng(3);
    for (const std::size_t most : {10U, 1'000U, 300'000U}) {
        for (int i = 0; i < 150; ++i)
            say(rng.below(5) == 0 ? rng.below(most) : 10);
        ASSERT_TRUE(store_->checkpoint());
    }
    for (int i = 0; i < 20; ++i)
        say(100);  // behind what is in the file
    const std::vector<std::string> all = read(1, SIZE_MAX);
    ASSERT_EQ(all.size(), 471U);
    for (Seq seq = 1; seq <= all.size(); ++seq)
        ASSERT_TRUE(all[seq - 1].starts_with("{\"seq\":" + std::to_string(seq) + ","));
    for (Seq from = 1; from <= all.size() + 2; ++from) {
        for (const std::size_t limit : {std::size_t{0}, std::size_t{1}, std::size_t{40}, SIZE_MAX})
            ASSERT_EQ(read(from, limit), slice(all, from, limit)) << from << " " << limit;
    }
}

TEST_F(StoreReadTest, APartOfALongLogIsReadWithoutTheRest) {
    for (int i = 0; i < 20'000; ++i)
        say(300);
    ASSERT_TRUE(store_->checkpoint());
    const std::uint64_t size = store_->log_bytes(id_);
    ASSERT_GT(size, 8'000'000U);
    for (const Seq from : {1, 5'000, 10'000, 19'000}) {
        (void)fs_.take_bytes();
        EXPECT_EQ(read(from, 50).size(), 50U);
        EXPECT_LT(fs_.take_bytes(), size / 20) << from;
    }
    // A reader that goes through it in steps reads each byte a few times at most.
    (void)fs_.take_bytes();
    Seq next = 1;
    while (const std::size_t got = read(next, 500).size())
        next += got;
    EXPECT_EQ(next, 20'002U);
    EXPECT_LT(fs_.take_bytes(), 4 * size);
}

class JournalReadTest : public StoreReadTest {
 protected:
    static constexpr std::uint64_t kSegment = 16 << 20;
    static constexpr std::uint64_t kLetters = 100'000;
    static constexpr std::uint64_t kCommits = 3 * kSegment / kLetters;
    static constexpr std::size_t kPage = 20;

    JournalReadTest() : StoreReadTest({.segment_bytes = kSegment}) {
        start_ = store_->read_commits({}, 1)->front().cursor;
        for (std::uint64_t i = 0; i < kCommits; ++i)
            say(kLetters);
    }
    static std::string segment(int number) {
        return kStoreDirectory + "/journal/000000000" + std::to_string(number) + ".log";
    }
    // Until the end or the first error.
    Result<std::size_t> follow() {
        std::size_t commits = 0;
        for (Cursor cursor = start_;;) {
            const Result<std::vector<CommittedLines>> page = store_->read_commits(cursor, kPage);
            if (!page) return page.error();
            if (page->empty()) return commits;
            commits += page->size();
            cursor = page->back().cursor;
        }
    }

    Cursor start_;
};

TEST_F(JournalReadTest, WhoFollowsInPagesReadsTheJournalAFewTimesAtMost) {
    (void)fs_.take_bytes();
    const Result<std::size_t> commits = follow();
    ASSERT_TRUE(commits) << commits.error().message;
    EXPECT_EQ(*commits, kCommits);
    EXPECT_LT(fs_.take_bytes(), 2 * 3 * kSegment);
}

// A damaged group of an earlier segment was in the logs long ago: the store does without it, but
// who follows must not be led past it.
TEST_F(JournalReadTest, WhoFollowsIsToldThatAGroupIsMissing) {
    ASSERT_TRUE(store_->checkpoint());
    const std::string whole = *disk_.read_raw(segment(2));
    for (const std::size_t at : {std::size_t{2'000}, whole.size() / 2, whole.size() - 200'000}) {
        std::string flipped = whole;
        flipped[at] = static_cast<char>(flipped[at] ^ 1);
        disk_.write_raw(segment(2), flipped);
        const Result<std::size_t> commits = follow();
        ASSERT_FALSE(commits) << *commits << " commits, damaged at " << at;
        EXPECT_EQ(commits.error().reason, "cursor_too_old");
    }
    disk_.write_raw(segment(2), whole);
    EXPECT_TRUE(follow());
}

}  // namespace
}  // namespace rouse
