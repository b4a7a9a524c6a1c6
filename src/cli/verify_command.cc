#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/text.h"
#include "domain/codec.h"
#include "store/files/verify.h"

namespace rouse {

template <>
inline constexpr std::string_view kEnumNames<FindingKind>[] = {"damage", "stale", "note"};

namespace cli {
namespace {

struct Options {
    std::string directory;
    bool repair = false;
    bool json = false;
};

struct FindingView {
    FindingKind kind = FindingKind::note;
    std::string file;
    std::uint64_t line = 0;
    std::uint64_t offset = 0;
    std::string what;
    static constexpr auto fields() {
        using S = FindingView;
        return std::tuple(required("kind", &S::kind), required("file", &S::file),
                          field("line", &S::line), required("offset", &S::offset),
                          required("what", &S::what));
    }
};

struct ReportView {
    bool clean = false;
    std::uint64_t sessions = 0;
    std::uint64_t records = 0;
    std::uint64_t journal_groups = 0;
    std::vector<FindingView> findings;
    std::vector<std::string> repaired;
    static constexpr auto fields() {
        using S = ReportView;
        return std::tuple(required("clean", &S::clean), required("sessions", &S::sessions),
                          required("records", &S::records),
                          required("journal_groups", &S::journal_groups),
                          required("findings", &S::findings), required("repaired", &S::repaired));
    }
};

struct ErrorView {
    std::string code;
    std::string detail;
    static constexpr auto fields() {
        return std::tuple(required("code", &ErrorView::code),
                          required("detail", &ErrorView::detail));
    }
};

void print_json(const VerifyReport& report) {
    ReportView view{report.clean(), report.sessions, report.records, report.journal_groups, {},
                    report.repaired};
    for (const Finding& f : report.findings) {
        view.findings.push_back({f.kind, f.file, f.line, f.offset, f.what});
    }
    std::cout << to_json(view) << "\n";
}

void print_text(const VerifyReport& report) {
    for (const std::string& what : report.repaired) {
        std::cout << "repaired  " << printable(what) << "\n";
    }
    for (const Finding& f : report.findings) {
        std::cout << to_string(f.kind) << "  " << printable(f.file);
        if (f.line > 0) std::cout << ":" << f.line;
        std::cout << "  byte " << f.offset << ": " << printable(f.what) << "\n";
    }
    std::cout << summary_of(report) << "\n";
}

int run_verify(const Options& options, Env env) {
    const VerifyMode mode = options.repair ? VerifyMode::repair : VerifyMode::look;
    const Result<VerifyReport> report = verify(env, options.directory, mode);
    if (!report) {
        const Error& error = report.error();
        if (options.json) {
            std::cout << to_json(ErrorView{std::string(error.reason), error.message}) << "\n";
        }
        std::cerr << "rouse verify: " << printable(error.message) << "\n";
        const bool failed = error.kind == ErrorKind::io || error.kind == ErrorKind::corrupt;
        return failed ? kFailed : kUsage;
    }
    options.json ? print_json(*report) : print_text(*report);
    return report->clean() ? kDone : kFailed;
}

}  // namespace

std::string summary_of(const VerifyReport& report) {
    return counted(report.sessions, "session") + ", " + counted(report.records, "record") + ", " +
           counted(report.journal_groups, "journal group") + ": " +
           (report.clean() ? "clean" : "not clean");
}

Command add_verify(CLI::App& program, Env env) {
    auto options = std::make_shared<Options>();
    CLI::App* command =
        program.add_subcommand("verify", "Check a data directory that no server is using");
    command->add_option("directory", options->directory, "the data directory")->required();
    command->add_flag(
        "--repair", options->repair,
        "cut torn tails (their bytes are kept in damaged/) and rebuild index and views");
    command->add_flag("--json", options->json, "one JSON object instead of text");
    command->footer(
        "Exits with 0 when all is well, 1 when something is damaged or stale, 2 when the\n"
        "directory is in use or is none.\n\nExamples:\n"
        "  rouse verify ~/.local/share/rouse\n"
        "  rouse verify --repair ~/.local/share/rouse");
    return [command, options, env] { return command->parsed() ? run_verify(*options, env) : -1; };
}

}  // namespace cli
}  // namespace rouse
