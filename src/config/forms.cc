#include "config/forms.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "base/id.h"
#include "config/units.h"

namespace rouse::config {
namespace {

constexpr std::uint32_t kMostCounted = 1'000'000;
constexpr std::uint32_t kMostRetries = 100;

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

Value number_or_text(const std::string& text, const ConfigPlace& place) {
    if (const auto number = parse_number<std::int64_t>(text)) return {*number, place};
    return {text, place};
}

bool consists_of(std::string_view text, std::string_view more_than_letters_and_digits) {
    return text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" +
                                  std::string(more_than_letters_and_digits)) ==
           std::string_view::npos;
}

bool is_host_name(std::string_view host) {
    const bool number = host.find_first_not_of("0123456789.") == std::string_view::npos;
    return !host.empty() && host.size() <= 253 && !number && host.front() != '-' &&
           host.front() != '.' && consists_of(host, "-._");
}

bool is_address(int family, const std::string& host) {
    in6_addr any{};
    return inet_pton(family, host.c_str(), &any) == 1;
}

struct HostAndPort {
    std::string host;  // an IPv6 address without its brackets
    std::optional<std::uint16_t> port;
};

// "a.example", "127.0.0.1:80", "[::1]:80"
std::optional<HostAndPort> parse_host(std::string_view text) {
    const bool bracketed = text.starts_with('[');
    const std::size_t end = bracketed ? text.find(']') : std::min(text.find(':'), text.size());
    if (end == std::string_view::npos) return std::nullopt;
    HostAndPort out{std::string(text.substr(bracketed ? 1 : 0, bracketed ? end - 1 : end)), {}};
    const bool fits = bracketed ? is_address(AF_INET6, out.host)
                                : is_address(AF_INET, out.host) || is_host_name(out.host);
    if (!fits) return std::nullopt;
    const std::string_view rest = text.substr(bracketed ? end + 1 : end);
    if (rest.empty()) return out;
    out.port = parse_number<std::uint16_t>(rest.substr(1));
    if (rest.front() != ':' || !out.port) return std::nullopt;
    return out;
}

// "https://a.example:8443/x" → "a.example:8443"; nothing when that is no URL we would call.
std::optional<std::string_view> authority_of(std::string_view url) {
    if (url.find_first_of(" \"<>\\^`{|}") != std::string_view::npos) return std::nullopt;
    for (const std::string_view scheme : {"https://", "http://"}) {
        if (!url.starts_with(scheme)) continue;
        url.remove_prefix(scheme.size());
        const std::string_view authority = url.substr(0, url.find_first_of("/?#"));
        if (!parse_host(authority.substr(authority.rfind('@') + 1))) return std::nullopt;
        return authority;
    }
    return std::nullopt;
}

std::optional<std::string> expand_home(std::string path, const ConfigPlace& place,
                                       Reading& reading) {
    if (!path.starts_with('~')) return path;
    if (path.size() > 1 && path[1] != '/') {
        reading.mistake(place,
                        "expects ~ or ~/…, the home directory of the one who runs the "
                        "server; write any other in full");
        return std::nullopt;
    }
    const auto home = reading.environment.find("HOME");
    if (home == reading.environment.end() || home->second.empty()) {
        reading.mistake(place, "~ can't be resolved: the environment variable HOME is not set");
        return std::nullopt;
    }
    return home->second + path.substr(1);
}

}  // namespace

std::optional<std::string> TextForm::read(const Value& value, Reading& reading) {
    const auto* text = value.as<std::string>();
    if (text == nullptr) {
        reading.unexpected(value, expects());
    } else if (text->contains('\0')) {
        reading.mistake(value.place, "must not hold a NUL character");
    } else if (!is_utf8(*text)) {
        reading.mistake(value.place, "must be UTF-8");
    } else {
        return *text;
    }
    return std::nullopt;
}

std::optional<bool> FlagForm::read(const Value& value, Reading& reading) {
    if (const auto* flag = value.as<bool>()) return *flag;
    reading.unexpected(value, expects());
    return std::nullopt;
}

Value FlagForm::from_text(const std::string& text, const ConfigPlace& place) {
    if (text == "true" || text == "false") return {text == "true", place};
    return {text, place};
}

