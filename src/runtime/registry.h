#pragma once

// What the configuration offers: agents, and the definitions of tools. Replaced as a whole when the
// configuration is read again; whoever works with an older one keeps it until done.

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/schema_check.h"
#include "rouse/agent.h"

namespace rouse {

// Who brings the result of a tool's pending calls.
enum class SettledBy : std::uint8_t {
    nobody,   // its calls never wait
    outside,  // a system that was told the pending id: the id is enough
    worker,   // whoever pulls it, with a token that may submit
    person    // with a token that may operate
};
template <>
inline constexpr std::string_view kEnumNames<SettledBy>[] = {"nobody", "outside", "worker",
                                                             "person"};

struct ToolDefinition {
    ToolSpec spec;
    std::string kind;  // http, exec, external, built-in
    SettledBy settled_by = SettledBy::nobody;
    RawJson result_schema;
    std::optional<SchemaCheck> result_check;  // of result_schema
};

struct AgentDefinition {
    std::string name;
    std::string model;
    std::string provider;
    std::vector<std::string> tools;
    std::shared_ptr<Agent> agent;
};

// For a session that names its model itself. invalid  unknown_model
using MakeModel = std::function<Result<std::shared_ptr<Model>>(const std::string& agent,
                                                               const Provider& provider)>;

struct Catalogue {
    std::map<std::string, AgentDefinition> agents;
    std::map<std::string, ToolDefinition> tools;
    std::vector<std::string> models;
    std::string default_agent;
    MakeModel make_model;

    const AgentDefinition* find_agent(const std::string& name) const;
    const ToolDefinition* find_tool(const std::string& name) const;
};

// For any thread.
class Registry final {
 public:
    std::shared_ptr<const Catalogue> catalogue() const;
    void replace(Catalogue catalogue);

 private:
    mutable std::mutex mutex_;
    std::shared_ptr<const Catalogue> catalogue_ = std::make_shared<const Catalogue>();
};

}  // namespace rouse
