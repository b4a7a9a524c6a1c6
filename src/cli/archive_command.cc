#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/text.h"
#include "domain/codec.h"
#include "store/files/archive.h"

namespace rouse::cli {
namespace {

struct Options {
    std::string directory;
    std::string file;
    std::vector<std::string> sessions;
    bool json = false;
};

struct LeftOutView {
    std::string session;
    std::string reason;
    static constexpr auto fields() {
        return std::tuple(required("session", &LeftOutView::session),
                          required("reason", &LeftOutView::reason));
    }
};

struct WrittenView {
    std::string file;
    std::uint64_t sessions = 0;
    std::uint64_t records = 0;
    std::vector<LeftOutView> left_out;
    static constexpr auto fields() {
        using S = WrittenView;
        return std::tuple(required("file", &S::file), required("sessions", &S::sessions),
                          required("records", &S::records), required("left_out", &S::left_out));
    }
};

struct ImportedView {
    std::uint64_t sessions = 0;
    std::uint64_t records = 0;
    std::uint64_t known = 0;
    bool left_system_log = false;
    static constexpr auto fields() {
        using S = ImportedView;
        return std::tuple(required("sessions", &S::sessions), required("records", &S::records),
                          required("known", &S::known),
                          required("left_system_log", &S::left_system_log));
    }
};

int refuse(const char* command, const Error& error) {
    std::cerr << "rouse " << command << ": " << printable(error.message) << "\n";
    const bool failed = error.kind == ErrorKind::io || error.kind == ErrorKind::corrupt;
    return failed ? kFailed : kUsage;
}

int write(const char* command, const Options& options, const ArchiveWish& wish, Env env) {
    const Result<ArchiveReport> report = write_archive(env, options.directory, options.file, wish);
    if (!report) return refuse(command, report.error());
    if (options.json) {
        WrittenView view{options.file, report->sessions, report->records, {}};
        for (const auto& [session, reason] : report->left_out)
            view.left_out.push_back({session.text(), reason});
        std::cout << to_json(view) << "\n";
    } else {
        for (const auto& [session, reason] : report->left_out)
            std::cerr << "left out  " << session.text() << "  " << printable(reason) << "\n";
        std::cout << printable(options.file) << ": " << counted(report->sessions, "session") << ", "
                  << counted(report->records, "record") << "\n";
    }
    return report->left_out.empty() ? kDone : kFailed;
}

int run_export(const Options& options, Env env) {
    ArchiveWish wish;
    for (const std::string& text : options.sessions) {
        const Result<SessionId> id = parse_session_id(text);
        if (!id) return refuse("export", id.error());
        wish.only.push_back(*id);
    }
    return write("export", options, wish, env);
}

int run_import(const Options& options, Env env) {
    const Result<ImportReport> report = import_archive(env, options.file, options.directory);
    if (!report) return refuse("import", report.error());
    if (options.json) {
        std::cout << to_json(ImportedView{report->sessions, report->records, report->known,
                                          report->left_system_log})
                  << "\n";
        return kDone;
    }
    std::cout << counted(report->sessions, "session") << ", " << counted(report->records, "record")
              << " added";
    if (report->known > 0) {
        std::cout << "; " << counted(report->known, "session")
                  << (report->known == 1 ? " was" : " were") << " there already";
    }
    std::cout << "\n";
    if (report->left_system_log) {
        std::cout << "The directory keeps its own API tokens and webhooks; those of the archive "
                     "were left out.\n";
    }
    return kDone;
}

CLI::App* add(CLI::App& program, const char* name, const char* what,
              const std::shared_ptr<Options>& options) {
    CLI::App* command = program.add_subcommand(name, what);
    command->add_flag("--json", options->json, "one JSON object instead of text");
    return command;
}

}  // namespace

Command add_archives(CLI::App& program, Env env) {
    auto options = std::make_shared<Options>();
    CLI::App* exporting =
        add(program, "export", "Write sessions of a data directory to a file", options);
    exporting->add_option("directory", options->directory, "the data directory")->required();
    exporting->add_option("file", options->file, "the archive to make")->required();
    exporting->add_option("sessions", options->sessions, "only these");
    exporting->footer(
        "A server may be using the directory. API tokens and other settings stay out.\n\n"
        "Examples:\n"
        "  rouse export ~/.local/share/rouse all.rouse\n"
        "  rouse export ~/.local/share/rouse one.rouse sess_01JA2B3C4D5E6F7G8H9J0K1M2N");

    CLI::App* backing_up =
        add(program, "backup", "Write a whole data directory to a file, while a server uses it",
            options);
    backing_up->add_option("directory", options->directory, "the data directory")->required();
    backing_up->add_option("file", options->file, "the archive to make")->required();
    backing_up->footer(
        "Everything that was durable when it began is in it, except the file `token`.\n"
        "Restore it with rouse import. Exits with 1 when a session had to be left "
        "out.\n\nExamples:\n"
        "  rouse backup ~/.local/share/rouse monday.rouse\n"
        "  rouse import monday.rouse restored && rouse serve --data restored");

    CLI::App* importing =
        add(program, "import", "Add the sessions of an archive to a data directory", options);
    importing->add_option("file", options->file, "what export or backup made")->required();
    importing->add_option("directory", options->directory, "made when it is not there")->required();
    importing->footer(
        "No server may be using the directory. All is checked first, and it can be done\n"
        "again: a session that is there already is brought forward or left as it is. What\n"
        "waited still waits, under the same ids and tokens.\n\nExamples:\n"
        "  rouse import monday.rouse ~/.local/share/rouse");

    return [=] {
        if (exporting->parsed()) return run_export(*options, env);
        if (backing_up->parsed()) return write("backup", *options, ArchiveWish{{}, true}, env);
        return importing->parsed() ? run_import(*options, env) : -1;
    };
}

}  // namespace rouse::cli