std::optional<std::uint32_t> CountForm::read(const Value& value, Reading& reading) {
    const auto* number = value.as<std::int64_t>();
    if (number != nullptr && *number >= 1 && *number <= kMostCounted) {
        return static_cast<std::uint32_t>(*number);
    }
    reading.unexpected(value, expects());
    return std::nullopt;
}

Value CountForm::from_text(const std::string& text, const ConfigPlace& place) {
    return number_or_text(text, place);
}

std::optional<std::uint32_t> RetriesForm::read(const Value& value, Reading& reading) {
    const auto* number = value.as<std::int64_t>();
    if (number != nullptr && *number >= 0 && *number <= kMostRetries) {
        return static_cast<std::uint32_t>(*number);
    }
    reading.unexpected(value, expects());
    return std::nullopt;
}

Value RetriesForm::from_text(const std::string& text, const ConfigPlace& place) {
    return number_or_text(text, place);
}

std::optional<MaybeCountForm::Type> MaybeCountForm::read(const Value& value, Reading& reading) {
    const std::optional<std::uint32_t> number = CountForm::read(value, reading);
    if (!number) return std::nullopt;
    return Type(number);
}

Value MaybeCountForm::from_text(const std::string& text, const ConfigPlace& place) {
    return CountForm::from_text(text, place);
}

std::optional<std::string> MaybeCountForm::print(const Type& number) {
    if (!number) return std::nullopt;
    return std::to_string(*number);
}

std::optional<MaybeRealForm::Type> MaybeRealForm::read(const Value& value, Reading& reading) {
    std::optional<double> number;
    if (const auto* whole = value.as<std::int64_t>()) number = static_cast<double>(*whole);
    if (const auto* real = value.as<double>()) number = *real;
    if (number && *number >= 0 && *number <= 2) return Type(number);
    reading.unexpected(value, expects());
    return std::nullopt;
}

std::optional<std::string> MaybeRealForm::print(const Type& number) {
    if (!number) return std::nullopt;
    std::array<char, 32> text{};
    const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), *number);
    std::string out(text.data(), error == std::errc() ? end : text.data());
    if (out.find_first_of(".e") == std::string::npos) out += ".0";  // TOML tells 1 from 1.0
    return out;
}

std::optional<MaybeTokens> TokensForm::read(const Value& value, Reading& reading) {
    const auto* text = value.as<std::string>();
    if (text != nullptr && *text == "unlimited") return MaybeTokens();
    const auto* number = value.as<std::int64_t>();
    if (number != nullptr && *number >= 1) return MaybeTokens(*number);
    reading.unexpected(value, expects());
    return std::nullopt;
}

Value TokensForm::from_text(const std::string& text, const ConfigPlace& place) {
    return number_or_text(text, place);
}

std::optional<std::string> TokensForm::print(const Type& tokens) {
    return tokens ? std::to_string(*tokens) : "\"unlimited\"";
}

std::optional<std::uint64_t> BytesForm::read(const Value& value, Reading& reading) {
    std::optional<std::uint64_t> bytes;
    if (const auto* number = value.as<std::int64_t>()) {
        bytes = parse_bytes(std::to_string(*number) + 'B');
    } else if (const auto* text = value.as<std::string>()) {
        bytes = parse_bytes(*text);
    }
    if (!bytes) reading.unexpected(value, expects());
    return bytes;
}

Value BytesForm::from_text(const std::string& text, const ConfigPlace& place) {
    return number_or_text(text, place);
}

std::optional<std::string> BytesForm::print(Type bytes) {
    return '"' + to_bytes_text(bytes) + '"';
}

std::optional<Milliseconds> DurationForm::read(const Value& value, Reading& reading) {
    const auto* text = value.as<std::string>();
    const auto duration = text != nullptr ? parse_duration(*text) : std::nullopt;
    if (!duration) reading.unexpected(value, expects());
    return duration;
}

std::optional<std::string> DurationForm::print(Type duration) {
    return '"' + to_duration_text(duration) + '"';
}

std::optional<MaybeDuration> MaybeDurationForm::read(const Value& value, Reading& reading) {
    const auto* text = value.as<std::string>();
    if (text != nullptr && *text == "never") return MaybeDuration();
    const auto duration = text != nullptr ? parse_duration(*text) : std::nullopt;
    if (duration) return MaybeDuration(duration);
    reading.unexpected(value, expects());
    return std::nullopt;
}

