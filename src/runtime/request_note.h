#pragma once

#include <string>

namespace rouse {

// Remembered with the change that a request made, so that the same request gets the same answer
// again, after a crash too.
struct RequestNote {
    std::string key;  // a digest of who asked, what, and the key they chose
    std::string body_digest;
};

}  // namespace rouse
