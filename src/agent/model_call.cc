#include "agent/model_call.h"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>

#include "agent/repair.h"

namespace rouse {
namespace {

namespace asio = boost::asio;

bool may_work_later(const Error& error) {
    return error.kind == ErrorKind::unavailable || error.kind == ErrorKind::timeout;
}

double random_fraction() {
    thread_local std::mt19937 generator{std::random_device{}()};
    return std::uniform_real_distribution<double>(0, 1)(generator);
}

}  // namespace

Task<Result<ModelResponse>> ModelCaller::ask(Model& model, ModelRequest request,
                                             Model::OnText on_text) {
    const std::optional<Repaired> repaired =
        repair_conversation(request.history, request.turn, model.rules());
    if (repaired) {
        if (Result<void> told = co_await tell_changes(repaired->changes); !told) {
            co_return told.error();
        }
        request.history = repaired->messages;
        request.turn = {};
    }
    // Whoever listens may fail in a way that looks like a provider's.
    bool listener_failed = false;
    const Model::OnText watched = [&](std::string_view text) -> Result<void> {
        Result<void> sent = on_text(text);
        listener_failed = !sent;
        return sent;
    };
    for (std::uint32_t failed = 0;;) {
        ModelResult answer = co_await model.generate(request, watched);
        if (answer) co_return *std::move(answer);
        if (listener_failed) co_return Error(answer.error());
        const Result<void> waited = co_await wait(++failed, answer.error());
        if (!waited) co_return waited.error();
    }
}

Task<Result<void>> ModelCaller::tell_changes(std::vector<std::string> changes) {
    std::erase_if(changes, [&](const std::string& one) { return !told_.insert(one).second; });
    if (changes.empty() || session_ == nullptr) co_return Result<void>();
    co_return co_await session_->context_repaired(std::move(changes));
}

Milliseconds ModelCaller::delay_before(std::uint32_t retry) const {
    Milliseconds delay = policy_.first_delay;
    for (std::uint32_t i = 1; i < retry && delay < policy_.longest_delay; ++i)
        delay *= 2;
    delay = std::min(delay, policy_.longest_delay);
    const double cut = (policy_.random ? policy_.random() : random_fraction()) / 2;
    return delay -
           Milliseconds(static_cast<Milliseconds::rep>(static_cast<double>(delay.count()) * cut));
}

Task<Result<void>> ModelCaller::wait(std::uint32_t failed, const ModelError& error) {
    if (!may_work_later(error)) co_return Error(error);
    if (failed > policy_.retries) {
        std::string message = error.message;
        if (failed > 1) message += " (asked " + std::to_string(failed) + " times)";
        co_return Error(error.kind, error.reason, std::move(message));
    }
    const Milliseconds delay = error.retry_after ? *error.retry_after : delay_before(failed);
    if (delay > policy_.patience) {
        std::string message = error.message + " (it asks to wait for " +
                              std::to_string(delay.count() / 1000) + " s, which is too long)";
        co_return Error(error.kind, error.reason, std::move(message));
    }
    if (session_ != nullptr) {
        Session::RetryStep step;
        step.attempt = failed + 1;
        step.message = error.message;
        step.delay = delay;
        Result<void> noted = co_await session_->model_retrying(std::move(step));
        if (!noted) co_return noted;
    }
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor);
    timer.expires_after(delay);
    co_await timer.async_wait(asio::use_awaitable);
    co_return Result<void>();
}

}  // namespace rouse
