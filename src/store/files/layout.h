#pragma once

// The names of everything in a data directory (docs/log_format.md).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "domain/ids.h"

namespace rouse::files {

inline constexpr int kFormatVersion = 2;

class Layout {
 public:
    explicit Layout(std::string root) : root_(std::move(root)) {}

    const std::string& root() const { return root_; }
    std::string sessions() const { return root_ + "/sessions"; }
    std::string pending() const { return root_ + "/pending_tool"; }
    std::string journal() const { return root_ + "/journal"; }
    std::string packs() const { return root_ + "/packs"; }
    std::string damaged() const { return root_ + "/damaged"; }
    std::string format() const { return root_ + "/format"; }
    std::string lock() const { return root_ + "/lock"; }
    std::string index() const { return root_ + "/index.ckpt"; }
    std::string reserve() const { return root_ + "/reserve"; }
    std::string pending_index() const { return pending() + "/index.json"; }

    std::string log(const SessionId& id) const { return stem(id) + kLogSuffix; }
    std::string snapshot(const SessionId& id) const { return stem(id) + ".json"; }
    std::string tokens(const SessionId& id) const { return stem(id) + ".tokens.json"; }
    std::string pending(const PendingId& id) const { return pending() + "/" + id.text() + ".json"; }
    std::string segment(std::uint64_t number) const;
    std::string pack(std::uint64_t number) const;

    // The session whose log has this file name.
    static std::optional<SessionId> session_of_log(std::string_view file_name);
    static std::optional<std::uint64_t> number_of_segment(std::string_view file_name);
    static std::optional<std::uint64_t> number_of_pack(std::string_view file_name);

 private:
    static constexpr const char* kLogSuffix = ".messages.jsonl";
    static constexpr const char* kSegmentSuffix = ".log";
    static constexpr const char* kPackSuffix = ".jsonl";
    std::string stem(const SessionId& id) const;

    std::string root_;
};

}  // namespace rouse::files
