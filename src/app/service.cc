#include "app/service.h"

#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>

#include "agent/recovery_manager.h"
#include "agent/store_async.h"
#include "app/catalogue.h"
#include "app/memory.h"
#include "app/open_files.h"
#include "base/digest.h"
#include "config/print.h"
#include "runtime/outbox.h"
#include "runtime/work_loop.h"
#include "server/http_server.h"
#include "server/transcripts.h"
#include "store/files/file_store.h"

namespace rouse::app {

namespace asio = boost::asio;
using namespace server;

namespace {

constexpr std::size_t kTokenBytes = 32;

Error setup_error(std::string message) {
    return {ErrorKind::invalid, "cannot_start", std::move(message)};
}

// The token that the command line uses; made at the first start and kept.
Result<std::string> open_token(Env env, const std::string& path) {
    const Result<std::string> kept = env.fs.read_file(path);
    if (kept) {
        std::string token = *kept;
        while (!token.empty() && token.back() == '\n')
            token.pop_back();
        if (!token.empty()) return token;
    } else if (kept.error().kind != ErrorKind::not_found) {
        return kept.error();
    }
    IdSource ids(env.clock, env.random);
    const std::string token = "rouse_" + ids.random_text(kTokenBytes);
    if (Result<void> written = env.fs.replace_file(path, token + "\n"); !written) {
        return written.error();
    }
    return token;
}

Result<void> make_directories(const std::string& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (!error) return {};
    return setup_error("cannot make the data directory " + path + ": " + error.message());
}

ResumePolicy policy_of(RecoveryConfig::Resume resume) {
    switch (resume) {
        case RecoveryConfig::Resume::off: return ResumePolicy::off;
        case RecoveryConfig::Resume::active: return ResumePolicy::active;
        case RecoveryConfig::Resume::all: return ResumePolicy::all;
    }
    return ResumePolicy::active;
}

std::vector<WebhookEndpoint> endpoints_of(const Config& config) {
    std::vector<WebhookEndpoint> endpoints;
    for (const WebhookConfig& webhook : config.webhooks) {
        WebhookEndpoint endpoint{webhook.url, webhook.secret.variable, {}};
        for (const WebhookEvent event : webhook.events)
            endpoint.events.emplace_back(to_string(event));
        endpoints.push_back(std::move(endpoint));
    }
    return endpoints;
}

HttpLimits http_limits(const LimitsConfig& config, bool behind_proxy, Logger& log) {
    HttpLimits limits;
    limits.behind_proxy = behind_proxy;
    limits.header_bytes = config.header_bytes;
    limits.header_fields = config.header_fields;
    limits.body_bytes = config.body_bytes;
    limits.connections = connections_within(allow_open_files(), config.connections);
    if (limits.connections < config.connections) {
        log.warn("connections.limited", {{"connections", limits.connections},
                                         {"wanted", config.connections},
                                         {"by", "the limit of open files (ulimit -n)"}});
    }
    limits.connections_per_address = config.connections_per_address;
    limits.header_time = std::chrono::ceil<std::chrono::seconds>(config.header_time);
    limits.request_time = std::chrono::ceil<std::chrono::seconds>(config.request_time);
    limits.idle_time = std::chrono::ceil<std::chrono::seconds>(config.idle_time);
    return limits;
}

// Everything that lives as long as the server does. Members are in the order of their needs.
class Service {
 public:
    Service(Env env, ServiceOptions options, std::shared_ptr<FileStore> store, BootId boot,
            const std::string& token)
        : env_(env),
          options_(std::move(options)),
          store_(std::move(store)),
          boot_id_(std::move(boot)),
          http_client_(work_.get_executor()),
          system_(env_, store_),
          children_(env_.clock, env_.random, *store_, registry_),
          waits_(*store_),
          mail_planner_(env_.clock, env_.random, *store_, waits_),
          companions_(env_, *store_, system_, registry_, waits_, boot_id_),
          driver_({env_, store_, boot_id_, registry_, work_.get_executor(),
                   options_.config.limits.concurrent_runs,
                   [this](const RunDriver::Delta& delta) { hub_.on_delta(delta); },
                   [this] { return hub_.has_readers(); }}),
          sweeper_(env_.clock, work_.get_executor(),
                   [this](SessionId id) { return coordinator_.sweep(std::move(id)); }),
          coordinator_(
              {env_, store_, boot_id_, registry_, system_, companions_, driver_, sweeper_, notes_,
               [this] { return api_.requests_under_way() == 1 && driver_.in_flight() == 0; },
               [this](const SessionId& session, const PendingId& call, const Progress& progress) {
                   hub_.on_progress(session, call, progress);
               }}),
          detached_(env_.log, work_.get_executor(),
                    [this](PendingId id, Settlement settlement) {
                        return settle(std::move(id), std::move(settlement));
                    }),
          claims_(store_, coordinator_, registry_, work_.get_executor()),
          mailroom_({env_, store_, system_, companions_, mail_planner_, work_.get_executor()}),
          tasks_(system_),
          outbox_(
              env_, system_, work_.get_executor(),
              [this](WebhookPost post) { return send_webhook(std::move(post)); },
              [this](const std::string& name) { return secret(name); }),
          hub_(
              net_.get_executor(), store_, [this](const SessionId& id) { return look(id); },
              [this](const SessionId& id) { return snapshot(id); },
              HubLimits{options_.config.limits.stream_events, options_.config.limits.stream_bytes}),
          auth_(env_.clock, auth_options(token), system_),
          api_({env_,
                store_,
                registry_,
                system_,
                coordinator_,
                driver_,
                claims_,
                mailroom_,
                mail_planner_,
                tasks_,
                notes_,
                hub_,
                metrics_,
                auth_,
                net_.get_executor(),
                work_.get_executor(),
                reading_.get_executor(),
                options_.version,
                [this](const std::string& name) { return secret(name); },
                [this] { asio::post(work_, [this] { outbox_.wake(); }); }}),
          http_(net_.get_executor(), api_, env_.log,
                http_limits(options_.config.limits, options_.config.server.behind_proxy, env_.log)),
          signals_(net_, SIGTERM, SIGINT, SIGHUP) {}

