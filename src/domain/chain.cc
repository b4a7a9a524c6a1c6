#include "domain/chain.h"

#include <algorithm>

#include "base/digest.h"

namespace rouse {
namespace {

constexpr std::string_view kChainKey = ",\"chain\":\"";
constexpr std::size_t kChainSuffix = kChainKey.size() + 32 + 2;  // ,"chain":"<32 hex>"}

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
    if (line.size() <= kChainSuffix ||
        !line.substr(line.size() - kChainSuffix).starts_with(kChainKey) || !line.ends_with("\"}")) {
        return broken(last + 1, "the line does not end with its chain");
    }
    const Chain expected = chain.next(line.substr(0, line.size() - kChainSuffix));
    if (expected.hex() != line.substr(line.size() - 34, 32)) {
        return broken(last + 1, "the chain of hashes does not lead here");
    }
    if (Result<void> read = read_record(line, record); !read) return read;
    if (record.seq != last + 1) {
        return broken(last + 1, "the line has seq " + std::to_string(record.seq));
    }
    chain = expected;
    return {};
}

}  // namespace rouse
