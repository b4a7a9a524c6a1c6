#pragma once

#include <memory>

#include "base/schema_check.h"
#include "rouse/tool.h"

namespace rouse {

// Whose results fit the schema: one that does not becomes an error that says so.
std::shared_ptr<Tool> checked_tool(std::shared_ptr<Tool> inner, SchemaCheck schema);

}  // namespace rouse
