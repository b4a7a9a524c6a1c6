#pragma once

// A file system that leaves out one of the syncs a durable store relies on: the negative control of
// the crash tests and disk campaigns. One that does not notice it proves nothing.

#include <memory>
#include <string>

#include "testing/forwarding_fs.h"

namespace rouse::testing {

enum class Broken : std::uint8_t { none, no_fdatasync, no_dir_fsync, no_syncfs };

class BreakingFs final : public ForwardingFs {
 public:
    BreakingFs(Fs& fs, Broken broken) : ForwardingFs(fs), broken_(broken) {}

    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
        Result<std::unique_ptr<File>> file = ForwardingFs::open(path, mode);
        if (!file || broken_ != Broken::no_fdatasync) return file;
        return std::make_unique<NeverSynced>(*std::move(file));
    }
    Result<void> sync_directory(const std::string& path) override {
        if (broken_ == Broken::no_dir_fsync) return {};
        return ForwardingFs::sync_directory(path);
    }
    Result<void> sync_file_system(const std::string& path) override {
        if (broken_ == Broken::no_syncfs) return {};
        return ForwardingFs::sync_file_system(path);
    }

 private:
    class NeverSynced final : public ForwardingFile {
     public:
        using ForwardingFile::ForwardingFile;
        Result<void> sync_data() override { return {}; }
    };

    Broken broken_;
};

}  // namespace rouse::testing
