#include "rouse/tool.h"

namespace rouse {
namespace {

class FunctionTool final : public Tool {
 public:
    FunctionTool(ToolSpec spec, ToolFunction function)
        : Tool(std::move(spec)), function_(std::move(function)) {}
    Task<ToolOutcome> call(ToolCall call) override { co_return function_(call); }

 private:
    ToolFunction function_;
};

class AsyncFunctionTool final : public Tool {
 public:
    AsyncFunctionTool(ToolSpec spec, AsyncToolFunction function)
        : Tool(std::move(spec)), function_(std::move(function)) {}
    Task<ToolOutcome> call(ToolCall call) override { return function_(std::move(call)); }

 private:
    AsyncToolFunction function_;
};

}  // namespace

std::shared_ptr<Tool> make_tool(ToolSpec spec, ToolFunction function) {
    return std::make_shared<FunctionTool>(std::move(spec), std::move(function));
}

std::shared_ptr<Tool> make_async_tool(ToolSpec spec, AsyncToolFunction function) {
    return std::make_shared<AsyncFunctionTool>(std::move(spec), std::move(function));
}

}  // namespace rouse
