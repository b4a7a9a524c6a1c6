// The binary: the real world, handed to the command line.

#include <sys/stat.h>

#include "app/commands.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
    ::umask(077);
    rouse::SystemClock clock;
    rouse::SystemRandom random;
    rouse::RealFs fs;
    rouse::Logger log(rouse::LogLevel::warn);
    return rouse::cli::run(argc, argv, {clock, random, fs, log},
                           {rouse::app::add_serve, rouse::app::add_config, rouse::app::add_demo});
}
