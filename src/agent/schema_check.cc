#include "agent/schema_check.h"

#include <boost/json.hpp>
#include <valijson/adapters/boost_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "base/limits.h"

namespace rouse {
namespace {

namespace json = boost::json;

json::value parse(const RawJson& text) {
    json::parse_options options;
    options.max_depth = limits::kJsonDepth + 1;
    return json::parse(text.text(), {}, options);
}

std::string describe(valijson::ValidationResults& violations) {
    std::string text;
    valijson::ValidationResults::Error violation;
    while (violations.popError(violation)) {
        std::string place = "input";
        for (std::size_t i = 1; i < violation.context.size(); ++i)
            place += violation.context[i];
        if (!text.empty()) text += "; ";
        text += place + ": " + violation.description;
    }
    return text;
}

}  // namespace

struct SchemaCheck::Compiled {
    valijson::Schema schema;
};

Result<SchemaCheck> SchemaCheck::compile(const RawJson& schema) {
    SchemaCheck check;
    if (schema.absent()) return check;
    const auto compiled = std::make_shared<Compiled>();
    try {
        const json::value document = parse(schema);
        valijson::SchemaParser parser;
        parser.populateSchema(valijson::adapters::BoostJsonAdapter(document), compiled->schema);
    } catch (const std::exception& error) {
        return Error(ErrorKind::invalid, "invalid_schema",
                     std::string("the parameters are no JSON Schema: ") + error.what());
    }
    check.compiled_ = compiled;
    return check;
}

Result<void> SchemaCheck::check(const RawJson& input) const {
    if (input.absent() || input.text().front() != '{') {
        return Error(ErrorKind::invalid, "invalid_input", "input: must be an object");
    }
    if (!compiled_) return {};
    try {
        const json::value document = parse(input);
        valijson::Validator validator;
        valijson::ValidationResults violations;
        const valijson::adapters::BoostJsonAdapter target(document);
        if (validator.validate(compiled_->schema, target, &violations)) return {};
        return Error(ErrorKind::invalid, "invalid_input", describe(violations));
    } catch (const std::exception& error) {
        return Error(ErrorKind::invalid, "invalid_input", error.what());
    }
}

}  // namespace rouse