    Result<void> run() {
        if (Result<void> secured = use_tls(options_.config.server); !secured) return secured;
        if (Result<void> opened = system_.open(); !opened) return opened;
        connect();
        // Mistakes in it are found before anything is written.
        if (Result<void> built = build(); !built) return built;
        const auto meet = [this](const SessionSummary& session) { coordinator_.meet(session); };
        Result<BootReport> boot =
            RecoveryManager(env_, *store_, &companions_).recover(boot_id_, meet);
        if (!boot) return boot.error();
        boot_ = *std::move(boot);
        api_.set_boot(boot_);
        const ListenAddress& listen = options_.config.server.listen;
        const Result<std::uint16_t> port = http_.listen(listen.host, listen.port);
        if (!port) return port.error();
        ListenAddress bound = listen;
        bound.port = *port;
        url_ = (has_tls() ? "https://" : "http://") + bound.text();
        if (Result<void> built = build(); !built) return built;  // tools are told where we listen
        metrics_.recovered(boot_.waiting, boot_.expired, boot_.interrupted, boot_.to_drive.size());
        start_work();
        api_.set_ready(true);
        if (options_.on_listening) options_.on_listening(url_, token_path());
        wait_for_signal();
        auto guard = asio::make_work_guard(work_);
        std::thread work([this] { run_together(work_, *store_); });
        net_.run();
        reading_.stop();  // nobody is left who could be answered
        reading_.join();
        guard.reset();
        work.join();
        return closed_;
    }

