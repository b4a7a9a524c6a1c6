#include "rouse/hooks.h"

namespace rouse {
namespace {

Task<HookVerdict> call_plain(const std::function<HookVerdict(HookContext&)>& hook,
                             HookContext& context) {
    co_return hook(context);
}

}  // namespace

Hooks& Hooks::add(HookPoint point, std::function<HookVerdict(HookContext&)> hook) {
    // The chain that holds the hook outlives its call, so the coroutine may refer to it.
    return add_async(point, [hook = std::move(hook)](HookContext& context) {
        return call_plain(hook, context);
    });
}

Hooks& Hooks::add_async(HookPoint point, Hook hook) {
    hooks_[static_cast<std::size_t>(point)].push_back(std::move(hook));
    return *this;
}

const std::vector<Hook>& Hooks::at(HookPoint point) const {
    return hooks_[static_cast<std::size_t>(point)];
}

}  // namespace rouse
