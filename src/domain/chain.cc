#include "domain/chain.h"

#include <algorithm>

#include "base/digest.h"

namespace rouse {
namespace {

constexpr std::string_view kChainKey = ",\"chain\":\"";
constexpr std::size_t kChainSuffix = kChainKey.size() + 32 + 2;  // ,"chain":"<32 hex>"}

bool has_chain(std::string_view line) {
    return line.size() > kChainSuffix && line.ends_with("\"}") &&
           line.substr(line.size() - kChainSuffix).starts_with(kChainKey);
}

std::string_view chain_of(std::string_view line) {
    return line.substr(line.size() - 34, 32);
}

Error broken(Seq seq, std::string_view what) {
    return {ErrorKind::corrupt, "broken_chain",
            "at seq " + std::to_string(seq) + ": " + std::string(what)};
}

}  // namespace

Chain Chain::start_of(const SessionId& log) {
    Chain chain;
    std::ranges::copy_n(sha256_hex(log.text()).begin(), 32, chain.hex_.begin());
    return chain;
}

Result<Chain> Chain::parse(std::string_view hex) {
    const bool ok = hex.size() == 32 && std::ranges::all_of(hex, [](char c) {
                        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                    });
    if (!ok) return Error(ErrorKind::corrupt, "malformed_chain", "not 32 hex digits");
    Chain chain;
    std::ranges::copy(hex, chain.hex_.begin());
    return chain;
}

Chain Chain::next(std::string_view line_up_to_chain) const {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const Sha256 digest = sha256({hex(), line_up_to_chain});
    Chain chain;
    for (std::size_t i = 0; i < 16; ++i) {
        chain.hex_[2 * i] = kDigits[digest[i] >> 4U];
        chain.hex_[2 * i + 1] = kDigits[digest[i] & 0xFU];
    }
    return chain;
}

void append_line(std::string& out, Seq seq, Timestamp at, const RecordBody& body, Chain& chain) {
    const std::size_t start = out.size();
    out += "{\"seq\":";
    out += std::to_string(seq);
    out += ",\"ts\":\"";
    append_rfc3339(out, at);
    out += "\",";
    append_body(out, body);
    chain = chain.next(std::string_view(out).substr(start));
    out += kChainKey;
    out += chain.hex();
    out += "\"}\n";
}

Result<void> read_next_line(std::string_view line, Seq last, Chain& chain, Record& record) {
    if (!has_chain(line)) return broken(last + 1, "the line does not end with its chain");
    const Chain expected = chain.next(line.substr(0, line.size() - kChainSuffix));
    if (expected.hex() != chain_of(line)) {
        return broken(last + 1, "the chain of hashes does not lead here");
    }
    return read_followed_line(line, last, chain, record);
}

Result<void> read_followed_line(std::string_view line, Seq last, Chain& chain, Record& record) {
    if (Result<void> read = read_record(line, record); !read) return read;
    if (record.seq != last + 1) {
        return broken(last + 1, "the line has seq " + std::to_string(record.seq));
    }
    const Result<Chain> moved = Chain::parse(chain_of(line));
    if (!moved) return moved.error();
    chain = *moved;
    return {};
}

std::optional<Chain> chain_behind(std::string_view text) {
    const std::size_t end = text.rfind('\n');
    if (end == std::string_view::npos) return std::nullopt;
    text = text.substr(0, end);
    text.remove_prefix(text.rfind('\n') + 1);
    if (!has_chain(text)) return std::nullopt;
    const Result<Chain> chain = Chain::parse(chain_of(text));
    return chain ? std::optional(*chain) : std::nullopt;
}

std::size_t follow_lines(std::string_view text, Chain& chain) {
    std::size_t followed = 0;
    for (;;) {
        const std::size_t end = text.find('\n', followed);
        if (end == std::string_view::npos) return followed;
        const std::string_view line = text.substr(followed, end - followed);
        if (!has_chain(line)) return followed;
        const Chain next = chain.next(line.substr(0, line.size() - kChainSuffix));
        if (next.hex() != chain_of(line)) return followed;
        chain = next;
        followed = end + 1;
    }
}

}  // namespace rouse
