// Damaged bytes: found, named, confined to what they hit, and never thrown away (P6, W7, W8, T21).

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "store/files/archive.h"
#include "store/files/file_store.h"
#include "store/files/layout.h"
#include "store/files/session_index.h"
#include "store/files/verify.h"
#include "testing/crashing_fs.h"
#include "testing/store_workload.h"

namespace rouse {
namespace {

using testing::CrashingFs;
using testing::kStoreDirectory;

const SessionId kDamaged("sess_damaged");
const SessionId kHealthy("sess_healthy");
const std::string kLog = kStoreDirectory + "/sessions/sess_damaged.messages.jsonl";
const std::string kSnapshot = kStoreDirectory + "/sessions/sess_damaged.json";

std::string corpus(const std::string& name) {
    std::ifstream file(std::string(ROUSE_SOURCE_DIR) + "/testing/damaged_logs/" + name,
                       std::ios::binary);
    EXPECT_TRUE(file) << name;
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

class DamageTest : public ::testing::Test {
 protected:
    std::unique_ptr<FileStore> open(
        CrashingFs& fs, const FileStoreOptions& options = testing::tiny_store_options()) {
        Result<std::unique_ptr<FileStore>> store =
            FileStore::open(world_.env(fs), kStoreDirectory, options);
        EXPECT_TRUE(store) << (store ? "" : store.error().message);
        return store ? *std::move(store) : nullptr;
    }

    // What was committed stays in the journal.
    static FileStoreOptions without_checkpoints() {
        FileStoreOptions options = testing::tiny_store_options();
        options.checkpoint_bytes = 1 << 20;
        options.segment_bytes = 16 << 10;
        options.tail_bytes = 1 << 20;
        return options;
    }

    VerifyReport verified(CrashingFs& fs, VerifyMode mode = VerifyMode::look) {
        Result<VerifyReport> report = verify(world_.env(fs), kStoreDirectory, mode);
        EXPECT_TRUE(report) << (report ? "" : report.error().message);
        return report ? *std::move(report) : VerifyReport{};
    }

    static void add(Store& store, const SessionId& id, int messages) {
        SessionCreated created;
        created.id = id;
        ASSERT_TRUE(store.commit_and_wait(make_commit(id, 0, {created})));
        for (int i = 0; i < messages; ++i) {
            const MessageUser message{MessageId("msg_" + std::to_string(i)),
                                      text_content("message " + std::to_string(i)),
                                      false,
                                      {}};
            ASSERT_TRUE(store.commit_and_wait(make_commit(id, std::nullopt, {message})));
        }
    }

    static bool names(const VerifyReport& report, FindingKind kind, const std::string& file) {
        return std::ranges::any_of(report.findings, [&](const Finding& finding) {
            return finding.kind == kind && finding.file == file;
        });
    }

    // Every byte that was in the log is still somewhere in the directory.
    static void expect_no_byte_lost(const CrashingFs& fs, const std::string& before) {
        const std::string now = fs.read_raw(kLog).value_or("");
        ASSERT_TRUE(before.starts_with(now)) << "the log was changed";
        const std::string cut = before.substr(now.size());
        if (cut.empty()) return;
        bool kept = false;
        for (const auto& [path, bytes] : fs.files()) {
            kept = kept || (path.starts_with(kStoreDirectory + "/damaged/") && bytes == cut);
        }
        EXPECT_TRUE(kept) << cut.size() << " bytes are gone";
    }

    testing::StoreWorld world_;
};

struct CorpusCase {
    std::string name;
    bool damaged;            // set aside, or whole up to a torn tail
    std::size_t good_lines;  // readable in either case
};

class DamagedLogTest : public DamageTest, public ::testing::WithParamInterface<CorpusCase> {};

// A directory without an index: all there is, is the log.
TEST_P(DamagedLogTest, IsHealedOrSetAsideWithoutAnIndex) {
    const CorpusCase& c = GetParam();
    const std::string text = corpus(c.name + ".jsonl");
    CrashingFs fs;
    {
        const auto store = open(fs);
        add(*store, kHealthy, 3);
    }
    fs.write_raw(kLog, text);
    ASSERT_TRUE(fs.remove(kStoreDirectory + "/index.ckpt"));
    const bool torn = !c.damaged && !text.empty() && !text.ends_with('\n');
    const VerifyReport before = verified(fs);
    EXPECT_EQ(names(before, FindingKind::damage, kLog), c.damaged);
    EXPECT_EQ(names(before, FindingKind::stale, kLog), torn);

    const auto store = open(fs);
    EXPECT_TRUE(store->load(kHealthy)) << "one bad session stopped another";
    const auto loaded = store->load(kDamaged);
    if (c.damaged) {
        ASSERT_FALSE(loaded);
        EXPECT_EQ(loaded.error().reason, "session_damaged");
        ASSERT_EQ(store->health().damaged.size(), 1U);
        EXPECT_EQ(store->health().damaged[0].second.file, kLog);
        const MessageUser more{MessageId("msg_x"), text_content("more"), false, {}};
        const auto committed = store->commit_and_wait(make_commit(kDamaged, std::nullopt, {more}));
        ASSERT_FALSE(committed);
        EXPECT_EQ(committed.error().reason, "session_damaged");
    } else if (c.good_lines > 0) {
        ASSERT_TRUE(loaded) << loaded.error().message;
        EXPECT_EQ((*loaded)->last_seq, c.good_lines);
    } else {
        EXPECT_EQ(loaded.error().reason, "unknown_session");
    }
    if (c.good_lines > 0) {
        const auto lines = store->read(kDamaged, 1, 100);
        ASSERT_TRUE(lines) << lines.error().message;
        EXPECT_EQ(lines->size(), c.good_lines);
    }
    expect_no_byte_lost(fs, text);
}

// A directory that was closed cleanly: the index knows how the log ended.
TEST_P(DamagedLogTest, IsNoticedAgainstTheIndex) {
    const CorpusCase& c = GetParam();
    const std::string whole = corpus("whole.jsonl");
    const std::string text = corpus(c.name + ".jsonl");
    CrashingFs fs;
    {
        const auto store = open(fs);
        add(*store, kHealthy, 3);
    }
    fs.write_raw(kLog, whole);
    ASSERT_TRUE(fs.remove(kStoreDirectory + "/index.ckpt"));
    (void)open(fs)->close();
    ASSERT_TRUE(verified(fs).findings.empty());
    fs.write_raw(kLog, text);
    if (text == whole) return;

    EXPECT_FALSE(verified(fs).clean());
    const VerifyReport repaired = verified(fs, VerifyMode::repair);
    const bool whole_again = text.starts_with(whole);  // something stands behind a whole log
    EXPECT_EQ(repaired.clean(), whole_again);
    const auto store = open(fs);
    EXPECT_TRUE(store->load(kHealthy));
    EXPECT_EQ(store->load(kDamaged).has_value(), whole_again);
    expect_no_byte_lost(fs, text);
}

INSTANTIATE_TEST_SUITE_P(
    Corpus, DamagedLogTest,
    ::testing::Values(
        CorpusCase{"whole", false, 8}, CorpusCase{"torn_tail", false, 7},
        CorpusCase{"glued_stub", true, 5}, CorpusCase{"nul_run_in_the_middle", true, 4},
        CorpusCase{"nul_run_at_the_end", false, 7}, CorpusCase{"bad_line_in_the_middle", true, 3},
        CorpusCase{"duplicated_line", true, 5}, CorpusCase{"duplicated_last_line", true, 8},
        CorpusCase{"missing_line", true, 4}, CorpusCase{"swapped_lines", true, 4},
        CorpusCase{"rewritten_history", true, 1}, CorpusCase{"empty", false, 0}),
    [](const auto& test) { return test.param.name; });

TEST_F(DamageTest, ASnapshotThatIsTruncatedIsWrittenAnewAndNeverBelieved) {
    CrashingFs fs;
    {
        const auto store = open(fs);
        add(*store, kHealthy, 1);
    }
    fs.write_raw(kLog, corpus("whole.jsonl"));
    ASSERT_TRUE(fs.remove(kStoreDirectory + "/index.ckpt"));
    (void)open(fs)->close();
    EXPECT_EQ(fs.read_raw(kSnapshot), corpus("snapshot_whole.json"));
    for (const std::string& text : {corpus("snapshot_truncated.json"), std::string(),
                                    std::string(300, '\0'), std::string("{}\n")}) {
        fs.write_raw(kSnapshot, text);
        EXPECT_TRUE(names(verified(fs), FindingKind::stale, kSnapshot));
        EXPECT_EQ((*open(fs)->load(kDamaged))->last_seq, 8U);
        EXPECT_TRUE(verified(fs, VerifyMode::repair).findings.empty());
        EXPECT_EQ(fs.read_raw(kSnapshot), corpus("snapshot_whole.json"));
    }
}

TEST_F(DamageTest, AFlippedBitAnywhereInALogIsFoundAndConfined) {
    CrashingFs clean;
    {
        const auto store = open(clean);
        add(*store, kHealthy, 2);
        add(*store, kDamaged, 2);
    }
    const std::string text = *clean.read_raw(kLog);
    for (std::size_t at = 0; at < text.size(); ++at) {
        std::string flipped = text;
        flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
        const std::unique_ptr<CrashingFs> fs = clean.copy();
        fs->write_raw(kLog, flipped);
        ASSERT_TRUE(names(verified(*fs), FindingKind::damage, kLog)) << "at byte " << at;
        const auto store = open(*fs);
        const auto loaded = store->load(kDamaged);
        ASSERT_FALSE(loaded) << "at byte " << at;
        EXPECT_EQ(loaded.error().reason, "session_damaged");
        EXPECT_TRUE(store->load(kHealthy)) << "at byte " << at;
        (void)store->close();
        ASSERT_EQ(*fs->read_raw(kLog), flipped) << "the damaged log was written to";
    }
}

// Longer than what is read at once, with a line that is itself longer than that.
TEST_F(DamageTest, ALongLogIsReadWholeAndUpToWhereItWasCut) {
    constexpr std::size_t kMessages = 400;
    FileStoreOptions options = testing::tiny_store_options();
    options.segment_bytes = 1U << 20U;
    for (const std::size_t part : {100U, 99U, 50U, 10U}) {  // of a hundred
        CrashingFs fs;
        {
            const auto store = FileStore::open(world_.env(fs), kStoreDirectory, options);
            ASSERT_TRUE(store) << store.error().message;
            add(**store, kDamaged, 0);
            Records records;
            for (std::size_t i = 0; i < kMessages; ++i) {
                const std::size_t size = i == kMessages / 4 ? 200'000 : 1000 + i;
                records.emplace_back(MessageUser{MessageId("msg_" + std::to_string(i)),
                                                 text_content(std::string(size, 'x')),
                                                 false,
                                                 {}});
            }
            const auto added = (*store)->commit_and_wait(make_commit(kDamaged, 1, records));
            ASSERT_TRUE(added) << added.error().message;
        }
        const std::string text = fs.read_raw(kLog).value();
        const std::string left = text.substr(0, text.size() * part / 100);
        fs.write_raw(kLog, left);

        const auto store = FileStore::open(world_.env(fs), kStoreDirectory, options);
        ASSERT_TRUE(store) << store.error().message;
        const auto loaded = (*store)->load(kDamaged);
        EXPECT_EQ(loaded.has_value(), part == 100) << part;
        if (loaded) {
            EXPECT_EQ((*loaded)->last_seq, kMessages + 1);
        } else {
            EXPECT_EQ(loaded.error().reason, "session_damaged");
        }
        const auto lines = (*store)->read(kDamaged, 1, kMessages * 2);
        ASSERT_TRUE(lines) << lines.error().message;
        EXPECT_EQ(lines->size(), static_cast<std::size_t>(std::ranges::count(left, '\n'))) << part;
    }
}

// A long log's hashes are checked by another thread, a block ahead.
TEST_F(DamageTest, AFlippedBitInALongLogIsFoundInItsLine) {
    CrashingFs clean;
    {
        const auto store = open(clean);
        add(*store, kDamaged, 1);
        const MessageUser message{
            MessageId("msg_x"), text_content(std::string(2000, 'x')), false, {}};
        for (int i = 0; i < 500; ++i) {
            const Records records(2, message);
            ASSERT_TRUE(store->commit_and_wait(make_commit(kDamaged, std::nullopt, records)));
        }
    }
    const std::string text = *clean.read_raw(kLog);
    ASSERT_GT(text.size(), 2U << 20U);
    EXPECT_EQ((*open(clean)->load(kDamaged))->last_seq, 1002U);
    constexpr std::size_t kBlock = 512U << 10U;
    for (const std::size_t at : {std::size_t{9}, std::size_t{300}, kBlock - 1, kBlock, kBlock + 1,
                                 2 * kBlock, text.size() - 40, text.size() - 1}) {
        std::string flipped = text;
        flipped[at] = static_cast<char>(flipped[at] ^ 1);
        const std::unique_ptr<CrashingFs> fs = clean.copy();
        fs->write_raw(kLog, flipped);
        const auto store = open(*fs);
        const auto loaded = store->load(kDamaged);
        ASSERT_FALSE(loaded) << "at byte " << at;
        EXPECT_EQ(loaded.error().reason, "session_damaged") << "at byte " << at;
        const auto damaged = store->health().damaged;
        ASSERT_EQ(damaged.size(), 1U) << "at byte " << at;
        const std::size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
        EXPECT_EQ(damaged[0].second.offset, line) << "at byte " << at;
    }
}

TEST_F(DamageTest, AFlippedBitInTheIndexOnlyCostsARebuild) {
    CrashingFs clean;
    {
        const auto store = open(clean);
        add(*store, kHealthy, 2);
        add(*store, kDamaged, 2);
    }
    const std::string path = kStoreDirectory + "/index.ckpt";
    const std::string text = *clean.read_raw(path);
    for (std::size_t at = 0; at < text.size(); ++at) {
        std::string flipped = text;
        flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
        const std::unique_ptr<CrashingFs> fs = clean.copy();
        fs->write_raw(path, flipped);
        const auto store = open(*fs);
        ASSERT_TRUE(store) << "at byte " << at;
        EXPECT_EQ((*store->load(kHealthy))->last_seq, 3U) << "at byte " << at;
        EXPECT_EQ((*store->load(kDamaged))->last_seq, 3U) << "at byte " << at;
        (void)store->close();
        ASSERT_TRUE(verified(*fs).clean()) << "at byte " << at;
    }
}

// The process was killed, so that the index has the parts of many checkpoints: what is behind the
// damage is in the journal, or has been forgotten there and is in the logs alone.
TEST_F(DamageTest, AFlippedBitInAPartOfTheIndexLosesNothing) {
    FileStoreOptions options = testing::tiny_store_options();
    options.segment_bytes = 4U << 10U;
    options.checkpoint_bytes = 2U << 10U;
    std::unique_ptr<CrashingFs> clean;
    {
        CrashingFs fs;
        Result<std::unique_ptr<FileStore>> store =
            FileStore::open(world_.env(fs), kStoreDirectory, options);
        ASSERT_TRUE(store);
        add(**store, kHealthy, 20);
        add(**store, kDamaged, 20);
        clean = fs.copy();  // nobody closes this one
    }
    const std::string path = kStoreDirectory + "/index.ckpt";
    const std::string text = *clean->read_raw(path);
    files::JournalPosition position;
    const auto index = files::SessionIndex::parse(text, position);
    ASSERT_TRUE(index);
    ASSERT_EQ(index->file_bytes(), text.size());
    ASSERT_NE(text.rfind("\n{\"format\""), text.find("\n{\"format\"")) << "no parts";
    const auto expect_nothing_lost = [&](const std::string& damaged, const std::string& where) {
        const std::unique_ptr<CrashingFs> fs = clean->copy();
        fs->write_raw(path, damaged);
        EXPECT_FALSE(verified(*fs).findings.empty()) << where;
        const auto store = open(*fs);
        ASSERT_TRUE(store) << where;
        for (const SessionId& id : {kHealthy, kDamaged}) {
            const auto state = store->load(id);
            ASSERT_TRUE(state) << state.error().message << " " << where;
            EXPECT_EQ((*state)->last_seq, 21U) << where;
        }
        (void)store->close();
        ASSERT_TRUE(verified(*fs).clean()) << where;
    };
    for (std::size_t at = 0; at < text.size(); ++at) {
        std::string flipped = text;
        flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
        expect_nothing_lost(flipped, "flipped at byte " + std::to_string(at));
    }
    // Cut, as by a crash or by somebody.
    for (std::size_t length = text.find('\n') + 1; length < text.size(); ++length) {
        expect_nothing_lost(text.substr(0, length), "cut at byte " + std::to_string(length));
    }
}

// Nothing of the journal is in the logs yet: what it loses shows.
TEST_F(DamageTest, AFlippedBitInTheJournalLosesAtMostItsGroupAndSaysSo) {
    CrashingFs clean;
    std::size_t used = 0;
    {
        const auto store = open(clean, without_checkpoints());
        ASSERT_TRUE(store);
        add(*store, kHealthy, 2);
        add(*store, kDamaged, 2);
        clean.kill_process();
    }
    const std::string path = kStoreDirectory + "/journal/0000000001.log";
    const std::string text = *clean.read_raw(path);
    used = text.find_last_not_of('\0') + 1;
    ASSERT_LT(used, text.size());
    for (std::size_t at = 0; at < used; ++at) {
        std::string flipped = text;
        flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
        const std::unique_ptr<CrashingFs> fs = clean.copy();
        fs->write_raw(path, flipped);
        const VerifyReport before = verified(*fs);
        const auto store = open(*fs);
        ASSERT_TRUE(store) << "at byte " << at;
        // Each session is whole, or lost its end with the last group, or is set aside.
        std::size_t hit = 0;
        for (const SessionId& id : {kHealthy, kDamaged}) {
            const auto state = store->load(id);
            if (!state || (*state)->last_seq < 3) ++hit;
            EXPECT_TRUE(!state || (*state)->last_seq >= 2) << "at byte " << at;
        }
        EXPECT_LE(hit, 1U) << "at byte " << at;
        if (hit == 0) continue;
        EXPECT_FALSE(before.findings.empty()) << "silent loss at byte " << at;
        bool kept = false;
        for (const auto& [name, bytes] : fs->files()) {
            kept = kept || name.starts_with(kStoreDirectory + "/damaged/journal-");
        }
        // A group whose first bytes do not even look like one leaves nothing to keep.
        EXPECT_TRUE(kept || at % 512 < 8) << "at byte " << at;
    }
}

// A crash among the removals of recycling, on a disk that reorders them.
TEST_F(DamageTest, OldSegmentsBeforeAHoleGoAtTheNextOpening) {
    FileStoreOptions options = testing::tiny_store_options();
    options.journal_kept = Milliseconds(1 << 30);
    options.journal_kept_bytes = 1 << 30;
    CrashingFs fs;
    {
        auto store = FileStore::open(world_.env(fs), kStoreDirectory, options);
        ASSERT_TRUE(store);
        add(**store, kHealthy, 80);
        ASSERT_TRUE((*store)->close());
    }
    const std::string journal = kStoreDirectory + "/journal/000000000";
    ASSERT_TRUE(fs.read_raw(journal + "4.log"));
    ASSERT_TRUE(fs.remove(journal + "3.log"));
    ASSERT_FALSE(verified(fs).findings.empty());
    auto store = FileStore::open(world_.env(fs), kStoreDirectory, options);
    ASSERT_TRUE(store);
    EXPECT_EQ((*(*store)->load(kHealthy))->last_seq, 81U);
    ASSERT_TRUE((*store)->close());
    EXPECT_FALSE(fs.read_raw(journal + "2.log"));
    EXPECT_TRUE(fs.read_raw(journal + "4.log"));
    EXPECT_TRUE(verified(fs).findings.empty());
}

TEST_F(DamageTest, VerifyRefusesADirectoryInUseAndOneThatIsNone) {
    CrashingFs fs;
    const auto store = open(fs);
    EXPECT_EQ(verify(world_.env(fs), kStoreDirectory, VerifyMode::look).error().reason,
              "directory_in_use");
    EXPECT_EQ(verify(world_.env(fs), kStoreDirectory, VerifyMode::repair).error().reason,
              "directory_in_use");
    EXPECT_EQ(verify(world_.env(fs), "/elsewhere", VerifyMode::look).error().reason,
              "not_a_data_directory");
    EXPECT_EQ(FileStore::open(world_.env(fs), kStoreDirectory).error().reason, "directory_in_use");
}

TEST_F(DamageTest, ANewerFormatIsRefused) {  // T32
    CrashingFs fs;
    (void)open(fs)->close();
    fs.write_raw(kStoreDirectory + "/format", "{\"format\":3}\n");
    EXPECT_EQ(FileStore::open(world_.env(fs), kStoreDirectory).error().reason, "newer_format");
    for (const VerifyMode mode : {VerifyMode::look, VerifyMode::repair}) {
        EXPECT_EQ(verify(world_.env(fs), kStoreDirectory, mode).error().reason, "newer_format");
    }
    EXPECT_EQ(write_archive(world_.env(fs), kStoreDirectory, "/archive", {}).error().reason,
              "newer_format");
}

// Somebody made room, or copied a directory without it.
TEST_F(DamageTest, AJournalThatIsMissingOrCutIsNoticed) {
    CrashingFs disk;
    std::unique_ptr<CrashingFs> killed;
    {
        const auto store = open(disk);
        add(*store, kHealthy, 2);
        ASSERT_TRUE(store->checkpoint());
        const MessageUser last{MessageId("msg_last"), text_content("lost"), false, {}};
        ASSERT_TRUE(store->commit_and_wait(make_commit(kHealthy, std::nullopt, {last})));
        killed = disk.copy();
    }
    const std::string segment = kStoreDirectory + "/journal/0000000001.log";
    const std::string text = *killed->read_raw(segment);
    ASSERT_TRUE(verified(*killed).clean());
    // Cut, or gone, or gone with the next one there: prepared, or made by a start that was killed.
    enum class Lost { end, all, all_but_the_next };
    for (const Lost lost : {Lost::end, Lost::all, Lost::all_but_the_next}) {
        const std::unique_ptr<CrashingFs> damaged = killed->copy();
        damaged->write_raw(segment, text.substr(0, 512));
        if (lost != Lost::end) {
            EXPECT_TRUE(damaged->remove(segment));
        }
        if (lost == Lost::all_but_the_next) {
            damaged->write_raw(kStoreDirectory + "/journal/0000000002.log",
                               std::string(text.size(), '\0'));
        }
        EXPECT_TRUE(names(verified(*damaged), FindingKind::damage, segment));
        const auto store = open(*damaged);
        EXPECT_EQ((*store->load(kHealthy))->last_seq, 3U) << "what the checkpoint has";
        // Killed before there was anything to write: the index goes on with what is there by now.
        const std::unique_ptr<CrashingFs> again = damaged->copy();
        EXPECT_TRUE(verified(*again).clean());
        (void)open(*again);
        EXPECT_FALSE(again->read_raw(kStoreDirectory + "/damaged/index.ckpt"))
            << static_cast<int>(lost);
    }
}

// What is left of its log is whole, so only the report knows that records of it are missing.
TEST_F(DamageTest, WhatWasSetAsideStaysSoWhenTheIndexIsLost) {
    CrashingFs disk;
    std::unique_ptr<CrashingFs> fs;
    {
        const auto store = open(disk, without_checkpoints());
        add(*store, kDamaged, 1);
        ASSERT_TRUE(store->checkpoint());
        for (const char* text : {"damaged", "cannot follow"}) {
            const MessageUser message{MessageId("msg_later"), text_content(text), false, {}};
            ASSERT_TRUE(store->commit_and_wait(make_commit(kDamaged, std::nullopt, {message})));
        }
        fs = disk.copy();
    }
    const std::string journal = kStoreDirectory + "/journal/0000000001.log";
    std::string text = *fs->read_raw(journal);
    text[text.find("\"damaged\"") + 1] = 'D';
    fs->write_raw(journal, text);
    const auto damaged = open(*fs)->health().damaged;  // and closed with a checkpoint
    ASSERT_EQ(damaged.size(), 1U);
    ASSERT_TRUE(fs->remove(kStoreDirectory + "/index.ckpt"));
    for (const char* opening : {"without an index", "with the new one"}) {
        const auto store = open(*fs);
        EXPECT_EQ(store->health().damaged, damaged) << opening;
        const MessageUser more{MessageId("msg_more"), text_content("more"), false, {}};
        const Result<Committed> refused =
            store->commit_and_wait(make_commit(kDamaged, std::nullopt, {more}));
        ASSERT_FALSE(refused) << opening;
        EXPECT_EQ(refused.error().reason, "session_damaged") << opening;
    }
}

// Deleted, and brought back from a backup; the report is still there.
TEST_F(DamageTest, AReportOfAnEarlierLifeDoesNotCount) {
    CrashingFs fs;
    {
        const auto store = open(fs);
        add(*store, kDamaged, 2);
    }
    fs.write_raw(kStoreDirectory + "/damaged/sess_damaged.json",
                 "{\"file\":\"" + kLog + "\",\"offset\":1,\"reason\":\"a record is missing\"}\n");
    ASSERT_TRUE(fs.remove(kStoreDirectory + "/index.ckpt"));
    const auto store = open(fs);
    EXPECT_TRUE(store->health().damaged.empty());
    const auto state = store->load(kDamaged);
    ASSERT_TRUE(state) << state.error().message;
    EXPECT_EQ((*state)->last_seq, 3U);
}

}  // namespace
}  // namespace rouse
