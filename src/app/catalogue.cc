#include "app/catalogue.h"

#include <algorithm>

#include "config/choices.h"
#include "rouse/ask_user.h"
#include "rouse/scripted_model.h"
#include "tools/broadcast_tool.h"
#include "tools/checked_tool.h"
#include "tools/exec_tool.h"
#include "tools/http_tool.h"
#include "tools/waiting_tools.h"

namespace rouse::app {
namespace {

// Suspends on a deploy and answers with its result, for every message of every session.
constexpr std::string_view kDemoScript =
    R"({"when":{"tool_result":"deploy_preview"},"say":"The preview is up: {{result}}","repeat":true}
{"when":{},"say":"Deploying a preview; I go on when it is up.","call":[{"tool":"deploy_preview","input":{"branch":"main"}}],"repeat":true}
)";

Error invalid(std::string message) {
    return {ErrorKind::invalid, "invalid_config", std::move(message)};
}

ToolConfig demo_tool() {
    ToolConfig tool;
    tool.name = "deploy_preview";
    tool.description = "Deploys a branch as a preview; its URL comes later";
    tool.parameters =
        R"({"type":"object","properties":{"branch":{"type":"string"}},"required":["branch"]})";
    return tool;
}

std::string_view method_name(ToolConfig::Method method) {
    switch (method) {
        case ToolConfig::Method::get: return "GET";
        case ToolConfig::Method::post: return "POST";
        case ToolConfig::Method::put: return "PUT";
        case ToolConfig::Method::patch: return "PATCH";
        case ToolConfig::Method::del: return "DELETE";
    }
    return "POST";
}

ToolSpec spec_of(const ToolConfig& tool) {
    ToolSpec spec;
    spec.name = tool.name;
    spec.description = tool.description;
    if (!tool.parameters.empty()) spec.parameters = RawJson::trusted(tool.parameters);
    spec.annotations.read_only = tool.read_only;
    spec.annotations.idempotent = tool.idempotent;
    spec.annotations.destructive = tool.destructive;
    spec.annotations.approval = tool.approval == ToolConfig::Approval::always;
    if (tool.on_unknown) {
        spec.annotations.ask_if_unknown = *tool.on_unknown == ToolConfig::OnUnknown::ask;
    }
    spec.async = tool.async;
    spec.timeout = tool.timeout;
    const bool leaves = tool.kind != ToolConfig::Kind::external;
    spec.callback = {tool.async && leaves, tool.callback_secret.variable, tool.webhook_url};
    return spec;
}

// Of the request or the program; a job that it starts has a time of its own.
Milliseconds time_of_one_call(const ToolConfig& tool) {
    constexpr Milliseconds kNever = std::chrono::hours(366 * 24);
    return tool.async ? tool.start_timeout : tool.timeout.value_or(kNever);
}

std::shared_ptr<Tool> make_http(const ToolConfig& tool, const CatalogueParts& parts) {
    HttpToolOptions options;
    options.spec = spec_of(tool);
    options.method = method_name(tool.method);
    options.url = tool.url;
    for (const auto& [name, value] : tool.headers)
        options.headers.emplace_back(name, value.value.reveal());
    options.timeout = time_of_one_call(tool);
    options.response_bytes = tool.output_bytes;
    options.callback = {parts.public_url, tool.callback_secret.variable};
    options.proxy = "env";
    options.allow_private_addresses = true;  // whoever writes the configuration may
    return make_http_tool(std::move(options), parts.http);
}

std::shared_ptr<Tool> make_exec(const ToolConfig& tool, const CatalogueParts& parts) {
    ExecToolOptions options;
    options.spec = spec_of(tool);
    options.command = tool.command;
    for (const auto& [name, value] : tool.env)
        options.env.emplace_back(name, value.value.reveal());
    options.cwd = tool.cwd;
    options.timeout = time_of_one_call(tool);
    options.output_bytes = tool.output_bytes;
    options.callback = {parts.public_url, tool.callback_secret.variable};
    return make_exec_tool(std::move(options));
}

struct Building {
    Catalogue catalogue;
    std::map<std::string, std::shared_ptr<Tool>> tools;
    MaybeDuration person_timeout;

    Result<void> add(std::shared_ptr<Tool> tool, ToolDefinition definition) {
        definition.spec = tool->spec();
        if (!definition.result_schema.absent()) {
            Result<SchemaCheck> check = SchemaCheck::compile(definition.result_schema);
            if (!check) {
                return invalid("result_schema of tool " + tool->spec().name + ": " +
                               check.error().message);
            }
            definition.result_check = *std::move(check);
        }
        const std::string name = tool->spec().name;
        catalogue.tools.emplace(name, std::move(definition));
        tools.emplace(name, std::move(tool));
        return {};
    }

    void add_built_ins(const CatalogueParts& parts) {
        const auto built_in = [&](std::shared_ptr<Tool> tool, SettledBy by) {
            ToolDefinition definition;
            definition.kind = "built-in";
            definition.settled_by = by;
            (void)add(std::move(tool), std::move(definition)).has_value();
        };
        AskUserOptions asks;
        asks.async = true;
        asks.timeout = person_timeout;
        built_in(ask_user_tool(std::move(asks)), SettledBy::person);
        built_in(wait_until_tool(parts.clock), SettledBy::nobody);
        MailPlanner& mail = parts.mail;
        const PlanLetter plan = [&mail](const BroadcastQuestion& asked) {
            MailQuestion question;
            question.from = asked.from;
            question.message = asked.message;
            if (!asked.to.empty()) question.to = {asked.to};
            question.reply_to = MessageId(asked.reply_to);
            question.resume = asked.resume;
            question.wait = asked.wait;
            return mail.plan(question);
        };
        built_in(broadcast_tool(plan, person_timeout), SettledBy::nobody);
        ChildPlanner& children = parts.children;
        built_in(start_session_tool([&children](const ChildQuestion& question) {
                     return children.plan(question.parent, question.agent, question.message,
                                          question.session_id);
                 }),
                 SettledBy::nobody);
    }

