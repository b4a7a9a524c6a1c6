#include "agent/result_check.h"

#include "rouse/suspension.h"

namespace rouse {

Result<void> check_fits(const SchemaCheck& schema, const ToolResult& result) {
    if (result.is_error) return {};
    const Result<RawJson> content = content_as_json(result);
    return content ? schema.check(*content) : Result<void>(content.error());
}

}  // namespace rouse
