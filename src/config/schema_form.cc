// JSON Schemas: written as TOML or as JSON, kept as JSON.

#include <cmath>

#include "base/json.h"
#include "base/schema_check.h"
#include "config/forms.h"

namespace rouse::config {
namespace {

// Appends the value as JSON. False after having complained: JSON has no dates and no infinities.
bool append_json(std::string& out, const Value& value, Reading& reading);

// 1.0 stays a fraction.
void append_real(std::string& out, double number) {
    std::string text;
    append_json_number(text, number);
    out += text;
    if (text.find_first_of(".e") == std::string::npos) out += ".0";
}

bool append_array(std::string& out, const Array& items, Reading& reading) {
    bool fine = true;
    out += '[';
    for (const Value& item : items) {
        if (out.back() != '[') out += ',';
        fine = append_json(out, item, reading) && fine;
    }
    out += ']';
    return fine;
}

bool append_object(std::string& out, const Table& members, Reading& reading) {
    bool fine = true;
    out += '{';
    for (const Member& member : members) {
        if (out.back() != '{') out += ',';
        append_json_string(out, member.key);
        out += ':';
        fine = append_json(out, member.value, reading) && fine;
    }
    out += '}';
    return fine;
}

bool append_json(std::string& out, const Value& value, Reading& reading) {
    if (const auto* text = value.as<std::string>()) {
        append_json_string(out, *text);
    } else if (const auto* number = value.as<std::int64_t>()) {
        out += std::to_string(*number);
    } else if (const auto* flag = value.as<bool>()) {
        out += *flag ? "true" : "false";
    } else if (const auto* items = value.as<Array>()) {
        return append_array(out, *items, reading);
    } else if (const auto* members = value.as<Table>()) {
        return append_object(out, *members, reading);
    } else if (const auto* real = value.as<double>(); real != nullptr && std::isfinite(*real)) {
        append_real(out, *real);
    } else {
        reading.mistake(value.place, real != nullptr ? "JSON has no inf and no nan"
                                                     : "JSON has no dates: write a string");
        return false;
    }
    return true;
}

std::optional<std::string> read_object(const Value& value, Reading& reading,
                                       const std::string& expected, const std::string& if_other) {
    std::string text;
    if (const auto* members = value.as<Table>()) {
        if (!append_object(text, *members, reading)) return std::nullopt;
    } else if (const auto* json = value.as<std::string>()) {
        text = *json;
    } else {
        reading.unexpected(value, expected);
        return std::nullopt;
    }
    const Result<RawJson> json = RawJson::parse(text);
    if (!json) {
        reading.mistake(value.place, "is " + json.error().message);
        return std::nullopt;
    }
    if (!json->text().starts_with('{')) {
        reading.mistake(value.place, if_other);
        return std::nullopt;
    }
    return json->text();
}

}  // namespace

std::optional<std::string> SchemaForm::read(const Value& value, Reading& reading) {
    std::optional<std::string> json =
        read_object(value, reading, expects(), "a JSON Schema must be a JSON object");
    if (!json) return std::nullopt;
    const Result<SchemaCheck> schema = SchemaCheck::compile(RawJson::trusted(*json));
    if (schema) return json;
    reading.mistake(value.place, schema.error().message);
    return std::nullopt;
}

std::optional<std::string> ObjectForm::read(const Value& value, Reading& reading) {
    return read_object(value, reading, expects(), "must be a JSON object");
}

std::optional<std::string> SchemaForm::print(const Type& json) {
    if (json.empty()) return std::nullopt;
    return to_toml_string(json);
}

}  // namespace rouse::config