std::optional<std::string> MaybeDurationForm::print(const Type& duration) {
    return duration ? DurationForm::print(*duration) : "\"never\"";
}

std::vector<std::string> split_list(const std::string& text) {
    std::vector<std::string> items;
    if (text.find_first_not_of(' ') == std::string::npos) return items;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t comma = std::min(text.find(',', at), text.size());
        std::string item = text.substr(at, comma - at);
        item.erase(0, std::min(item.find_first_not_of(' '), item.size()));
        item.erase(item.find_last_not_of(' ') + 1);
        items.push_back(std::move(item));
        at = comma + 1;
    }
    return items;
}

std::optional<std::string> NameForm::read(const Value& value, Reading& reading) {
    const auto* text = value.as<std::string>();
    if (text != nullptr && is_valid_id_text(*text)) return *text;
    reading.unexpected(value, expects());
    return std::nullopt;
}

std::optional<std::string> NameForm::print(const Type& name) {
    if (name.empty()) return std::nullopt;
    return to_toml_string(name);
}

std::optional<ListenAddress> AddressForm::read(const Value& value, Reading& reading) {
    const auto* text = value.as<std::string>();
    const auto parsed = text != nullptr ? parse_host(*text) : std::nullopt;
    if (parsed && parsed->port) return ListenAddress{parsed->host, *parsed->port};
    reading.unexpected(value, expects());
    return std::nullopt;
}

std::optional<std::string> AddressForm::print(const Type& address) {
    return to_toml_string(address.text());
}

std::optional<std::string> UrlForm::read(const Value& value, Reading& reading) {
    const std::optional<std::string> url = TextForm::read(value, reading);
    if (!url || url->empty()) return url;
    const auto authority = authority_of(*url);
    if (!authority || url->size() != visible(*url).size()) {
        reading.mistake(value.place, "expects " + expects());
        return std::nullopt;
    }
    if (authority->contains('@')) {
        reading.mistake(value.place, "a URL here must not hold a user name or password");
        return std::nullopt;
    }
    return url;
}

std::optional<std::string> UrlForm::print(const Type& url) {
    if (url.empty()) return std::nullopt;
    return to_toml_string(url);
}

std::optional<std::string> OriginForm::read(const Value& value, Reading& reading) {
    const auto* text = value.as<std::string>();
    const auto authority = text != nullptr ? authority_of(*text) : std::nullopt;
    if (authority && text->ends_with(*authority) && !authority->contains('@')) return *text;
    reading.mistake(value.place, "expects " + expects());
    return std::nullopt;
}

std::optional<std::string> HostForm::read(const Value& value, Reading& reading) {
    const auto* text = value.as<std::string>();
    if (text != nullptr &&
        (is_host_name(*text) || is_address(AF_INET, *text) || is_address(AF_INET6, *text))) {
        return *text;
    }
    reading.unexpected(value, expects());
    return std::nullopt;
}

std::optional<std::string> PathForm::read(const Value& value, Reading& reading) {
    std::optional<std::string> path = TextForm::read(value, reading);
    if (!path) return std::nullopt;
    return expand_home(*std::move(path), value.place, reading);
}

std::optional<std::string> PathForm::print(const Type& path) {
    if (path.empty()) return std::nullopt;
    return to_toml_string(path);
}

std::optional<ModelConfig> ModelForm::read(const Value& value, Reading& reading) {
    const std::optional<std::string> text = TextForm::read(value, reading);
    if (!text) return std::nullopt;
    const std::size_t colon = text->find(':');
    const std::vector<std::string> providers = choices<ModelConfig::Provider>();
    const auto provider = std::ranges::find(providers, text->substr(0, colon));
    if (colon == std::string::npos || colon + 1 == text->size() || provider == providers.end()) {
        reading.unexpected(value, expects());
        return std::nullopt;
    }
    ModelConfig model{static_cast<ModelConfig::Provider>(provider - providers.begin()),
                      text->substr(colon + 1)};
    if (model.provider != ModelConfig::Provider::scripted) return model;
    auto file = expand_home(model.name, value.place, reading);
    if (!file) return std::nullopt;
    model.name = *std::move(file);
    return model;
}

std::optional<std::string> ModelForm::print(const Type& model) {
    if (model.name.empty()) return std::nullopt;
    return to_toml_string(std::string(choice_text(model.provider)) + ':' + model.name);
}

}  // namespace rouse::config
