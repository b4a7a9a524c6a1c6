#include "runtime/registry.h"

namespace rouse {

const AgentDefinition* Catalogue::find_agent(const std::string& name) const {
    const auto found = agents.find(name);
    return found == agents.end() ? nullptr : &found->second;
}

const ToolDefinition* Catalogue::find_tool(const std::string& name) const {
    const auto found = tools.find(name);
    return found == tools.end() ? nullptr : &found->second;
}

std::shared_ptr<const Catalogue> Registry::catalogue() const {
    const std::lock_guard lock(mutex_);
    return catalogue_;
}

void Registry::replace(Catalogue catalogue) {
    auto next = std::make_shared<const Catalogue>(std::move(catalogue));
    const std::lock_guard lock(mutex_);
    catalogue_ = std::move(next);
}

}  // namespace rouse