    Result<void> add_tool(const ToolConfig& tool, const CatalogueParts& parts) {
        ToolDefinition definition;
        if (!tool.result_schema.empty()) {
            definition.result_schema = RawJson::trusted(tool.result_schema);
        }
        std::shared_ptr<Tool> made;
        switch (tool.kind) {
            case ToolConfig::Kind::http:
                definition.kind = "http";
                if (tool.async) definition.settled_by = SettledBy::outside;
                made = make_http(tool, parts);
                break;
            case ToolConfig::Kind::exec:
                definition.kind = "exec";
                if (tool.async) definition.settled_by = SettledBy::outside;
                made = make_exec(tool, parts);
                break;
            case ToolConfig::Kind::external: {
                definition.kind = "external";
                const bool person = tool.waits_for == ToolConfig::WaitsFor::person;
                definition.settled_by = person ? SettledBy::person : SettledBy::worker;
                made = external_tool(spec_of(tool), person ? WaitsFor::person : WaitsFor::external);
                break;
            }
        }
        // What comes from outside is checked when it comes.
        const bool answers_itself = tool.kind != ToolConfig::Kind::external && !tool.async;
        if (answers_itself && !definition.result_schema.absent()) {
            Result<SchemaCheck> check = SchemaCheck::compile(definition.result_schema);
            // Of one that is no schema, add() tells.
            if (check) made = checked_tool(std::move(made), *std::move(check));
        }
        if (tool.detach_after) made = parts.detached.wrap(std::move(made), *tool.detach_after);
        return add(std::move(made), std::move(definition));
    }

    Result<void> add_agent(const AgentConfig& agent, std::shared_ptr<Model> model,
                           std::string model_name) {
        AgentOptions options;
        options.name = agent.name;
        options.system_prompt = agent.system;
        options.model = std::move(model);
        options.parallel_tool_calls = agent.parallel;
        options.max_iterations = agent.max_iterations;
        options.time_limit = agent.time_limit;
        options.approval_timeout = person_timeout;
        options.ask_if_unknown = agent.on_unknown == ToolConfig::OnUnknown::ask;
        options.retry.retries = agent.retries;
        options.retry.first_delay = agent.retry_delay;
        options.budget = {agent.run_tokens, agent.session_tokens};
        AgentDefinition definition;
        definition.name = agent.name;
        definition.provider = config::choice_text(agent.model.provider);
        definition.model = std::move(model_name);
        definition.tools = agent.tools;
        for (const std::string& name : agent.tools) {
            const auto tool = tools.find(name);
            if (tool == tools.end()) {
                return invalid("agent " + agent.name + ": the tool " + name +
                               " is not available in this version");
            }
            options.tools.push_back(tool->second);
        }
        definition.agent = std::make_shared<Agent>(std::move(options));
        if (catalogue.default_agent.empty()) catalogue.default_agent = agent.name;
        catalogue.agents.emplace(agent.name, std::move(definition));
        return {};
    }
};

}  // namespace

Result<Catalogue> build_catalogue(const Config& config, const CatalogueParts& parts) {
    Building building;
    building.person_timeout = config.limits.call_timeout;
    building.add_built_ins(parts);
    for (const ToolConfig& tool : config.tools) {
        if (Result<void> added = building.add_tool(tool, parts); !added) return added.error();
    }
    const auto maker = std::make_shared<const ModelMaker>(config, parts.http, parts.variables);
    building.catalogue.make_model = [maker](const std::string& agent, const Provider& provider) {
        return maker->for_session(agent, provider);
    };
    for (const AgentConfig& agent : config.agents) {
        Result<std::shared_ptr<Model>> model = maker->for_agent(agent);
        if (!model) return model.error();
        const bool scripted = agent.model.provider == ModelConfig::Provider::scripted;
        const std::string full =
            std::string(config::choice_text(agent.model.provider)) + ':' + agent.model.name;
        std::vector<std::string>& models = building.catalogue.models;
        if (std::ranges::find(models, full) == models.end()) models.push_back(full);
        const std::string name = scripted ? full : agent.model.name;
        if (Result<void> added = building.add_agent(agent, *model, name); !added) {
            return added.error();
        }
    }
    if (!config.agents.empty()) return std::move(building.catalogue);
    if (Result<void> added = building.add_tool(demo_tool(), parts); !added) return added.error();
    Result<std::shared_ptr<ScriptedModel>> model =
        ScriptedModel::from_text(kDemoScript, "the demo's script");
    if (!model) return model.error();
    AgentConfig agent;
    agent.name = "demo";
    agent.tools = {"deploy_preview"};
    building.catalogue.models.emplace_back("scripted:demo");
    if (Result<void> added = building.add_agent(agent, *model, "scripted:demo"); !added) {
        return added.error();
    }
    return std::move(building.catalogue);
}

}  // namespace rouse::app
