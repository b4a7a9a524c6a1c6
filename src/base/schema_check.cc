#include "base/schema_check.h"

#include <algorithm>
#include <boost/json.hpp>
#include <boost/regex.hpp>
#include <regex>
#include <set>
#include <vector>

#include "base/limits.h"

// std::regex goes one call deeper for each character: a long text would end the process. Boost's
// has a stack of its own and gives up where a pattern backtracks without end. Valijson finds these
// names before the real ones.
namespace valijson::std {  // NOLINT(cert-dcl58-cpp)
using namespace ::std;
using boost::regex_match;
using boost::regex_search;
using boost::smatch;

// As ECMAScript has it: ^ and $ are the ends of the text, a dot is no newline.
struct regex : boost::regex {
    explicit regex(const string& pattern) : boost::regex(pattern, perl | no_mod_m | no_mod_s) {}
};
}  // namespace valijson::std

#define VALIJSON_USE_EXCEPTIONS 1
#include <valijson/adapters/boost_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

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

Error invalid_schema(const std::string& why) {
    return {ErrorKind::invalid, "invalid_schema", "is no JSON Schema: " + why};
}

// Valijson follows references as they come: a schema that leads to itself before it has looked at
// any part of the value would never end, and a pattern is compiled only when a value meets it.
class SchemaReader {
 public:
    explicit SchemaReader(const json::value& root) : root_(root) {}

    Result<void> read() { return visit(root_); }

 private:
    Result<void> visit(const json::value& node) {
        if (const json::array* items = node.if_array()) return visit_all(*items);
        const json::object* schema = node.if_object();
        if (schema == nullptr || !seen_.insert(schema).second) return {};
        if (Result<void> ends = follow(*schema); !ends) return ends;
        if (Result<void> compiled = check_patterns(*schema); !compiled) return compiled;
        for (const auto& [key, value] : *schema) {
            if (key == "enum" || key == "const" || key == "default" || key == "examples") continue;
            if (Result<void> fine = visit(value); !fine) return fine;
        }
        return {};
    }

    Result<void> visit_all(const json::array& items) {
        for (const json::value& item : items) {
            if (Result<void> fine = visit(item); !fine) return fine;
        }
        return {};
    }

    static Result<void> check_patterns(const json::object& schema) {
        std::vector<std::string> patterns;
        const json::value* pattern = schema.if_contains("pattern");
        if (pattern != nullptr && pattern->is_string()) {
            patterns.emplace_back(pattern->get_string());
        }
        const json::value* named = schema.if_contains("patternProperties");
        if (named != nullptr && named->is_object()) {
            for (const auto& [key, value] : named->get_object())
                patterns.emplace_back(key);
        }
        for (const std::string& text : patterns) {
            try {
                (void)valijson::std::regex(text);
            } catch (const std::exception& error) {
                return invalid_schema("the pattern " + text + " cannot be read: " + error.what());
            }
        }
        return {};
    }

    // Through everything that looks at the same value.
    Result<void> follow(const json::object& schema) {
        if (done_.contains(&schema)) return {};
        if (std::ranges::find(path_, &schema) != path_.end()) {
            return invalid_schema("it refers to itself without end");
        }
        path_.push_back(&schema);
        for (const char* key :
             {"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependencies", "extends"}) {
            const json::value* inside = schema.if_contains(key);
            if (inside == nullptr) continue;
            if (Result<void> ends = follow_into(*inside, std::string_view(key)); !ends) return ends;
        }
        const json::value* reference = schema.if_contains("$ref");
        if (reference != nullptr && reference->is_string()) {
            const json::value* target = resolve(reference->get_string());
            const json::object* next = target == nullptr ? nullptr : target->if_object();
            if (next != nullptr) {
                if (Result<void> ends = follow(*next); !ends) return ends;
            }
        }
        path_.pop_back();
        done_.insert(&schema);
        return {};
    }

    Result<void> follow_into(const json::value& inside, std::string_view key) {
        if (const json::array* several = inside.if_array()) {
            for (const json::value& one : *several) {
                if (Result<void> ends = follow_into(one, {}); !ends) return ends;
            }
            return {};
        }
        const json::object* object = inside.if_object();
        if (object == nullptr) return {};
        if (key != "dependencies") return follow(*object);
        for (const auto& [name, one] : *object) {
            if (Result<void> ends = follow_into(one, {}); !ends) return ends;
        }
        return {};
    }

    const json::value* resolve(const json::string& reference) const {
        std::string_view text = reference;
        if (!text.starts_with('#')) return nullptr;
        text.remove_prefix(1);
        boost::system::error_code code;
        return root_.find_pointer(text, code);
    }

    const json::value& root_;
    std::set<const json::object*> seen_;
    std::set<const json::object*> done_;
    std::vector<const json::object*> path_;
};

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
        if (Result<void> fine = SchemaReader(document).read(); !fine) return fine.error();
        valijson::SchemaParser parser;
        parser.populateSchema(valijson::adapters::BoostJsonAdapter(document), compiled->schema);
    } catch (const std::exception& error) {
        return invalid_schema(error.what());
    }
    check.compiled_ = compiled;
    return check;
}

Result<void> SchemaCheck::check(const RawJson& value) const {
    if (!compiled_) return {};
    try {
        const json::value document = parse(value);
        valijson::Validator validator;
        valijson::ValidationResults violations;
        const valijson::adapters::BoostJsonAdapter target(document);
        if (validator.validate(compiled_->schema, target, &violations)) return {};
        return Error(ErrorKind::invalid, "invalid_input", describe(violations));
    } catch (const std::exception& error) {
        return Error(ErrorKind::invalid, "invalid_input", error.what());
    }
}

Result<void> SchemaCheck::check_object(const RawJson& value) const {
    if (value.absent() || value.text().front() != '{') {
        return Error(ErrorKind::invalid, "invalid_input", "input: must be an object");
    }
    return check(value);
}

}  // namespace rouse
