// Feeds the seed corpus, and every truncation of each seed, to its target: fuzz_replay CORPUS

#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "fuzz/targets.h"

int main(int argc, char** argv) {
    using namespace rouse::fuzz;
    if (argc != 2) {
        std::cerr << "usage: fuzz_replay CORPUS\n";
        return 2;
    }
    const std::map<std::string, Target> targets = {
        {"record", fuzz_record}, {"snapshot", fuzz_snapshot}, {"journal", fuzz_journal},
        {"index", fuzz_index},   {"json", fuzz_json},         {"model", fuzz_model}};
    int inputs = 0;
    for (const auto& [name, target] : targets) {
        for (const auto& entry :
             std::filesystem::directory_iterator(std::filesystem::path(argv[1]) / name)) {
            std::ifstream file(entry.path(), std::ios::binary);
            std::ostringstream text;
            text << file.rdbuf();
            const std::string bytes = text.str();
            for (std::size_t n = 0; n <= bytes.size(); ++n) {
                target(std::string_view(bytes).substr(0, n));
                ++inputs;
            }
        }
    }
    std::cout << inputs << " inputs\n";
    return inputs > 0 ? 0 : 1;
}
