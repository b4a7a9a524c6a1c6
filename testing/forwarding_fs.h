#pragma once

// A file system that hands everything on to another one: the base of those that change one thing.

#include <memory>
#include <string>
#include <vector>

#include "base/fs.h"

namespace rouse::testing {

class ForwardingFile : public File {
 public:
    explicit ForwardingFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
    Result<std::size_t> read_some_at(std::uint64_t offset, std::span<char> into) override {
        return file_->read_some_at(offset, into);
    }
    Result<std::size_t> write_some_at(std::uint64_t offset, std::string_view bytes) override {
        return file_->write_some_at(offset, bytes);
    }
    Result<std::uint64_t> size() override { return file_->size(); }
    Result<void> truncate(std::uint64_t size) override { return file_->truncate(size); }
    Result<void> allocate(std::uint64_t size) override { return file_->allocate(size); }
    Result<void> sync_data() override { return file_->sync_data(); }
    Result<void> sync() override { return file_->sync(); }
    Result<void> close() override { return file_->close(); }

 private:
    std::unique_ptr<File> file_;
};

class ForwardingFs : public Fs {
 public:
    explicit ForwardingFs(Fs& fs) : fs_(fs) {}

    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
        return fs_.open(path, mode);
    }
    Result<FileStatus> status(const std::string& path) override { return fs_.status(path); }
    Result<std::vector<std::string>> list(const std::string& directory) override {
        return fs_.list(directory);
    }
    Result<void> make_directory(const std::string& path) override {
        return fs_.make_directory(path);
    }
    Result<void> rename(const std::string& from, const std::string& to) override {
        return fs_.rename(from, to);
    }
    Result<void> remove(const std::string& path) override { return fs_.remove(path); }
    Result<void> sync_directory(const std::string& path) override {
        return fs_.sync_directory(path);
    }
    Result<void> sync_file_system(const std::string& path) override {
        return fs_.sync_file_system(path);
    }
    Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
        return fs_.lock(path);
    }

 private:
    Fs& fs_;
};

}  // namespace rouse::testing
