#include "base/log.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>

#include "base/json.h"
#include "base/utf8.h"

namespace rouse {
namespace {

std::unique_ptr<spdlog::logger> make_sink(spdlog::sink_ptr sink) {
    auto logger = std::make_unique<spdlog::logger>("rouse", std::move(sink));
    logger->set_pattern("{\"ts\":\"%Y-%m-%dT%H:%M:%S.%eZ\",%v}", spdlog::pattern_time_type::utc);
    logger->set_level(spdlog::level::trace);
    return logger;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
    switch (level) {
        case LogLevel::debug: return spdlog::level::debug;
        case LogLevel::info: return spdlog::level::info;
        case LogLevel::warn: return spdlog::level::warn;
        case LogLevel::error: return spdlog::level::err;
        case LogLevel::off: return spdlog::level::off;
    }
    return spdlog::level::off;
}

// As the configuration has it, not as the library would say.
std::string_view name_of(LogLevel level) {
    switch (level) {
        case LogLevel::debug: return "debug";
        case LogLevel::info: return "info";
        case LogLevel::warn: return "warn";
        case LogLevel::error: return "error";
        case LogLevel::off: return "off";
    }
    return "off";
}

// What moves the cursor, breaks a line or turns the direction of writing around.
bool drives_a_terminal(char32_t code) {
    return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x061C || code == 0x200E ||
           code == 0x200F || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

// A JSON string that is safe to look at, whatever the text is.
std::string to_harmless_json(std::string_view text) {
    std::string json = "\"";
    while (!text.empty()) {
        const Utf8Character character = first_utf8_character(text);
        if (character.length == 0) {
            json += "\\ufffd";
        } else if (text[0] == '\n') {
            json += "\\n";
        } else if (drives_a_terminal(character.code)) {
            json += fmt::format("\\u{:04x}", static_cast<unsigned>(character.code));
        } else {
            if (text[0] == '"' || text[0] == '\\') json += '\\';
            json += text.substr(0, character.length);
        }
        text.remove_prefix(std::max<std::size_t>(character.length, 1));
    }
    return json += '"';
}

bool is_token_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

}  // namespace

LogField::LogField(std::string_view name, std::string_view text)
    : name_(name), json_(to_harmless_json(mask_tokens(text))) {}

LogField::LogField(std::string_view name, bool flag)
    : name_(name), json_(flag ? "true" : "false") {}

Logger::Logger(LogLevel level)
    : sink_(make_sink(std::make_shared<spdlog::sinks::stderr_sink_mt>())), level_(level) {}

Logger::Logger(LogLevel level, std::ostream& into)
    : sink_(make_sink(std::make_shared<spdlog::sinks::ostream_sink_mt>(into, true))),
      level_(level) {}

Logger::~Logger() = default;

void Logger::write(LogLevel level, std::string_view event, Fields fields) {
    if (level < level_) return;
    std::string line = "\"level\":";
    append_json_string(line, name_of(level));
    line += ",\"event\":";
    append_json_string(line, event);
    for (const LogField& field : fields) {
        line += ',';
        append_json_string(line, field.name());
        line += ':';
        line += field.json();
    }
    sink_->log(to_spdlog(level), spdlog::string_view_t(line));
}

std::string mask_tokens(std::string_view text) {
    std::string masked;
    masked.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        if (!text.substr(at).starts_with("rt_")) {
            masked += text[at++];
            continue;
        }
        while (at < text.size() && is_token_character(text[at]))
            masked += text[at++];
        if (at >= text.size() || text[at] != '.') continue;
        // Up to the last dot with something behind it: in "part_x.rt_id.secret" the first match is
        // not the token.
        std::size_t end = at;
        while (end + 1 < text.size() && text[end] == '.' && is_token_character(text[end + 1])) {
            ++end;
            while (end < text.size() && is_token_character(text[end]))
                ++end;
        }
        masked += end > at ? ".***" : ".";
        at = std::max(end, at + 1);
    }
    return masked;
}

}  // namespace rouse
