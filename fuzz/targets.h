#pragma once

// What the fuzzers feed. Each takes any bytes, must not crash, and checks that what was accepted is
// written and read again as the same; a broken promise ends the process.

#include <string_view>

namespace rouse::fuzz {

using Target = void (*)(std::string_view bytes);

void fuzz_record(std::string_view bytes);
void fuzz_snapshot(std::string_view bytes);
void fuzz_journal(std::string_view bytes);
void fuzz_index(std::string_view bytes);
void fuzz_json(std::string_view bytes);
void fuzz_model(std::string_view bytes);

}  // namespace rouse::fuzz
