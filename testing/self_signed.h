#pragma once

// A key and a certificate that signs itself, for servers of tests.

#include <string>
#include <string_view>

namespace rouse::testing {

struct SelfSigned {
    std::string certificate;  // PEM
    std::string key;          // PEM
};

// `names` as OpenSSL writes them: "IP:127.0.0.1,DNS:localhost".
SelfSigned make_self_signed(std::string_view names);

}  // namespace rouse::testing
