#include "models/provider_api.h"

namespace rouse {

std::string join_url(std::string base, std::string_view path) {
    while (base.ends_with('/'))
        base.pop_back();
    return base.append(path);
}

}  // namespace rouse
