#include "tools/checked_tool.h"

#include "agent/result_check.h"

namespace rouse {
namespace {

class CheckedTool final : public Tool {
 public:
    CheckedTool(std::shared_ptr<Tool> inner, SchemaCheck schema)
        : Tool(inner->spec()), inner_(std::move(inner)), schema_(std::move(schema)) {}

    Task<ToolOutcome> call(ToolCall call) override {
        ToolOutcome outcome = co_await inner_->call(std::move(call));
        if (!outcome.result) co_return outcome;
        const Result<void> fits = check_fits(schema_, *outcome.result);
        if (fits) co_return outcome;
        co_return ToolOutcome::error("the result does not fit the tool's result_schema: " +
                                     fits.error().message);
    }

 private:
    std::shared_ptr<Tool> inner_;
    SchemaCheck schema_;
};

}  // namespace

std::shared_ptr<Tool> checked_tool(std::shared_ptr<Tool> inner, SchemaCheck schema) {
    return std::make_shared<CheckedTool>(std::move(inner), std::move(schema));
}

}  // namespace rouse
