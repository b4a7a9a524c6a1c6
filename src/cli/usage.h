#pragma once

// Command lines that were written wrongly: what their values may be, and what to say of the rest.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace rouse::cli {

// Seqs and counts are whole in JSON up to here.
inline constexpr std::uint64_t kMostCounted = std::uint64_t{1} << 53U;

CLI::Validator not_empty();
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = kMostCounted);
CLI::Validator one_of(const std::vector<std::string>& names);

// Help that fits a terminal of 80 columns; commands that are added later have it too.
void wrap_help(CLI::App& program);

// What was wrong and what was probably meant, in whole lines.
std::string usage_text(const CLI::App& program, const CLI::ParseError& error);

}  // namespace rouse::cli
