// Fs::replace_file on a disk that loses power at every step, and versions of it with a step
// missing, which must be found: otherwise the first proves nothing.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/fs.h"
#include "testing/crashing_fs.h"

namespace rouse {
namespace {

using testing::CrashingFs;
using testing::DiskModel;

constexpr std::uint64_t kSeeds = 64;
constexpr DiskModel kModels[] = {DiskModel::lose_unsynced, DiskModel::keep_any_subset,
                                 DiskModel::tear_last_write};

// Replaces a file in every way the power can go, then looks at what is there. Gives back what is
// wrong: neither the old content nor the new one, or not the new one although that was reported.
using Replace = Result<void> (*)(Fs& fs, const std::string& path, std::string_view content);

std::vector<std::string> faults_of(Replace replace) {
    const std::string old_content(1300, 'o');
    const std::string new_content(1700, 'n');
    std::vector<std::string> faults;
    bool cut = true;
    for (std::int64_t at = 1; cut; ++at) {
        for (const DiskModel model : kModels) {
            for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
                CrashingFs fs;
                fs.write_raw("/d/a", old_content);
                fs.set_plan({.crash_at = at, .seed = seed});
                const bool reported = replace(fs, "/d/a", new_content).has_value();
                cut = fs.crashed();
                fs.restart(model, seed);
                const std::string content = fs.read_raw("/d/a").value_or("missing");
                if (content == new_content || (content == old_content && !reported)) continue;
                faults.push_back(
                    (content == old_content ? "old content, model " : "neither, model ") +
                    std::to_string(static_cast<int>(model)) + " seed " + std::to_string(seed) +
                    "\n" + fs.trace());
            }
        }
    }
    return faults;
}

TEST(ReplaceFileTest, LeavesTheOldContentOrTheNewWhereverItIsCut) {  // S2-76 S2-77 S2-103 S2-106 W4
    const std::vector<std::string> faults =
        faults_of([](Fs& fs, const std::string& path, std::string_view content) {
            return fs.replace_file(path, content);
        });
    EXPECT_TRUE(faults.empty()) << faults.size() << " faults, the first: " << faults.front();
}

TEST(ReplaceFileTest, WithoutSyncOfTheTemporaryFileItIsFoundCorrupt) {
    const std::vector<std::string> faults =
        faults_of([](Fs& fs, const std::string& path, std::string_view content) -> Result<void> {
            if (auto done = fs.replace_view(path, content); !done) return done;
            return fs.sync_directory(parent_directory(path));
        });
    EXPECT_TRUE(std::ranges::any_of(
        faults, [](const std::string& fault) { return fault.starts_with("neither"); }));
}

TEST(ReplaceFileTest, WithoutSyncOfTheDirectoryTheOldContentComesBack) {
    const std::vector<std::string> faults =
        faults_of([](Fs& fs, const std::string& path, std::string_view content) -> Result<void> {
            const std::string temporary = path + ".tmp";
            auto file = fs.make_file(temporary);
            if (!file) return file.error();
            if (auto done = (*file)->write_at(0, content); !done) return done;
            if (auto done = (*file)->sync(); !done) return done;
            return fs.rename(temporary, path);
        });
    EXPECT_FALSE(faults.empty());
    EXPECT_TRUE(std::ranges::all_of(
        faults, [](const std::string& fault) { return fault.starts_with("old content"); }));
}

// After a crash the temporary name may lead to the same file as the real one.
TEST(ReplaceFileTest, SecondReplaceAfterACrashIsAsSafeAsTheFirst) {  // W4
    const std::string contents[] = {"one", std::string(600, '2'), std::string(1100, '3')};
    for (std::int64_t first = 1; first <= 5; ++first) {
        for (std::uint64_t seed = 1; seed <= 16; ++seed) {
            CrashingFs start;
            start.write_raw("/d/a", contents[0]);
            start.set_plan({.crash_at = first, .seed = seed});
            EXPECT_FALSE(start.replace_file("/d/a", contents[1]));
            start.restart(DiskModel::keep_any_subset, seed);
            bool cut = true;
            for (std::int64_t second = 1; cut; ++second) {
                const auto fs = start.copy();
                fs->set_plan({.crash_at = second, .seed = seed});
                const bool reported = fs->replace_file("/d/a", contents[2]).has_value();
                cut = fs->crashed();
                fs->restart(DiskModel::keep_any_subset, seed + static_cast<std::uint64_t>(second));
                const std::string content = fs->read_raw("/d/a").value_or("missing");
                ASSERT_TRUE(reported ? content == contents[2]
                                     : std::ranges::find(contents, content) != std::end(contents))
                    << "seed " << seed << ", " << content.size() << " bytes\n"
                    << fs->trace();
            }
        }
    }
}

}  // namespace
}  // namespace rouse
