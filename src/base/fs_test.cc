// The real file system, in a directory that each test makes and removes.

#include "base/fs.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace rouse {
namespace {

class FsTest : public ::testing::Test {
 protected:
    FsTest() {
        if (::mkdtemp(root_.data()) == nullptr) ADD_FAILURE() << "no temporary directory";
    }
    ~FsTest() override { std::filesystem::remove_all(root_); }

    std::string at(const std::string& name) const { return root_ + "/" + name; }

    std::unique_ptr<File> open_file(const std::string& name, OpenMode mode) {
        Result<std::unique_ptr<File>> file = fs_.open(at(name), mode);
        if (!file) ADD_FAILURE() << file.error().message;
        return file ? *std::move(file) : nullptr;
    }

    unsigned rights(const std::string& name) const {
        struct stat info{};
        EXPECT_EQ(::stat(at(name).c_str(), &info), 0);
        return info.st_mode & 0777U;
    }

    RealFs fs_;
    std::string root_ = std::filesystem::temp_directory_path() / "rouse_fs_XXXXXX";
};

TEST_F(FsTest, ReadsWhatItWrote) {
    const auto file = open_file("a", OpenMode::create);
    EXPECT_TRUE(file->write_at(3, "def"));
    EXPECT_TRUE(file->write_at(0, "abc"));
    EXPECT_TRUE(file->sync_data());
    EXPECT_TRUE(file->sync());
    EXPECT_EQ(file->size(), 6U);
    EXPECT_EQ(file->read_at(2, 3), "cde");
    EXPECT_TRUE(file->truncate(4));
    EXPECT_TRUE(file->allocate(6));
    EXPECT_EQ(file->read_at(0, 100), std::string("abcd\0\0", 6));
    EXPECT_TRUE(file->close());
    EXPECT_FALSE(file->close());
    EXPECT_EQ(fs_.read_file(at("a")), std::string("abcd\0\0", 6));
}

TEST_F(FsTest, ReadStopsAtTheEnd) {
    const auto file = open_file("a", OpenMode::create);
    ASSERT_TRUE(file->write_at(0, "abc"));
    char buffer[8];
    EXPECT_EQ(file->read_some_at(0, buffer), 3U);
    EXPECT_EQ(file->read_some_at(3, buffer), 0U);
    EXPECT_EQ(file->read_at(1, 8), "bc");
    EXPECT_EQ(file->read_at(9, 8), "");
}

TEST_F(FsTest, OpenModesDoWhatTheySay) {
    EXPECT_EQ(fs_.open(at("a"), OpenMode::read).error().kind, ErrorKind::not_found);
    EXPECT_EQ(fs_.open(at("a"), OpenMode::write).error().kind, ErrorKind::not_found);
    EXPECT_TRUE(open_file("a", OpenMode::create)->write_at(0, "abc"));
    EXPECT_EQ(open_file("a", OpenMode::create)->size(), 3U);
    EXPECT_TRUE(open_file("a", OpenMode::write)->write_at(3, "d"));
    const auto read_only = open_file("a", OpenMode::read);
    EXPECT_EQ(read_only->write_at(0, "x").error().reason, "io_error");
    EXPECT_EQ(read_only->read_at(0, 9), "abcd");
    EXPECT_EQ(fs_.open(at("a"), OpenMode::create_new).error().reason, "file_exists");
    EXPECT_EQ(open_file("a", OpenMode::read)->size(), 4U);
    EXPECT_EQ(open_file("b", OpenMode::create_new)->size(), 0U);
}

TEST_F(FsTest, MissingPathsAreNotFound) {
    const auto kind = [](const auto& result) {
        return result ? ErrorKind::internal : result.error().kind;
    };
    EXPECT_EQ(kind(fs_.read_file(at("x"))), ErrorKind::not_found);
    EXPECT_EQ(kind(fs_.open(at("x/y"), OpenMode::create)), ErrorKind::not_found);
    EXPECT_EQ(kind(fs_.status(at("x"))), ErrorKind::not_found);
    EXPECT_EQ(kind(fs_.list(at("x"))), ErrorKind::not_found);
    EXPECT_EQ(kind(fs_.make_directory(at("x/y"))), ErrorKind::not_found);
    EXPECT_EQ(kind(fs_.rename(at("x"), at("y"))), ErrorKind::not_found);
    EXPECT_EQ(kind(fs_.remove(at("x"))), ErrorKind::not_found);
    EXPECT_EQ(kind(fs_.sync_directory(at("x"))), ErrorKind::not_found);
    EXPECT_EQ(kind(fs_.sync_file_system(at("x"))), ErrorKind::not_found);
    EXPECT_EQ(kind(fs_.lock(at("x/lock"))), ErrorKind::not_found);
}

TEST_F(FsTest, ErrorsNameOperationAndPath) {
    ASSERT_TRUE(fs_.replace_file(at("file"), "x"));
    const Result<void> made = fs_.make_directory(at("file/d"));
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().kind, ErrorKind::io);
    EXPECT_EQ(made.error().reason, "io_error");
    EXPECT_EQ(made.error().message, "make directory " + at("file/d") + ": Not a directory");
}

