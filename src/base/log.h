#pragma once

// Structured logging: one line is one event with a stable name and fields, as JSON. Secrets print
// as ***, and text that looks like one of our tokens is masked wherever it turns up.
//
//   error  somebody must act      warn  we coped      info  lifecycle      debug  the rest

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "base/secret.h"

namespace spdlog {
class logger;
}

namespace rouse {

enum class LogLevel : std::uint8_t { debug, info, warn, error, off };

class LogField {
 public:
    LogField(std::string_view name, std::string_view text);
    LogField(std::string_view name, const char* text) : LogField(name, std::string_view(text)) {}
    LogField(std::string_view name, const std::string& text)
        : LogField(name, std::string_view(text)) {}
    LogField(std::string_view name, const Secret&) : LogField(name, "***") {}
    LogField(std::string_view name, bool flag);
    template <std::integral Number>
    LogField(std::string_view name, Number number) : name_(name), json_(std::to_string(number)) {}

    std::string_view name() const { return name_; }
    const std::string& json() const { return json_; }

 private:
    std::string_view name_;
    std::string json_;
};

class Logger final {
 public:
    using Fields = std::initializer_list<LogField>;

    // Lines go to standard error.
    explicit Logger(LogLevel level);
    // Lines go to `into`, which the caller keeps alive: for tests.
    Logger(LogLevel level, std::ostream& into);
    ~Logger();

    // False: what is logged at that level goes nowhere, and its fields need not be made.
    bool takes(LogLevel level) const { return level >= level_; }

    void debug(std::string_view event, Fields fields = {}) {
        write(LogLevel::debug, event, fields);
    }
    void info(std::string_view event, Fields fields = {}) { write(LogLevel::info, event, fields); }
    void warn(std::string_view event, Fields fields = {}) { write(LogLevel::warn, event, fields); }
    void error(std::string_view event, Fields fields = {}) {
        write(LogLevel::error, event, fields);
    }

 private:
    void write(LogLevel level, std::string_view event, Fields fields);

    std::unique_ptr<spdlog::logger> sink_;
    LogLevel level_;
};

// The text with the secret half of every resume token (rt_<id>.<secret>) replaced by ***.
std::string mask_tokens(std::string_view text);

}  // namespace rouse
