#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>

#include "app/commands.h"
#include "app/model_checks.h"
#include "app/service.h"
#include "config/load.h"
#include "config/report.h"

namespace rouse::app {
namespace {

struct ConfigFlags {
    std::string file;
    std::string data;
    std::string listen;
    std::string log_level;
};

void add_flags(CLI::App& command, ConfigFlags& flags) {
    command.add_option("-c,--config", flags.file, "Configuration file (TOML)");
    command.add_option("-d,--data", flags.data, "Data directory (store.path)")
        ->check([](const std::string& given) {
            return given.empty() ? std::string("it must not be empty") : std::string();
        });
    command.add_option("-l,--listen", flags.listen, "Address and port (server.listen)");
    command.add_option("--log-level", flags.log_level, "debug, info, warn, error or off");
}

Result<ConfigSources> sources_of(const ConfigFlags& flags) {
    ConfigSources sources;
    sources.environment = process_environment();
    if (!flags.file.empty()) {
        std::error_code ignored;
        const bool is_folder = std::filesystem::is_directory(flags.file, ignored);
        std::ifstream file(flags.file);
        std::ostringstream text;
        if (file && !is_folder && file.peek() != std::ifstream::traits_type::eof()) {
            text << file.rdbuf();
        }
        if (is_folder || !text || (!file && !file.eof())) {
            return Error(ErrorKind::not_found, "no_config",
                         "cannot read the configuration " + flags.file +
                             (is_folder ? ": it is a directory" : ""));
        }
        sources.file_text = text.str();
        sources.file_name = flags.file;
    }
    if (!flags.data.empty()) sources.flags.emplace_back("store.path", flags.data);
    if (!flags.listen.empty()) sources.flags.emplace_back("server.listen", flags.listen);
    if (!flags.log_level.empty()) sources.flags.emplace_back("server.log_level", flags.log_level);
    return sources;
}

// The mistakes of the models are among the others; their warnings stand apart.
std::pair<ConfigResult, std::vector<ConfigMistake>> load_with_models(const ConfigSources& sources) {
    ConfigResult loaded = load_config(sources);
    ModelChecks checks = check_models(loaded, sources.environment);
    std::ranges::move(checks.mistakes, std::back_inserter(loaded.mistakes));
    return {std::move(loaded), std::move(checks.warnings)};
}

Result<Config> load(const ConfigFlags& flags) {
    const Result<ConfigSources> sources = sources_of(flags);
    if (!sources) return sources.error();
    ConfigResult loaded = load_with_models(*sources).first;
    if (loaded.ok()) return std::move(loaded.config);
    return Error(ErrorKind::invalid, "invalid_config", to_text(loaded.mistakes));
}

void greet(const std::string& url, const std::string& token_file) {
    std::cout
        << "listening on " << url << "\n\n"
        << "  export ROUSE_URL=" << url << " ROUSE_TOKEN=$(cat " << token_file << ")\n"
        << "  curl -H \"Authorization: Bearer $ROUSE_TOKEN\" \\\n"
        << "       \"$ROUSE_URL/v1/sessions?wait=5s\" \\\n"
        << "       -H 'Content-Type: application/json' -d '{\"message\": \"Deploy main\"}'\n\n"
        << std::flush;
}

int serve(Env env, const ConfigFlags& flags, bool insecure) {
    Result<Config> config = load(flags);
    if (!config) {
        const bool unread = config.error().reason == "no_config";
        std::cerr << (unread ? "rouse serve: " : "") << config.error().message
                  << (unread ? "\n" : "");
        return cli::kUsage;
    }
    if (insecure && !config->server.listen.loopback()) {
        std::cerr << "rouse serve: --insecure-no-auth is for loopback addresses only\n";
        return cli::kUsage;
    }
    Logger log(config->server.log_level);
    ServiceOptions options;
    options.environment = process_environment();
    options.insecure_no_auth = insecure;
    options.version = ROUSE_VERSION;
    options.reload = [flags] { return load(flags); };
    options.on_listening = greet;
    options.config = *std::move(config);
    std::signal(SIGPIPE, SIG_IGN);  // whoever reads what we print may go; we stay
    if (insecure) std::cerr << "anybody who reaches this port may do anything: no token is asked\n";
    const Result<void> ended = run_service({env.clock, env.random, env.fs, log}, options);
    if (ended) return cli::kDone;
    std::cerr << "rouse serve: " << ended.error().message << "\n";
    return ended.error().reason == "invalid_config" ? cli::kUsage : cli::kFailed;
}

}  // namespace

cli::Command add_serve(CLI::App& program, Env env) {
    CLI::App* command = program.add_subcommand("serve", "Run the server");
    command->footer(
        "Examples:\n"
        "  rouse serve                        demo agent, data in ~/.local/share/rouse\n"
        "  rouse serve --config rouse.toml    agents and tools of your own\n"
        "  rouse serve --data ./data --listen 127.0.0.1:0");
    auto flags = std::make_shared<ConfigFlags>();
    auto insecure = std::make_shared<bool>(false);
    add_flags(*command, *flags);
    command->add_flag("--insecure-no-auth", *insecure,
                      "Ask for no token: whoever reaches the port may do anything");
    return [command, env, flags, insecure]() -> int {
        return command->parsed() ? serve(env, *flags, *insecure) : -1;
    };
}

cli::Command add_config(CLI::App& program, Env /*env*/) {
    CLI::App* command = program.add_subcommand("config", "Look at the configuration");
    CLI::App* check = command->add_subcommand(
        "check", "Print the configuration in effect, or every mistake in it");
    check->footer(
        "Exits with 0 when the server would take it, and with 2 when it has mistakes.\n\n"
        "Examples:\n"
        "  rouse config check --config rouse.toml\n"
        "  rouse config check                     without a file: the defaults");
    command->require_subcommand(1);
    command->footer("Examples:\n  rouse config check --config rouse.toml");
    auto flags = std::make_shared<ConfigFlags>();
    add_flags(*check, *flags);
    return [check, flags]() -> int {
        if (!check->parsed()) return -1;
        const Result<ConfigSources> sources = sources_of(*flags);
        if (!sources) {
            std::cerr << "rouse config check: " << sources.error().message << "\n";
            return cli::kUsage;
        }
        const auto [loaded, warnings] = load_with_models(*sources);
        const ConfigReport report = report_config(*sources, loaded);
        (report.ok ? std::cout : std::cerr) << report.text << std::flush;
        std::cerr << to_text(warnings, "warning");
        return report.ok ? cli::kDone : cli::kUsage;
    };
}

}  // namespace rouse::app
