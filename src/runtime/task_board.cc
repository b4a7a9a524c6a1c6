#include "runtime/task_board.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace rouse {

Task<Result<void>> TaskBoard::create(TaskSaved task, Records along) {
    const auto is_there = [&](const SystemState& state) {
        return state.tasks.contains(task.task_id);
    };
    if (system_.ask(is_there) || !claimed_.insert(task.task_id).second) {
        co_return Error(ErrorKind::conflict, "task_exists",
                        "there is a task " + task.task_id + "; PATCH it instead");
    }
    Records records(1, to_record(task));
    std::ranges::move(along, std::back_inserter(records));
    const Result<void> saved = co_await system_.append_all(std::move(records));
    claimed_.erase(task.task_id);
    co_return saved;
}

}  // namespace rouse