TEST_F(FsTest, FullDiskIsToldApart) {  // W10
    Result<std::unique_ptr<File>> full = fs_.open("/dev/full", OpenMode::write);
    if (!full) GTEST_SKIP() << "no /dev/full here";
    const Result<void> written = (*full)->write_at(0, "x");
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().kind, ErrorKind::io);
    EXPECT_EQ(written.error().reason, "disk_full");
}

TEST_F(FsTest, ListsSortedNames) {
    ASSERT_TRUE(fs_.make_directory(at("d")));
    ASSERT_TRUE(fs_.make_directory(at("d")));
    for (const char* name : {"b", "a", "C"})
        ASSERT_TRUE(fs_.replace_view(at(name), "x"));
    EXPECT_EQ(fs_.list(root_), (std::vector<std::string>{"C", "a", "b", "d"}));
    EXPECT_TRUE(fs_.status(at("d"))->directory);
    EXPECT_FALSE(fs_.status(at("a"))->directory);
    EXPECT_EQ(fs_.status(at("a"))->size, 1U);
    ASSERT_TRUE(fs_.remove(at("a")));
    ASSERT_TRUE(fs_.rename(at("b"), at("C")));
    EXPECT_EQ(fs_.list(root_), (std::vector<std::string>{"C", "d"}));
}

TEST_F(FsTest, NobodyElseMayReadWhatItMakes) {  // T20
    const mode_t before = ::umask(0);
    EXPECT_TRUE(fs_.make_directory(at("d")));
    EXPECT_TRUE(fs_.replace_file(at("a"), "x"));
    EXPECT_TRUE(fs_.lock(at("lock")));
    ::umask(before);
    EXPECT_EQ(rights("d"), 0700U);
    EXPECT_EQ(rights("a"), 0600U);
    EXPECT_EQ(rights("lock"), 0600U);
}

TEST_F(FsTest, ReplaceLeavesOnlyTheNewContent) {
    ASSERT_TRUE(fs_.replace_file(at("a"), "the first and longer one"));
    ASSERT_TRUE(fs_.replace_file(at("a"), "second"));
    EXPECT_EQ(fs_.read_file(at("a")), "second");
    ASSERT_TRUE(fs_.replace_view(at("a"), ""));
    EXPECT_EQ(fs_.read_file(at("a")), "");
    EXPECT_EQ(fs_.list(root_), std::vector<std::string>{"a"});
}

TEST_F(FsTest, ReadsNoMoreThanItIsAskedFor) {
    const std::string content(100, 'x');
    ASSERT_TRUE(fs_.replace_view(at("a"), content));
    const auto file = open_file("a", OpenMode::read);
    for (std::size_t length = 0; length <= content.size(); ++length)
        EXPECT_EQ(file->read_at(0, length), content.substr(0, length)) << length;
}

TEST_F(FsTest, ReplaceDoesNotReuseALeftoverTemporaryFile) {
    ASSERT_TRUE(fs_.replace_file(at("a"), "old"));
    // As a rename cut in the middle may leave it: two names, one file.
    ASSERT_EQ(::link(at("a").c_str(), at("a.tmp").c_str()), 0);
    const auto reader = open_file("a", OpenMode::read);
    ASSERT_TRUE(fs_.replace_file(at("a"), "new"));
    EXPECT_EQ(reader->read_at(0, 9), "old");
    EXPECT_EQ(fs_.read_file(at("a")), "new");
}

