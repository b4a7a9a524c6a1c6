#include <algorithm>

#include "net/http_client.h"

namespace rouse {

const std::string* HttpResponse::header(std::string_view name) const {
    const auto found = std::ranges::find(headers, name, &HttpHeaders::value_type::first);
    return found == headers.end() ? nullptr : &found->second;
}

}  // namespace rouse
