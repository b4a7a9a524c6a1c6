#pragma once

// A tool that is somebody's HTTP endpoint. Synchronous: the answer is the result. Asynchronous
// (spec.async): the answer says that the job has started, and the result comes later, to our
// webhook.

#include <memory>
#include <string>

#include "net/http_client.h"
#include "rouse/tool.h"
#include "tools/job_start.h"

namespace rouse {

struct HttpToolOptions {
    ToolSpec spec;
    // GET, HEAD and DELETE carry the input's members in the query, others the input as their body.
    // An async tool is always asked by POST.
    std::string method = "POST";
    std::string url = {};
    HttpHeaders headers = {};  // with their secrets filled in; they win over our own
    Milliseconds timeout = limits::kToolTimeout;  // of the request; the job's is spec.timeout
    std::size_t response_bytes = limits::kToolOutputBytes;
    JobCallback callback = {};  // of an async tool
    std::string ca_file = {};
    std::string proxy = {};
    bool allow_private_addresses = false;
};

// The client outlives the tool.
std::shared_ptr<Tool> make_http_tool(HttpToolOptions options, HttpClient& client);

}  // namespace rouse
