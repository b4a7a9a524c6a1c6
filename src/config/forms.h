#pragma once

// The forms that values take: how each is described to people, read from what they wrote, and
// printed as TOML that reads back to the same. A form is a struct of
//
//   Type                      the member's type
//   expects()                 "a duration such as \"2h\"": in messages and in the documentation
//   read(value, reading)      nothing after having complained
//   from_text(text, place)    the value that an environment variable or a flag means
//   print(type)               nothing when there is nothing to say: the key is not set

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/nearest.h"
#include "config/choices.h"
#include "config/config.h"
#include "config/reading.h"
#include "config/value.h"

namespace rouse::config {

// For forms that are written as a string.
struct WrittenAsText {
    static Value from_text(const std::string& text, const ConfigPlace& place) {
        return {text, place};
    }
};

struct TextForm : WrittenAsText {
    using Type = std::string;
    static std::string expects() { return "a string"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& text) { return to_toml_string(text); }
};

struct FlagForm {
    using Type = bool;
    static std::string expects() { return "true or false"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static Value from_text(const std::string& text, const ConfigPlace& place);
    static std::optional<std::string> print(Type flag) { return flag ? "true" : "false"; }
};

struct CountForm {
    using Type = std::uint32_t;
    static std::string expects() { return "a number from 1 to 1000000"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static Value from_text(const std::string& text, const ConfigPlace& place);
    static std::optional<std::string> print(Type number) { return std::to_string(number); }
};

struct RetriesForm {
    using Type = std::uint32_t;
    static std::string expects() { return "a number from 0 to 100"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static Value from_text(const std::string& text, const ConfigPlace& place);
    static std::optional<std::string> print(Type number) { return std::to_string(number); }
};

// May be left out, for whatever the provider does then.
struct MaybeCountForm {
    using Type = std::optional<std::uint32_t>;
    static std::string expects() { return CountForm::expects(); }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static Value from_text(const std::string& text, const ConfigPlace& place);
    static std::optional<std::string> print(const Type& number);
};

struct MaybeRealForm : WrittenAsText {
    using Type = std::optional<double>;
    static std::string expects() { return "a number from 0 to 2"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& number);
};

struct TokensForm {
    using Type = MaybeTokens;
    static std::string expects() { return "a number of tokens, or \"unlimited\""; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static Value from_text(const std::string& text, const ConfigPlace& place);
    static std::optional<std::string> print(const Type& tokens);
};

struct BytesForm {
    using Type = std::uint64_t;
    static std::string expects() { return "a size in bytes such as 65536 or \"4MiB\""; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static Value from_text(const std::string& text, const ConfigPlace& place);
    static std::optional<std::string> print(Type bytes);
};

struct DurationForm : WrittenAsText {
    using Type = Milliseconds;
    static std::string expects() { return "a duration such as \"2h\""; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(Type duration);
};

struct MaybeDurationForm : WrittenAsText {
    using Type = MaybeDuration;
    static std::string expects() { return "a duration such as \"2h\", or \"never\""; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& duration);
};

template <class Enum>
struct ChoiceForm : WrittenAsText {
    using Type = Enum;
    static std::string expects() { return alternatives(choices<Enum>()); }
    static std::optional<Type> read(const Value& value, Reading& reading) {
        if (const auto* text = value.as<std::string>()) {
            const auto& names = kChoices<Enum>;
            for (std::size_t i = 0; i < names.size(); ++i) {
                if (names[i] == *text) return static_cast<Enum>(i);
            }
        }
        reading.unexpected(value, expects());
        return std::nullopt;
    }
    static std::optional<std::string> print(Type choice) {
        return to_toml_string(choice_text(choice));
    }
};

// May be left out, which is none of the choices.
template <class Enum>
struct MaybeChoiceForm : WrittenAsText {
    using Type = std::optional<Enum>;
    static std::string expects() { return ChoiceForm<Enum>::expects(); }
    static std::optional<Type> read(const Value& value, Reading& reading) {
        const std::optional<Enum> choice = ChoiceForm<Enum>::read(value, reading);
        if (!choice) return std::nullopt;
        return Type(choice);
    }
    static std::optional<std::string> print(const Type& choice) {
        if (!choice) return std::nullopt;
        return ChoiceForm<Enum>::print(*choice);
    }
};

// At a comma, without the blanks around it; none of an empty text.
std::vector<std::string> split_list(const std::string& text);

template <class Element>
struct ListForm {
    using Type = std::vector<typename Element::Type>;
    static std::string expects() { return "an array, each item " + Element::expects(); }
    static std::optional<Type> read(const Value& value, Reading& reading) {
        const auto* items = value.as<Array>();
        if (items == nullptr) {
            reading.unexpected(value, expects());
            return std::nullopt;
        }
        Type list;
        for (std::size_t i = 0; i < items->size(); ++i) {
            Reading at_item = reading.at('[' + std::to_string(i) + ']');
            at_item.origins[at_item.key] = (*items)[i].place;
            if (auto item = Element::read((*items)[i], at_item)) list.push_back(*std::move(item));
        }
        if (list.size() != items->size()) return std::nullopt;
        return list;
    }
    static Value from_text(const std::string& text, const ConfigPlace& place) {
        Array items;
        for (const std::string& item : split_list(text)) {
            items.push_back(Element::from_text(item, place));
        }
        return {std::move(items), place};
    }
    static std::optional<std::string> print(const Type& list) {
        std::string out;
        for (const auto& item : list) {
            out += out.empty() ? "" : ", ";
            out += Element::print(item).value_or("\"\"");
        }
        return '[' + out + ']';
    }
};

// The name of an agent or a tool: what every model takes as one.
struct NameForm : WrittenAsText {
    using Type = std::string;
    static std::string expects() { return "a name of letters, digits, _ and -, at most 64"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& name);
};

struct AddressForm : WrittenAsText {
    using Type = ListenAddress;
    static std::string expects() {
        return "an address and a port such as \"127.0.0.1:7717\" or \"[::1]:7717\"";
    }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& address);
};

// Empty is none. Never shown in a message: it may hold a password.
struct UrlForm : WrittenAsText {
    using Type = std::string;
    static std::string expects() { return "a URL that starts with https:// or http://"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& url);
};

// Never shown in a message either.
struct OriginForm : WrittenAsText {
    using Type = std::string;
    static std::string expects() { return "an origin such as \"https://app.example\""; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& url) { return to_toml_string(url); }
};

struct HostForm : WrittenAsText {
    using Type = std::string;
    static std::string expects() { return "a host name such as \"rouse.example\""; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& host) { return to_toml_string(host); }
};

// Empty is none; ~ is the home directory.
struct PathForm : WrittenAsText {
    using Type = std::string;
    static std::string expects() { return "a path"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& path);
};

struct ModelForm : WrittenAsText {
    using Type = ModelConfig;
    static std::string expects() { return "scripted:<file>, anthropic:<model> or openai:<model>"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& model);
};

// A table, or a string that holds JSON: an object either way, kept as JSON text.
struct SchemaForm : WrittenAsText {
    using Type = std::string;
    static std::string expects() { return "a JSON Schema as a table or as a string of JSON"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& json);
};

// The same for members of a request.
struct ObjectForm : WrittenAsText {
    using Type = std::string;
    static std::string expects() { return "a table, or a string of JSON with an object"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& json) { return SchemaForm::print(json); }
};

// The name of a variable, for the secret in it.
struct SecretForm : WrittenAsText {
    using Type = SecretText;
    static std::string expects() { return "the name of an environment variable"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& secret);
};

// Names and their texts, or "env:NAME" for the text of a variable.
using TextTable = std::map<std::string, SecretText>;

struct HeadersForm : WrittenAsText {
    using Type = TextTable;
    static std::string expects() { return "a table of names and strings; \"env:NAME\" is read"; }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& table);
};

struct VariablesForm : WrittenAsText {
    using Type = TextTable;
    static std::string expects() { return HeadersForm::expects(); }
    static std::optional<Type> read(const Value& value, Reading& reading);
    static std::optional<std::string> print(const Type& table);
};

}  // namespace rouse::config
