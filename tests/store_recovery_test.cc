// The power goes a second time, at every file operation of the recovery from the first cut:
// opening, recovering the sessions, and the first clean end (P2, P9).

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "testing/store_checks.h"
#include "testing/store_workload.h"

namespace rouse::testing {
namespace {

// What a boot does before the port opens, and a stop right behind it.
void boot_and_stop(StoreWorld& world, CrashingFs& fs, Problems& problems) {
    StoreProcess process(world, fs, BootId("boot_cut"));
    if (!process.open()) return;
    problems = world.ledger.compare(process.store());
    if (process.recover()) (void)process.close();
}

TEST(StoreRecoveryTest, ARecoveryThatIsCutAnywhereIsDoneByTheNext) {
    constexpr std::int64_t kEvery = 19;  // of the operations of the workload
    CaseCount cases("power cuts during a recovery");
    for (std::int64_t first_cut = 4;; first_cut += kEvery) {
        CrashingFs fs(FaultPlan{.crash_at = first_cut});
        StoreWorld world;
        StoreWorkload(world, fs).run();
        if (!fs.crashed()) break;
        for (const CutOutcome& first : cut_outcomes()) {
            const std::unique_ptr<CrashingFs> dead = cut_power(fs, first, first_cut);
            for (std::int64_t cut = 1;; cut += kCaseStep) {
                const std::unique_ptr<CrashingFs> booting = dead->copy();
                booting->set_plan({.crash_at = cut, .seed = static_cast<std::uint64_t>(cut)});
                StoreWorld after = world.fork();
                Problems problems;
                boot_and_stop(after, *booting, problems);
                if (!booting->crashed()) break;
                // Each second cut turns out in one way; over all of them every way is tried.
                const auto turn = static_cast<std::size_t>(first_cut + cut);
                const CutOutcome& second = cut_outcomes()[turn % cut_outcomes().size()];
                const std::unique_ptr<CrashingFs> disk = cut_power(*booting, second, cut);
                if (problems.empty()) problems = check_disk(after, *disk, Depth::recover);
                cases.add(problems,
                          "cut at operation " + std::to_string(first_cut) + " (" + first.name +
                              "), then at " + std::to_string(cut) + " of the boot (" + second.name +
                              ")",
                          *booting);
            }
        }
    }
}

}  // namespace
}  // namespace rouse::testing