    void on_commit(const CommittedLines& committed) { hub_.on_commit(committed); }
    bool has_readers() const { return hub_.has_readers(); }
    void on_rest() {
        asio::post(work_, [this] {
            driver_.forget_idle();
            give_back_memory();
        });
    }
    void on_group(const SyncedGroup& group) { metrics_.group(group.commits, group.took); }

 private:
    std::string token_path() const { return options_.config.store.path + "/token"; }

    Result<void> build() {
        const Result<Catalogue> catalogue = build_catalogue(options_.config, catalogue_parts());
        if (!catalogue) return catalogue.error();
        registry_.replace(*catalogue);
        return {};
    }

    CatalogueParts catalogue_parts() {
        const std::string& configured = options_.config.server.public_url;
        return {env_.clock,
                http_client_,
                children_,
                detached_,
                mail_planner_,
                configured.empty() ? url_ : configured,
                [this](const std::string& name) { return secret(name); }};
    }

    AuthOptions auth_options(const std::string& token) const {
        AuthOptions auth;
        auth.admin_hash = sha256_hex(token);
        auth.open = options_.insecure_no_auth;
        auth.allowed_hosts = options_.config.server.allowed_hosts;
        auth.allowed_hosts.push_back(options_.config.server.listen.host);
        auth.cors_origins = options_.config.server.cors_origins;
        auth.failed_logins_per_minute = options_.config.limits.failed_logins_per_minute;
        auth.refused_results_per_minute = options_.config.limits.refused_results_per_minute;
        return auth;
    }

    std::optional<std::string> secret(const std::string& name) const {
        const auto found = options_.environment.find(name);
        if (found == options_.environment.end()) return std::nullopt;
        return found->second;
    }

    std::optional<EventHub::View> look(const SessionId& id) const {
        const auto state = store_->load(id);
        if (!state) return std::nullopt;
        const Viewer viewer{boot_id_, env_.clock.now(), false};
        EventHub::View view;
        view.seq = (*state)->last_seq;
        view.status = status_json(**state, viewer);
        return view;
    }

    std::string snapshot(const SessionId& id) const {
        auto state = store_->load(id);
        if (!state) return "{}";
        state = notes_.over(*std::move(state));
        const Result<Transcript> said = read_open_calls(*store_, **state);
        const OpenInputs inputs = said ? open_inputs(**state, *said) : OpenInputs();
        const Viewer viewer{boot_id_, env_.clock.now(), false};
        return session_json(**state, inputs, std::nullopt, store_->log_bytes(id), viewer);
    }

    Task<Result<void>> settle(PendingId id, Settlement settlement) {
        const Coordinator::Note no_note;
        const Result<Reply> settled =
            co_await coordinator_.settle(std::move(id), std::move(settlement), no_note);
        if (!settled) co_return settled.error();
        co_return Result<void>();
    }

    Task<Result<int>> send_webhook(WebhookPost post) {
        HttpRequest request;
        request.method = "POST";
        request.url = std::move(post.url);
        request.headers = std::move(post.headers);
        request.body = std::move(post.body);
        request.total_timeout = options_.config.limits.webhook_time;
        request.max_response_bytes = options_.config.limits.webhook_answer_bytes;
        request.allow_private_addresses = true;  // whoever writes the configuration may
        // The status says it all, however long the rest is.
        int status = 0;
        request.on_headers = [&status](const HttpResponse& answer) {
            status = answer.status;
            return Result<void>();
        };
        const Result<HttpResponse> response = co_await http_client_.send(std::move(request));
        if (response) co_return response->status;
        if (response.error().reason == "response_too_large" && status != 0) co_return status;
        co_return response.error();
    }

