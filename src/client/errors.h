#pragma once

// What went wrong on the way to the server or at the server, in one kind of error.

#include <string>

#include "base/result.h"
#include "net/http_client.h"

namespace rouse::client {

// Of an answer that is no success: the problem's detail as the message, its code as the reason if
// it is one of the contract's, else "unknown_code".
Error to_error(const HttpResponse& response);

// Of a request that got no answer: the message says what to do about it.
Error to_error(const Error& transport, const std::string& url);

}  // namespace rouse::client
