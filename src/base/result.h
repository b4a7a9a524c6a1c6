#pragma once

// How an operation says that it did not work: a value, not an exception. Daily business (an expired
// token, a moved log, a full disk) travels in a Result; only bugs end the process (check.h).

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace rouse {

// What a caller can do about it. A new kind only when some caller would act on it differently.
enum class ErrorKind : std::uint8_t {
    invalid,       // the input is wrong; sending it again will not help
    not_found,     // nothing has this name
    conflict,      // the state moved or was decided otherwise
    precondition,  // not in a state in which this makes sense
    denied,        // the caller may not do this
    unavailable,   // not now: stopped, full or starting
    timeout,
    cancelled,
    corrupt,  // stored bytes are not what was written
    io,       // the outside world failed
    internal,
};

std::string_view to_string(ErrorKind kind);

struct Error {
    ErrorKind kind = ErrorKind::internal;
    std::string_view reason = "internal";  // a stable literal for programs, never built at run time
    std::string message;                   // for people: what was being attempted on what

    Error() = default;
    Error(ErrorKind k, std::string_view r, std::string m)
        : kind(k), reason(r), message(std::move(m)) {}
    friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
class [[nodiscard]] Result : public std::expected<T, Error> {
    using Base = std::expected<T, Error>;

 public:
    using Base::Base;
    Result() = default;
    Result(Error error) : Base(std::unexpect, std::move(error)) {}  // NOLINT: `return error;`
};

template <>
class [[nodiscard]] Result<void> : public std::expected<void, Error> {
    using Base = std::expected<void, Error>;

 public:
    using Base::Base;
    Result() = default;
    Result(Error error) : Base(std::unexpect, std::move(error)) {}  // NOLINT: `return error;`
};

}  // namespace rouse