    void connect() {
        CommitEffects effects;
        effects.drive = [this](const SessionId& id) { driver_.drive(id); };
        effects.due = [this](const SessionId& id, std::optional<Timestamp> at) {
            sweeper_.set(id, at);
        };
        effects.webhook_queued = [this] { outbox_.wake(); };
        effects.calls_wait = [this](const SessionId& id) { claims_.calls_wait(id); };
        effects.mail_queued = [this](const Letter& letter) { mailroom_.carry(letter); };
        effects.call_closed = [this](const PendingId& id) { detached_.stop(id); };
        effects.call_ended = [this](const PendingId& id) {
            detached_.ended(id);
            notes_.forget(id);
        };
        effects.run_given_up = [this](const SessionId& id, const RunId& run) {
            driver_.tell(id, run);
            asio::co_spawn(work_, coordinator_.cancel_children(id, run),
                           [](const std::exception_ptr&) {});
        };
        effects.count = [this](const std::vector<std::size_t>& kinds) { metrics_.count(kinds); };
        companions_.set_effects(std::move(effects));
        companions_.set_webhooks(endpoints_of(options_.config),
                                 options_.config.limits.webhook_payload_bytes);
        companions_.set_wake_interrupted(options_.config.recovery.resume !=
                                         RecoveryConfig::Resume::off);
        driver_.set_companions(companions_);
    }

    void start_work() {
        outbox_.start();
        mailroom_.start();
        if (const MaybeDuration after = options_.config.retention.finished_after) {
            asio::co_spawn(work_, keep_retention(*after), [](const std::exception_ptr&) {});
        }
        asio::co_spawn(work_, coordinator_.start(boot_, policy_of(options_.config.recovery.resume)),
                       [this](const std::exception_ptr& thrown) {
                           if (thrown) env_.log.error("recovery.escaped", {});
                       });
    }

    Task<void> keep_retention(Milliseconds after) {
        constexpr Milliseconds kLongest = std::chrono::minutes(1);
        while (!retention_stopped_) {
            co_await coordinator_.remove_finished(after);
            retention_.expires_after(std::min(after / 2, kLongest));
            (void)co_await retention_.async_wait(asio::as_tuple(asio::use_awaitable));
        }
    }

    void wait_for_signal() {
        signals_.async_wait([this](const boost::system::error_code& error, int signal) {
            if (error) return;
            if (signal == SIGHUP) {
                reload();
            } else if (std::exchange(stopping_, true)) {
                ::_exit(128 + signal);
            } else {
                asio::co_spawn(net_, shut_down(), [this](const std::exception_ptr&) {
                    work_.stop();
                    net_.stop();
                });
            }
            wait_for_signal();
        });
    }

    bool has_tls() const { return !options_.config.server.tls_cert.empty(); }
    Result<void> use_tls(const ServerConfig& server) {
        if (!has_tls() || server.tls_cert.empty()) return {};
        return http_.use_tls(server.tls_cert, server.tls_key);
    }

    // A server that began without TLS goes on without, and the other way round.
    static std::string needs_restart(const Config& began, const Config& now) {
        const bool certificate_alone =
            !began.server.tls_cert.empty() && !now.server.tls_cert.empty();
        static const std::set<std::string> of_agents = {"agents",
                                                        "tools",
                                                        "limits.call_timeout",
                                                        "limits.tool_time",
                                                        "limits.turn_time",
                                                        "limits.model_iterations",
                                                        "limits.run_tokens",
                                                        "limits.session_tokens"};
        std::string left;
        for (const std::string& key : changed_keys(began, now)) {
            const bool of_models = key.starts_with("anthropic.") || key.starts_with("openai.");
            const bool of_tls = key == "server.tls_cert" || key == "server.tls_key";
            if (of_models || (of_tls && certificate_alone)) continue;
            if (of_agents.contains(key)) continue;
            left += (left.empty() ? "" : ", ") + key;
        }
        return left;
    }

    void reload() {
        const Result<Config> config = options_.reload();
        const Result<Catalogue> catalogue = config ? build_catalogue(*config, catalogue_parts())
                                                   : Result<Catalogue>(config.error());
        const Result<void> secured = catalogue ? use_tls(config->server) : catalogue.error();
        if (!secured) {
            env_.log.error("config.not_reloaded", {{"error", secured.error().message}});
            return;
        }
        registry_.replace(*catalogue);
        env_.log.info("config.reloaded",
                      {{"agents", catalogue->agents.size()}, {"tools", catalogue->tools.size()}});
        const std::string left = needs_restart(options_.config, *config);
        if (!left.empty()) env_.log.warn("config.needs_restart", {{"keys", left}});
    }

