#include "store/files/log_blocks.h"

#include <algorithm>
#include <future>
#include <memory>
#include <optional>

namespace rouse::files {
namespace {

constexpr std::uint64_t kBlock = 64U << 10U;
constexpr std::uint64_t kLong = 1U << 20U;  // enough for a thread to pay
constexpr std::uint64_t kLongBlock = 512U << 10U;

struct Block {
    std::shared_ptr<const std::string> text;  // of whole lines, but for a torn one at the end
    std::uint64_t missing = 0;                // bytes that the file should have had
    std::future<std::size_t> followed = {};   // how much of it follows the line before
};

class BlockReader {
 public:
    BlockReader(File& file, std::uint64_t at, std::uint64_t end, std::uint64_t length)
        : file_(file), at_(at), end_(end), length_(length) {}

    // Nothing: that was all.
    Result<std::optional<Block>> next() {
        if (at_ == end_) return std::nullopt;
        for (std::uint64_t length = length_;; length *= 4) {
            const std::uint64_t wanted = std::min(length, end_ - at_);
            Result<std::string> text = file_.read_at(at_, wanted);
            if (!text) return text.error();
            const std::uint64_t missing = wanted - text->size();
            const bool is_last = missing > 0 || at_ + wanted == end_;
            // A line is whole or, at the end of a log that is all there, torn.
            if (!is_last || missing > 0) text->resize(text->rfind('\n') + 1);
            if (text->empty() && !is_last) continue;
            at_ = is_last ? end_ : at_ + text->size();
            return Block{std::make_shared<const std::string>(*std::move(text)), missing};
        }
    }

 private:
    File& file_;
    std::uint64_t at_;
    std::uint64_t end_;
    std::uint64_t length_;
};

// `chain` is the one before the block and becomes the one behind it, if the block is good.
void check_ahead(Block& block, Chain& chain) {
    const Chain before = chain;
    const std::shared_ptr<const std::string> text = block.text;
    const auto check = [text, before] {
        Chain moving = before;
        return follow_lines(*text, moving);
    };
    // Without a thread to be had, it is done when it is asked for.
    block.followed = std::async(std::launch::async | std::launch::deferred, check);
    chain = chain_behind(*text).value_or(before);
}

Result<void> read_block(Block& block, LogTip& tip, const OnRecord& on_record) {
    const std::string_view text = *block.text;
    const std::size_t followed = block.followed.valid() ? block.followed.get() : 0;
    Result<void> read = read_followed_lines(text.substr(0, followed), tip, on_record);
    // What is wrong with the rest, if anything.
    if (read) read = read_lines(text.substr(followed), tip, on_record);
    return read;
}

}  // namespace

Error log_too_short(const std::string& path, std::uint64_t size, std::uint64_t expected) {
    return {ErrorKind::corrupt, "log_too_short",
            path + " has " + std::to_string(size) + " bytes of " + std::to_string(expected)};
}

Result<void> read_log_lines(Fs& fs, const LogPlace& place, std::uint64_t bytes, LogTip& tip,
                            const OnRecord& on_record) {
    if (bytes <= tip.bytes) return {};
    const Result<std::unique_ptr<File>> file = fs.open(place.file, OpenMode::read);
    if (!file) return file.error();
    const bool is_long = bytes - tip.bytes >= kLong;
    BlockReader blocks(**file, place.at + tip.bytes, place.at + bytes,
                       is_long ? kLongBlock : kBlock);
    Chain chain = tip.chain;
    const auto next = [&]() -> Result<std::optional<Block>> {
        Result<std::optional<Block>> block = blocks.next();
        if (block && *block && is_long) check_ahead(**block, chain);
        return block;
    };
    Result<std::optional<Block>> ahead = next();
    while (ahead && *ahead) {
        Block block = *std::move(*ahead);
        if (is_long) ahead = next();
        if (Result<void> read = read_block(block, tip, on_record); !read) return read;
        if (block.missing > 0) return log_too_short(place.file, bytes - block.missing, bytes);
        if (!is_long) ahead = next();
    }
    return ahead ? Result<void>() : ahead.error();
}

}  // namespace rouse::files
