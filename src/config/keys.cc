#include "config/keys.h"

#include <utility>

#include "config/forms.h"

namespace rouse::config {
namespace {

template <class Form, class Section>
Key<Section> key(std::string_view name, typename Form::Type Section::* member,
                 std::string_view meaning) {
    return {
        .name = name,
        .meaning = meaning,
        .expects = Form::expects(),
        .set =
            [member](Section& section, const Value& value, Reading& reading) {
                auto read = Form::read(value, reading);
                if (!read) return false;
                section.*member = *std::move(read);
                return true;
            },
        .from_text = [](const std::string& text,
                        const ConfigPlace& place) { return Form::from_text(text, place); },
        .print = [member](const Section& section) { return Form::print(section.*member); },
    };
}

// std::vector's braces would copy every Key, std::functions and all.
template <class Section, class... More>
std::vector<Key<Section>> keys(Key<Section> first, More... more) {
    std::vector<Key<Section>> all;
    all.push_back(std::move(first));
    (all.push_back(std::move(more)), ...);
    return all;
}

}  // namespace

template <>
const SectionTable<ServerConfig>& table_of() {
    using S = ServerConfig;
    static const SectionTable<ServerConfig> table{
        "server", "Where the server listens and whom it believes.",
        keys(key<AddressForm>(
                 "listen", &S::listen,
                 "Beyond this machine only with TLS or `behind_proxy`; port 0 takes a free "
                 "one."),
             key<UrlForm>("public_url", &S::public_url,
                          "How others reach this server: the start of callback URLs."),
             key<ListForm<HostForm>>("allowed_hosts", &S::allowed_hosts,
                                     "Names under which requests may come, besides loopback and "
                                     "`listen`."),
             key<FlagForm>("behind_proxy", &S::behind_proxy,
                           "A proxy in front does TLS, and adds its client to "
                           "X-Forwarded-For."),
             key<PathForm>("tls_cert", &S::tls_cert,
                           "Certificate chain, PEM. Read again at SIGHUP."),
             key<PathForm>("tls_key", &S::tls_key, "Its private key, PEM."),
             key<ListForm<OriginForm>>("cors_origins", &S::cors_origins,
                                       "Web pages of other origins that may call the API."),
             key<ChoiceForm<LogLevel>>("log_level", &S::log_level, "The least that is logged."))};
    return table;
}

template <>
const SectionTable<StoreConfig>& table_of() {
    using S = StoreConfig;
    static const SectionTable<StoreConfig> table{
        "store", "Where sessions are kept.",
        keys(key<ChoiceForm<S::Kind>>("kind", &S::kind,
                                      "`sqlite` and `postgres` are not available in this version."),
             key<PathForm>("path", &S::path, "The data directory; one server at a time has it.")
                 .by_default("`$XDG_DATA_HOME/rouse`, else `~/.local/share/rouse`"))};
    return table;
}

template <>
const SectionTable<RecoveryConfig>& table_of() {
    using S = RecoveryConfig;
    static const SectionTable<RecoveryConfig> table{
        "recovery", "What happens after a restart.",
        keys(key<ChoiceForm<S::Resume>>(
            "resume", &S::resume,
            "Which interrupted runs go on by themselves: none, those that "
            "this restart ended, or those of earlier ones too."))};
    return table;
}

template <>
const SectionTable<RetentionConfig>& table_of() {
    using S = RetentionConfig;
    static const SectionTable<RetentionConfig> table{
        "retention", "How long finished sessions are kept.",
        keys(key<MaybeDurationForm>("finished_after", &S::finished_after,
                                    "A session that is idle for this long is deleted."))};
    return table;
}

template <>
const SectionTable<LimitsConfig>& table_of() {
    using S = LimitsConfig;
    static const SectionTable<LimitsConfig> table{
        "limits", "What bounds the work, the clients and the outside.",
        keys(
            key<CountForm>("concurrent_runs", &S::concurrent_runs,
                           "Runs at work at once; what is accepted beyond them queues."),
            key<CountForm>("model_iterations", &S::model_iterations,
                           "Model calls in one turn, up to its end or its next wait."),
            key<MaybeDurationForm>("turn_time", &S::turn_time,
                                   "How long a turn may work, up to its end or its next wait."),
            key<MaybeDurationForm>("call_timeout", &S::call_timeout,
                                   "How long a call may wait for its result from outside."),
            key<DurationForm>("tool_time", &S::tool_time,
                              "How long a call may take while its turn stands still for it."),
            key<TokensForm>("run_tokens", &S::run_tokens,
                            "Tokens that a run may use; then it waits until somebody says "
                            "something, and goes on for as many again."),
            key<TokensForm>("session_tokens", &S::session_tokens,
                            "The same for all runs of a session together."),
            key<BytesForm>("body_bytes", &S::body_bytes, "A request's body, at most `16MiB`."),
            key<BytesForm>("header_bytes", &S::header_bytes, "A request's first line and headers."),
            key<CountForm>("header_fields", &S::header_fields, "Headers of a request."),
            key<DurationForm>("header_time", &S::header_time,
                              "For a client to send first line and headers."),
            key<DurationForm>("request_time", &S::request_time, "For a client to send all of it."),
            key<DurationForm>("idle_time", &S::idle_time, "Between two requests of a connection."),
            key<CountForm>("connections", &S::connections, "Of all clients together."),
            key<CountForm>(
                "connections_per_address", &S::connections_per_address,
                "Of one address, before it has shown a valid token; not `behind_proxy`."),
            key<CountForm>("failed_logins_per_minute", &S::failed_logins_per_minute,
                           "Wrong tokens of one address; the right one is never refused."),
            key<CountForm>("refused_results_per_minute", &S::refused_results_per_minute,
                           "Results without a token that were refused, of one address."),
            key<CountForm>("stream_events", &S::stream_events,
                           "Events that wait for a slow reader before it is sent away."),
            key<BytesForm>("stream_bytes", &S::stream_bytes, "The same in bytes."),
            key<BytesForm>("websocket_message_bytes", &S::websocket_message_bytes,
                           "A message from a client."),
            key<DurationForm>("websocket_ping", &S::websocket_ping,
                              "Between two pings; two unanswered ones end the connection."),
            key<DurationForm>("webhook_time", &S::webhook_time,
                              "One attempt of an outgoing webhook."),
            key<BytesForm>("webhook_answer_bytes", &S::webhook_answer_bytes,
                           "Of a webhook's answer that are read."),
            key<BytesForm>("webhook_payload_bytes", &S::webhook_payload_bytes,
                           "A webhook's `data`; of more, only the ids and `seq` are sent."),
            key<DurationForm>("shutdown_time", &S::shutdown_time,
                              "For work in flight when the server is told to stop."))};
    return table;
}

template <>
const SectionTable<AnthropicConfig>& table_of() {
    using S = AnthropicConfig;
    static const SectionTable<AnthropicConfig> table{
        "anthropic", "For every `anthropic:<model>`, of agents and of sessions that name one.",
        keys(key<UrlForm>("base_url", &S::base_url, "Where its API is, up to before `/v1`.")
                 .by_default("`\"https://api.anthropic.com\"`"),
             key<SecretForm>("api_key_env", &S::api_key, "Holds the key.")
                 .by_default("`\"ANTHROPIC_API_KEY\"`"))};
    return table;
}

template <>
const SectionTable<OpenAiConfig>& table_of() {
    using S = OpenAiConfig;
    static const SectionTable<OpenAiConfig> table{
        "openai", "For every `openai:<model>`, of agents and of sessions that name one.",
        keys(key<UrlForm>("base_url", &S::base_url,
                          "Where its API is, up to and with `/v1`: OpenAI's, Ollama's, vLLM's, "
                          "llama.cpp's, a gateway's.")
                 .by_default("`\"https://api.openai.com/v1\"`"),
             key<SecretForm>("api_key_env", &S::api_key, "Holds the key.")
                 .by_default("`\"OPENAI_API_KEY\"`"))};
    return table;
}

template <>
const SectionTable<AgentConfig>& table_of() {
    using S = AgentConfig;
    static const SectionTable<AgentConfig> table{
        "agents", "An agent: a model, what it is told, and what it can do.",
        keys(key<NameForm>("name", &S::name, "How sessions ask for it.").required(),
             key<ModelForm>("model", &S::model,
                            "Keys of models come from the environment: `ANTHROPIC_API_KEY`, "
                            "`OPENAI_API_KEY`.")
                 .required(),
             key<TextForm>("system", &S::system, "The system prompt."),
             key<ListForm<TextForm>>("tools", &S::tools,
                                     "Names of `[[tools]]`, or of the built-in `ask_user`, "
                                     "`wait_until`, `start_session`, `broadcast`."),
             key<FlagForm>(
                 "parallel", &S::parallel,
                 "Calls of one batch run side by side; else one after the other, up to the "
                 "first that waits."),
             key<CountForm>("max_iterations", &S::max_iterations, "Model calls in one turn.")
                 .by_default("`limits.model_iterations`"),
             key<MaybeDurationForm>("time_limit", &S::time_limit, "How long a turn may work.")
                 .by_default("`limits.turn_time`"),
             key<ChoiceForm<ToolConfig::OnUnknown>>("on_unknown", &S::on_unknown,
                                                    "A call may have run when the server died: "
                                                    "tell the model, or ask a person. For tools "
                                                    "that do not say it themselves."),
             key<UrlForm>("base_url", &S::base_url, "Where the model's API is.")
                 .by_default("that of `[anthropic]` or `[openai]`"),
             key<SecretForm>("api_key_env", &S::api_key, "Holds the model's key.")
                 .by_default("that of `[anthropic]` or `[openai]`"),
             key<ChoiceForm<S::Api>>("api", &S::api,
                                     "Of an `openai` model: Chat Completions, which everybody "
                                     "speaks, or the Responses API."),
             key<HeadersForm>("headers", &S::headers,
                              "More headers of each request to the model. A secret is the whole "
                              "text of a variable: `{ \"x-team\" = \"env:TEAM\" }`."),
             key<MaybeRealForm>(
                 "temperature", &S::temperature,
                 "Of the model; without it, the provider's default. Anthropic takes it "
                 "with `anthropic_version = \"2023-06-01\"` only."),
             key<MaybeCountForm>("max_tokens", &S::max_tokens,
                                 "Of one answer; without it 8192 at Anthropic, else the "
                                 "provider's default."),
             key<ObjectForm>("request", &S::request,
                             "Members for each request, over ours of the same name: `{ thinking = "
                             "{ type = \"adaptive\" } }`."),
             key<FlagForm>("stream", &S::stream, "The answer comes piece by piece."),
             key<DurationForm>("request_timeout", &S::request_timeout,
                               "For one answer of the model, whole."),
             key<DurationForm>("idle_timeout", &S::idle_timeout,
                               "For the model's next byte, the first one too."),
             key<PathForm>("ca_file", &S::ca_file,
                           "Certificates that are trusted instead of the system's, PEM."),
             key<TextForm>("anthropic_version", &S::anthropic_version,
                           "The header `anthropic-version`."),
             key<ListForm<TextForm>>("anthropic_beta", &S::anthropic_beta,
                                     "The header `anthropic-beta`."),
             key<RetriesForm>("retries", &S::retries,
                              "How often a model call that may work later is made again."),
             key<DurationForm>("retry_delay", &S::retry_delay,
                               "Before the first time; then twice as long, up to a minute, or as "
                               "the provider asks."),
             key<TokensForm>("run_tokens", &S::run_tokens, "As in `[limits]`.")
                 .by_default("`limits.run_tokens`"),
             key<TokensForm>("session_tokens", &S::session_tokens, "As in `[limits]`.")
                 .by_default("`limits.session_tokens`"))};
    return table;
}

template <>
const SectionTable<ToolConfig>& table_of() {
    using S = ToolConfig;
    constexpr KindSet kHttp = kind_bit(S::Kind::http);
    constexpr KindSet kExec = kind_bit(S::Kind::exec);
    constexpr KindSet kExternal = kind_bit(S::Kind::external);
    static const SectionTable<ToolConfig> table{
        "tools",
        "A tool: a request to another system (`http`), a program on this machine (`exec`), or "
        "one that calls nobody and waits until a worker, a system or a person answers "
        "(`external`). `exec` tools run with the server's rights.",
        keys(
            key<NameForm>("name", &S::name, "What the model calls.").required(),
            key<ChoiceForm<S::Kind>>("kind", &S::kind, "Who does the work.").required(),
            key<TextForm>("description", &S::description, "What it does, for the model."),
            key<SchemaForm>("parameters", &S::parameters, "What it takes; without it, any object."),
            key<SchemaForm>(
                "result_schema", &S::result_schema,
                "What a result must look like, whoever gives it; without it, anything."),
            key<MaybeDurationForm>("timeout", &S::timeout,
                                   "How long a call may take, from its start to its result.")
                .by_default("`limits.call_timeout` where the result comes from outside or after "
                            "`detach_after`, else `limits.tool_time`"),
            key<ChoiceForm<S::Approval>>("approval", &S::approval,
                                         "`always`: a person is asked before each call."),
            key<SecretForm>(
                "callback_secret_env", &S::callback_secret,
                "Holds the secret that signs results from outside, and what is posted to "
                "`webhook_url`. An `http` or `exec` tool needs `async` for it."),
            key<UrlForm>("webhook_url", &S::webhook_url,
                         "Told when a call is settled by somebody else, expires or is cancelled."),
            key<FlagForm>("idempotent", &S::idempotent, "May run again after a crash."),
            key<FlagForm>("read_only", &S::read_only,
                          "Changes nothing: may run again after a crash."),
            key<FlagForm>("destructive", &S::destructive,
                          "For people who are asked to approve it."),
            key<MaybeChoiceForm<S::OnUnknown>>(
                "on_unknown", &S::on_unknown,
                "A call may have run when the server died: tell the model, or ask a person.")
                .only(kHttp | kExec)
                .by_default("the agent's"),
            key<FlagForm>("async", &S::async,
                          "It only starts something; the result comes later, from outside.")
                .only(kHttp | kExec),
            key<DurationForm>("start_timeout", &S::start_timeout,
                              "How long the start of an `async` call may take.")
                .only(kHttp | kExec),
            key<MaybeDurationForm>(
                "detach_after", &S::detach_after,
                "A call that is not `async` and takes longer no longer holds its "
                "turn up: the turn waits, as for an outside result.")
                .only(kHttp | kExec),
            key<UrlForm>("url", &S::url, "Where the request goes.").required().only(kHttp),
            key<ChoiceForm<S::Method>>("method", &S::method, "Of the request.").only(kHttp),
            key<HeadersForm>("headers", &S::headers,
                             "Headers of the request. A secret is the whole text of a variable: "
                             "`{ Authorization = \"env:CI_AUTH\" }`.")
                .only(kHttp),
            key<ListForm<TextForm>>("command", &S::command,
                                    "The program and its arguments; no shell is involved.")
                .required()
                .only(kExec),
            key<VariablesForm>("env", &S::env, "Its environment, with secrets as in `headers`.")
                .only(kExec),
            key<PathForm>("cwd", &S::cwd, "Its working directory; without it, the server's.")
                .only(kExec),
            key<BytesForm>(
                "output_bytes", &S::output_bytes,
                "Of its output; more is an error. The rest of its standard error is dropped.")
                .only(kExec),
            key<ChoiceForm<S::WaitsFor>>("waits_for", &S::waits_for,
                                         "Who answers: a worker or system, or a person.")
                .only(kExternal))};
    return table;
}

template <>
const SectionTable<WebhookConfig>& table_of() {
    using S = WebhookConfig;
    static const SectionTable<WebhookConfig> table{
        "webhooks", "Whom the server tells what happens, signed as Standard Webhooks asks.",
        keys(
            key<UrlForm>("url", &S::url, "Where it is posted to.").required(),
            key<SecretForm>("secret_env", &S::secret, "Holds the secret that signs it.").required(),
            key<ListForm<ChoiceForm<WebhookEvent>>>("events", &S::events, "What to tell.")
                .by_default("all of them"))};
    return table;
}

std::string kind_names(KindSet kinds) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < kChoices<ToolConfig::Kind>.size(); ++i) {
        if ((kinds & kind_bit(static_cast<ToolConfig::Kind>(i))) != 0) {
            names.emplace_back(kChoices<ToolConfig::Kind>[i]);
        }
    }
    return alternatives(names);
}

std::string variable_name(std::string_view section, std::string_view key) {
    std::string name = "ROUSE_" + std::string(section) + '_' + std::string(key);
    for (char& c : name) {
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    }
    return name;
}

}  // namespace rouse::config
