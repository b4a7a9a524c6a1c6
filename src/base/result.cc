#include "base/result.h"

namespace rouse {

std::string_view to_string(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::invalid: return "invalid";
        case ErrorKind::not_found: return "not_found";
        case ErrorKind::conflict: return "conflict";
        case ErrorKind::precondition: return "precondition";
        case ErrorKind::denied: return "denied";
        case ErrorKind::unavailable: return "unavailable";
        case ErrorKind::timeout: return "timeout";
        case ErrorKind::cancelled: return "cancelled";
        case ErrorKind::corrupt: return "corrupt";
        case ErrorKind::io: return "io";
        case ErrorKind::internal: return "internal";
    }
    return "internal";
}

}  // namespace rouse
