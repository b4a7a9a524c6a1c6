#include "client/server_address.h"

namespace rouse::client {
namespace {

std::string without_blanks(std::string text) {
    const auto is_blank = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
    while (!text.empty() && is_blank(text.back()))
        text.pop_back();
    return text;
}

std::string_view host_of(std::string_view url) {
    url.remove_prefix(url.find("//") + 2);
    url = url.substr(0, url.find('/'));
    if (url.starts_with('[')) return url.substr(0, url.find(']') + 1);
    return url.substr(0, url.find(':'));
}

bool is_this_machine(std::string_view url) {
    const std::string_view host = host_of(url);
    if (host == "localhost" || host == "[::1]") return true;
    return host.starts_with("127.") && host.find_first_not_of(".0123456789") == host.npos;
}

Result<std::string> to_url(std::string text) {
    if (!text.contains("://")) text = "http://" + text;
    while (text.ends_with('/'))
        text.pop_back();
    const bool known = text.starts_with("http://") || text.starts_with("https://");
    const bool plain = text.find_first_of("@?# ") == std::string::npos;
    if (known && plain && !host_of(text).empty()) return text;
    return Error(ErrorKind::invalid, "usage",
                 "'" + text + "' is not the URL of a server, such as " + std::string(kStandardUrl));
}

std::string first_of(const std::string& flag, const std::string& otherwise) {
    return flag.empty() ? otherwise : flag;
}

}  // namespace

std::string data_directory(const Variable& variable) {
    const std::string home = variable("HOME");
    if (const std::string path = variable("ROUSE_STORE_PATH"); !path.empty()) {
        const bool in_home = path == "~" || path.starts_with("~/");
        return in_home ? home + path.substr(1) : path;
    }
    if (const std::string data = variable("XDG_DATA_HOME"); data.starts_with('/')) {
        return data + "/rouse";
    }
    return home.empty() ? std::string() : home + "/.local/share/rouse";
}

Result<ServerAddress> find_server(const ServerFlags& flags, const Variable& variable, Fs& fs) {
    ServerAddress address;
    if (const std::string given = first_of(flags.url, variable("ROUSE_URL")); !given.empty()) {
        Result<std::string> url = to_url(given);
        if (!url) return url.error();
        address.url = *std::move(url);
    }
    address.ca_file = first_of(flags.ca_file, variable("ROUSE_CA_FILE"));
    const auto take = [&](std::string content, const std::string& file) {
        address.token = Secret(without_blanks(std::move(content)));
        address.token_file = file;
    };
    if (!flags.token_file.empty()) {
        Result<std::string> token = fs.read_file(flags.token_file);
        if (!token) return token.error();
        take(*std::move(token), flags.token_file);
        return address;
    }
    const std::string given = first_of(flags.token, variable("ROUSE_TOKEN"));
    if (!given.empty()) {
        address.token = Secret(given);
        return address;
    }
    const std::string directory = data_directory(variable);
    if (directory.empty() || !is_this_machine(address.url)) return address;
    const std::string file = directory + "/token";
    if (Result<std::string> token = fs.read_file(file)) take(*std::move(token), file);
    return address;
}

}  // namespace rouse::client
