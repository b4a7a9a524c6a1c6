#pragma once

#include "base/schema_check.h"
#include "domain/message.h"

namespace rouse {

// Text counts as the JSON that it is. Errors are no results, and always fit.
Result<void> check_fits(const SchemaCheck& schema, const ToolResult& result);

}  // namespace rouse
