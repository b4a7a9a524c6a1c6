#include <map>

#include "server/api.h"

namespace rouse::server {
namespace {

std::string_view scope_of(Api::Access access) {
    switch (access) {
        case Api::Access::open: return "";
        case Api::Access::read: return "read";
        case Api::Access::submit: return "submit";
        case Api::Access::operate: return "operate";
        case Api::Access::admin: return "admin";
        case Api::Access::or_pending_id: return "submit";
    }
    return "";
}

std::string parameters_of(const Api::Route& route) {
    std::string_view pattern = route.pattern;
    std::vector<std::string> parameters;
    while (pattern.find('{') != std::string_view::npos) {
        pattern.remove_prefix(pattern.find('{') + 1);
        JsonObject one;
        one.text("name", pattern.substr(0, pattern.find('}'))).text("in", "path");
        one.flag("required", true).raw("schema", R"({"type":"string"})");
        parameters.push_back(one.done());
    }
    for (const std::string& name : route.query_names()) {
        JsonObject one;
        one.text("name", name).text("in", "query").raw("schema", R"({"type":"string"})");
        parameters.push_back(one.done());
    }
    return json_list(parameters);
}

std::string operation(const Api::Route& route) {
    JsonObject out;
    out.text("summary", route.summary).raw("parameters", parameters_of(route));
    const std::string_view scope = scope_of(route.access);
    out.text("x-scope", scope);
    if (scope.empty()) {
        out.raw("security", "[]");
    } else if (route.access == Api::Access::or_pending_id) {
        out.raw("security", R"([{"bearer":[]},{}])");
    }
    if (route.method == "POST" || route.method == "PATCH") {
        out.raw("requestBody", R"({"content":{"application/json":{"schema":{"type":"object"}}}})");
    }
    out.raw("responses",
            R"({"2XX":{"description":"Done, or accepted and durable"},)"
            R"("default":{"description":"A problem","content":{"application/problem+json":)"
            R"({"schema":{"$ref":"#/components/schemas/Problem"}}}}})");
    return out.done();
}

}  // namespace

std::string openapi_json(const std::vector<Api::Route>& routes, const std::string& version) {
    std::map<std::string, std::string> paths;
    for (const Api::Route& route : routes) {
        std::string method(route.method);
        for (char& c : method)
            c = static_cast<char>(c - 'A' + 'a');
        std::string& path = paths[std::string(route.pattern)];
        path += (path.empty() ? "" : ",") + ("\"" + method + "\":" + operation(route));
    }
    JsonObject all;
    for (const auto& [path, operations] : paths)
        all.raw(path, "{" + operations + "}");
    JsonObject out;
    out.text("openapi", "3.1.0");
    out.raw("info", JsonObject().text("title", "Rouse").text("version", version).done());
    out.raw("paths", all.done());
    out.raw(
        "components",
        R"({"securitySchemes":{"bearer":{"type":"http","scheme":"bearer"}},"schemas":{"Problem":)"
        R"({"type":"object","properties":{"type":{"type":"string"},"title":{"type":"string"},)"
        R"("status":{"type":"integer"},"detail":{"type":"string"},"code":{"type":"string"},)"
        R"("field":{"type":"string"},"request_id":{"type":"string"}}}}})");
    out.raw("security", R"([{"bearer":[]}])");
    return out.done();
}

}  // namespace rouse::server
