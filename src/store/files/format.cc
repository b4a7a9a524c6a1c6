#include "store/files/format.h"

#include "domain/codec.h"

namespace rouse::files {
namespace {

struct Format {
    std::int64_t format = 0;
    static constexpr auto fields() { return std::tuple(required("format", &Format::format)); }
};

}  // namespace

Result<int> check_format(Fs& fs, const Layout& layout) {
    const Result<std::string> text = fs.read_file(layout.format());
    if (!text && text.error().kind == ErrorKind::not_found) {
        const Result<FileStatus> root = fs.status(layout.root());
        const bool is_there = root || root.error().kind != ErrorKind::not_found;
        return Error(ErrorKind::not_found, "not_a_data_directory",
                     is_there
                         ? layout.root() + " is not a data directory: it has no file named format"
                         : "there is no directory " + layout.root());
    }
    if (!text) return text.error();
    const std::string_view line = std::string_view(*text).substr(0, text->find('\n'));
    const Result<Format> format = from_json<Format>(line, layout.format());
    if (!format) return format.error();
    if (format->format >= 1 && format->format <= kFormatVersion) {
        return static_cast<int>(format->format);
    }
    return Error(ErrorKind::invalid, "newer_format",
                 layout.root() + " has format " + std::to_string(format->format) +
                     "; this version knows " + std::to_string(kFormatVersion));
}

Result<void> write_format(Fs& fs, const Layout& layout) {
    return fs.replace_file(layout.format(), to_json(Format{kFormatVersion}) + "\n");
}

}  // namespace rouse::files
