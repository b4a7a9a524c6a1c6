#pragma once

// Where tasks are made: an id has one maker. On the loop of the runs, by one thread.

#include <set>
#include <string>

#include "runtime/system_log.h"

namespace rouse {

class TaskBoard final {
 public:
    explicit TaskBoard(SystemLog& system) : system_(system) {}

    // `along` goes into the same commit.
    //   conflict  task_exists, or is about to
    //   store errors
    Task<Result<void>> create(TaskSaved task, Records along);

 private:
    SystemLog& system_;
    std::set<std::string> claimed_;  // by those who have looked and are not durable yet
};

}  // namespace rouse