    Task<void> shut_down() {
        env_.log.info("shutdown.begun", {});
        api_.set_ready(false);
        http_.stop();
        hub_.close();
        auto quiet = [](Service& service) -> Task<void> {
            service.sweeper_.stop();
            service.outbox_.stop();
            service.claims_.close();
            service.retention_stopped_ = true;
            service.retention_.cancel();
            const Milliseconds grace = service.options_.config.limits.shutdown_time / 2;
            co_await service.driver_.shut_down(grace);
            co_await service.detached_.shut_down(grace / 2);
            Commit stopped = make_commit(system_log(), std::nullopt,
                                         Records(1, BootStopped{service.boot_id_, {}}));
            (void)co_await commit_async(*service.store_, std::move(stopped));
        };
        co_await asio::co_spawn(work_, quiet(*this), asio::use_awaitable);
        asio::steady_timer pause(net_);
        for (int tries = 0; tries < 50 && http_.connections() > 0; ++tries) {
            pause.expires_after(std::chrono::milliseconds(20));
            (void)co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
        }
        http_.close_all();
        system_.close();
        closed_ = store_->close();
        env_.log.info("shutdown.done", {});
    }

    Env env_;
    ServiceOptions options_;
    std::shared_ptr<FileStore> store_;
    BootId boot_id_;
    BootReport boot_;
    asio::io_context net_{1};
    asio::io_context work_{1};
    asio::thread_pool reading_{1};
    HttpClient http_client_;
    Registry registry_;
    SystemLog system_;
    ChildPlanner children_;
    WaitGraph waits_;
    MailPlanner mail_planner_;
    SessionCompanions companions_;
    RunDriver driver_;
    Sweeper sweeper_;
    CallNotes notes_;
    Coordinator coordinator_;
    DetachedCalls detached_;
    ClaimDesk claims_;
    Mailroom mailroom_;
    TaskBoard tasks_;
    Outbox outbox_;
    EventHub hub_;
    Metrics metrics_;
    Auth auth_;
    Api api_;
    HttpServer http_;
    asio::signal_set signals_;
    asio::steady_timer retention_{work_};
    bool retention_stopped_ = false;
    std::string url_;
    bool stopping_ = false;
    Result<void> closed_;
};

}  // namespace

Result<void> run_service(Env env, ServiceOptions options) {
    const std::string directory = options.config.store.path;
    if (Result<void> made = make_directories(directory); !made) return made;
    bound_memory_caches();
    std::atomic<Service*> listening = nullptr;
    FileStoreOptions store_options;
    store_options.on_group = [&](const SyncedGroup& group) {
        if (Service* service = listening) service->on_group(group);
    };
    store_options.on_rest = [&] {
        give_back_memory();
        if (Service* service = listening) service->on_rest();
    };
    Result<std::unique_ptr<FileStore>> opened = FileStore::open(env, directory, store_options);
    if (!opened) return opened.error();
    const std::shared_ptr<FileStore> store = *std::move(opened);
    const Result<std::string> token = open_token(env, directory + "/token");
    if (!token) return token.error();
    store->listen({[&](const CommittedLines& committed) {
                       if (Service* service = listening) service->on_commit(committed);
                   },
                   [&] {
                       const Service* service = listening;
                       return service != nullptr && service->has_readers();
                   }});
    IdSource ids(env.clock, env.random);
    Service service(env, std::move(options), store, ids.make<BootId>(), *token);
    listening = &service;
    Result<void> ended = service.run();
    listening = nullptr;
    if (!ended) (void)store->close().has_value();
    return ended;
}

}  // namespace rouse::app
