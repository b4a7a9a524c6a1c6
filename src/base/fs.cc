#include "base/fs.h"

namespace rouse {
namespace {

Result<void> write_whole(Fs& fs, const std::string& path, std::string_view content, bool durable) {
    Result<std::unique_ptr<File>> file = fs.make_file(path);
    if (!file) return file.error();
    if (Result<void> written = (*file)->write_at(0, content); !written) return written;
    if (durable) {
        if (Result<void> synced = (*file)->sync(); !synced) return synced;
    }
    return (*file)->close();
}

}  // namespace

Result<void> File::write_at(std::uint64_t offset, std::string_view bytes) {
    while (!bytes.empty()) {
        const Result<std::size_t> written = write_some_at(offset, bytes);
        if (!written) return written.error();
        offset += *written;
        bytes.remove_prefix(*written);
    }
    return {};
}

Result<void> File::write_and_sync(std::uint64_t offset, std::string_view bytes) {
    if (Result<void> written = write_at(offset, bytes); !written) return written;
    return sync_data();
}

Result<std::string> File::read_at(std::uint64_t offset, std::uint64_t length) {
    std::string bytes;
    Result<void> read;
    // libstdc++ 12 tells the callback a size that may be larger than `length`.
    bytes.resize_and_overwrite(length, [&](char* into, std::size_t) {
        std::size_t done = 0;
        while (done < length) {
            const Result<std::size_t> got =
                read_some_at(offset + done, std::span(into + done, length - done));
            if (!got) read = got.error();
            if (!got || *got == 0) break;
            done += *got;
        }
        return done;
    });
    if (!read) return read.error();
    return bytes;
}

namespace {

// Of file systems that cannot tell more than whoever syncs them.
class PlainFileSystem final : public FileSystem {
 public:
    PlainFileSystem(Fs& fs, std::string path) : fs_(fs), path_(std::move(path)) {}
    Result<void> sync() override { return fs_.sync_file_system(path_); }

 private:
    Fs& fs_;
    std::string path_;
};

}  // namespace

Result<std::unique_ptr<FileSystem>> Fs::file_system(const std::string& path) {
    return std::make_unique<PlainFileSystem>(*this, path);
}

Result<std::string> Fs::read_file(const std::string& path) {
    Result<std::unique_ptr<File>> file = open(path, OpenMode::read);
    if (!file) return file.error();
    const Result<std::uint64_t> size = (*file)->size();
    if (!size) return size.error();
    return (*file)->read_at(0, *size);
}

Result<std::unique_ptr<File>> Fs::make_file(const std::string& path) {
    Result<std::unique_ptr<File>> made = open(path, OpenMode::create_new);
    if (made || made.error().kind != ErrorKind::conflict) return made;
    if (Result<void> removed = remove(path); !removed) return removed.error();
    return open(path, OpenMode::create_new);
}

Result<void> Fs::replace_file(const std::string& path, std::string_view content) {
    const std::string temporary = path + ".tmp";
    if (Result<void> written = write_whole(*this, temporary, content, true); !written) {
        (void)remove(temporary);  // it may have taken the last of the disk
        return written;
    }
    if (Result<void> renamed = rename(temporary, path); !renamed) return renamed;
    Result<void> synced = sync_directory(parent_directory(path));
    // The new content may be there or not: whatever the disk says, this is no longer about space.
    if (!synced) return Error(ErrorKind::io, "io_error", synced.error().message);
    return {};
}

Result<void> Fs::replace_view(const std::string& path, std::string_view content) {
    const std::string temporary = path + ".tmp";
    if (Result<void> written = write_whole(*this, temporary, content, false); !written) {
        (void)remove(temporary);
        return written;
    }
    return rename(temporary, path);
}

Result<void> Fs::make_view(const std::string& path, std::string_view content) {
    return write_whole(*this, path, content, false);
}

std::string parent_directory(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace rouse