TEST_F(FsTest, DoesNotFollowALinkInPlaceOfAFile) {  // T15
    ASSERT_TRUE(fs_.replace_file(at("target"), "untouched"));
    ASSERT_EQ(::symlink(at("target").c_str(), at("link").c_str()), 0);
    ASSERT_EQ(::symlink(at("nowhere").c_str(), at("dangling").c_str()), 0);
    for (const OpenMode mode :
         {OpenMode::read, OpenMode::write, OpenMode::create, OpenMode::create_new}) {
        EXPECT_FALSE(fs_.open(at("link"), mode));
        EXPECT_FALSE(fs_.open(at("dangling"), mode));
    }
    EXPECT_FALSE(fs_.lock(at("link")));
    EXPECT_EQ(fs_.read_file(at("target")), "untouched");

    // Replacing one replaces the link itself.
    ASSERT_TRUE(fs_.replace_file(at("link"), "own"));
    EXPECT_EQ(fs_.read_file(at("link")), "own");
    EXPECT_EQ(fs_.read_file(at("target")), "untouched");
    EXPECT_EQ(fs_.status(at("nowhere")).error().kind, ErrorKind::not_found);
}

TEST_F(FsTest, LockIsHeldUntilItIsDestroyed) {  // W12
    Result<std::unique_ptr<FileLock>> lock = fs_.lock(at("lock"));
    ASSERT_TRUE(lock);
    EXPECT_EQ(fs_.lock(at("lock")).error().kind, ErrorKind::unavailable);
    *lock = nullptr;
    EXPECT_TRUE(fs_.lock(at("lock")));
}

TEST_F(FsTest, LockNamesTheProcessThatHoldsItAndDiesWithIt) {  // W12
    int ready[2];
    int stay[2];
    ASSERT_EQ(::pipe(ready), 0);
    ASSERT_EQ(::pipe(stay), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::close(stay[1]);
        RealFs fs;
        const Result<std::unique_ptr<FileLock>> lock = fs.lock(at("lock"));
        char byte = lock ? 'y' : 'n';
        static_cast<void>(!::write(ready[1], &byte, 1));
        static_cast<void>(!::read(stay[0], &byte, 1));  // until the parent closes its end
        ::_exit(0);
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    const Result<std::unique_ptr<FileLock>> lock = fs_.lock(at("lock"));
    ASSERT_FALSE(lock);
    EXPECT_EQ(lock.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(lock.error().reason, "directory_in_use");
    EXPECT_NE(lock.error().message.find("process " + std::to_string(child)), std::string::npos)
        << lock.error().message;
    EXPECT_NE(lock.error().message.find(root_), std::string::npos);

    for (const int fd : {stay[0], stay[1], ready[0], ready[1]})
        ::close(fd);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(fs_.lock(at("lock")));
}

// Gives and takes one byte a call.
class TrickleFile final : public File {
 public:
    Result<std::size_t> read_some_at(std::uint64_t offset, std::span<char> into) override {
        if (offset >= bytes.size()) return 0;
        into[0] = bytes[offset];
        return 1;
    }
    Result<std::size_t> write_some_at(std::uint64_t offset, std::string_view some) override {
        if (offset >= room) return Error(ErrorKind::io, "disk_full", "full");
        bytes.resize(std::max<std::size_t>(bytes.size(), offset + 1));
        bytes[offset] = some[0];
        return 1;
    }
    Result<std::uint64_t> size() override { return bytes.size(); }
    Result<void> truncate(std::uint64_t) override { return {}; }
    Result<void> allocate(std::uint64_t) override { return {}; }
    Result<void> sync_data() override { return {}; }
    Result<void> sync() override { return {}; }
    Result<void> close() override { return {}; }

    std::string bytes;
    std::size_t room = 100;
};

TEST(FileTest, ShortCountsAreHonoured) {  // W1
    TrickleFile file;
    EXPECT_TRUE(file.write_at(2, "abcdef"));
    EXPECT_EQ(file.bytes, std::string("\0\0abcdef", 8));
    EXPECT_EQ(file.read_at(2, 4), "abcd");
    EXPECT_EQ(file.read_at(4, 50), "cdef");
    file.room = 10;
    EXPECT_EQ(file.write_at(8, "ghij").error().reason, "disk_full");
    EXPECT_TRUE(file.write_at(500, ""));
}

TEST(PathTest, ParentOfAPath) {
    EXPECT_EQ(parent_directory("/a/b.json"), "/a");
    EXPECT_EQ(parent_directory("/a"), "/");
    EXPECT_EQ(parent_directory("a/b"), "a");
    EXPECT_EQ(parent_directory("a"), ".");
}

}  // namespace
}  // namespace rouse
