#pragma once

// Checks a tool's input against its JSON Schema.

#include <memory>
#include <string>

#include "rouse/message.h"
#include "rouse/result.h"

namespace rouse {

class SchemaCheck {
 public:
    // invalid  invalid_schema
    static Result<SchemaCheck> compile(const RawJson& schema);

    // invalid  invalid_input: every violation with its place, for the model to mend
    Result<void> check(const RawJson& input) const;

 private:
    struct Compiled;
    std::shared_ptr<const Compiled> compiled_;
};

}  // namespace rouse
