#pragma once

// Checks a value against a JSON Schema.

#include <memory>

#include "base/json.h"
#include "base/result.h"

namespace rouse {

class SchemaCheck {
 public:
    // invalid  invalid_schema
    static Result<SchemaCheck> compile(const RawJson& schema);

    // invalid  invalid_input: every violation with its place, for the model to mend
    Result<void> check(const RawJson& value) const;
    // The same for a tool's input, which is an object with or without a schema.
    Result<void> check_object(const RawJson& value) const;

 private:
    struct Compiled;
    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace rouse
