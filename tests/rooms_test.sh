#!/usr/bin/env bash
# What only some rooms do, read from the sources; scripts/check_includes has the arrows between them.
set -eu
cd "$(dirname "$0")/.."
complain() { echo "rooms_test: $*" >&2; exit 1; }
# only PLACE WORDS ROOM...: the words stand in the sources of PLACE, and in none of the rooms.
only() {
    local place=$1 words=$2; shift 2
    sources() { grep --recursive --line-number --extended-regexp --include='*.cc' --include='*.h' \
        --exclude='*_test.cc' "$words" "$@"; }
    sources "$place" >/dev/null || complain "nothing in $place has $words any more"
    if sources "$@"; then complain "is the business of $place: $words"; fi
}
mapfile -t elsewhere < <(find src include -mindepth 1 -maxdepth 1 ! -name base ! -name store ! -name app)

# S3-57: whoever wants something durable commits it; the app alone writes its token itself.
only src/store '(\.|->)(sync|sync_data|sync_directory|write_and_sync|replace_file|replace_view)\(' "${elsewhere[@]}"
only src/base '\b(fsync|fdatasync|syncfs)\(' src/store src/app "${elsewhere[@]}"
# S3-58: what the API says of a status it was told.
only src/domain '\b(RunPhase|InterruptReason|TokenStatus)::|[^=]= SessionStatus::|return SessionStatus::' src/server
only src/domain '\b(SessionStatus|RunOutcome)::' src/server/api*.cc
# S3-64: an agent knows sessions, and neither how they are kept nor what they are at.
only src/runtime '#include "(store/|domain/(fold|status|rules|run_rules|wait_rules)\.h)' include src/agent/agent.cc
echo "rooms_test: passed"
