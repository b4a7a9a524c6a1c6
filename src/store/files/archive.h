#pragma once

// Sessions as one text file, to keep or to take elsewhere. The lines of the logs stand in it as
// they are, so their chains still prove them (docs/log_format.md).
//
//   {"rouse_archive":1,"at":"…"}
//   {"log":"sess_…","records":2,"bytes":341,"chain":"…"}     then so many bytes of lines
//   …
//   {"end":true,"logs":1,"records":2}

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/result.h"
#include "domain/ids.h"
#include "store/files/file_store.h"

namespace rouse {

struct ArchiveWish {
    std::vector<SessionId> only;  // empty: all sessions
    // What belongs to no session: API tokens (their hashes), webhooks that wait, answers kept for
    // an Idempotency-Key.
    bool with_system_log = false;
};

struct ArchiveReport {
    std::uint64_t sessions = 0;
    std::uint64_t records = 0;
    std::vector<std::pair<SessionId, std::string>> left_out;  // and why
};

// Writes the archive to `file`, which must not exist. The directory may be in use: what was durable
// when this began is in it.
//   not_found   not_a_data_directory | unknown_session: one of those that were wished for
//   conflict    file_exists
//   corrupt     journal_damaged
Result<ArchiveReport> write_archive(Env env, const std::string& directory, const std::string& file,
                                    const ArchiveWish& wish);

struct ImportReport {
    std::uint64_t sessions = 0;  // that were added or brought forward
    std::uint64_t records = 0;
    std::uint64_t known = 0;  // that were there already
    bool left_system_log = false;
};

// Adds the archive's logs to a directory that nobody is using, or makes one. Everything is checked
// before anything is written; after a crash in the middle it can be done again. A log that is there
// is brought forward if it is the beginning of the archive's. The system log is taken over only by
// a directory that has none.
//   unavailable  directory_in_use
//   invalid      not_an_archive: with the place
//   conflict     session_differs
//   not_found    session_gone: it was deleted there
Result<ImportReport> import_archive(Env env, const std::string& file, const std::string& directory,
                                    FileStoreOptions options = {});

}  // namespace rouse
