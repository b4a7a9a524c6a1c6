#!/usr/bin/env bash
# Every command of the binary against a server of its own, and every example of docs/cli.md.
#   tests/cli_test.sh BINARY
set -eEu
trap 'echo "cli_test: line $LINENO failed: $BASH_COMMAND" >&2' ERR
binary=$(realpath "${1:?the rouse binary}")
source=$(realpath "$(dirname "$0")/..")
examples=$source/tests/cli_examples.py
work=$(mktemp --directory)
server=""
failures=0

stop_server() {
    [ -z "$server" ] || { kill -9 "$server" && wait "$server"; } 2>/dev/null || true
    server=""
}
trap 'stop_server; rm --recursive --force "$work"' EXIT
cd "$work"
mkdir bin && ln --symbolic "$binary" bin/rouse
export PATH=$work/bin:$PATH ROUSE_STORE_PATH=data HOME=$work
unset ROUSE_URL ROUSE_TOKEN XDG_DATA_HOME NO_COLOR

# start_server PORT [VARIABLE=VALUE]…
start_server() {
    local port=$1
    shift
    env "$@" rouse serve --config rouse.toml --data data --listen "127.0.0.1:$port" >serve.log 2>&1 &
    server=$!
    for _ in $(seq 200); do
        grep --quiet "^listening on" serve.log && break
        sleep 0.05
    done
    ROUSE_URL=$(sed --quiet 's/^listening on //p' serve.log)
    export ROUSE_URL
    [ -n "$ROUSE_URL" ] || { cat serve.log >&2; exit 1; }
}
port() { echo "${ROUSE_URL##*:}"; }

complain() { echo "cli_test: $*" >&2; failures=$((failures + 1)); }

# expect CODE PATTERN COMMAND…: its exit code, and a pattern in what it prints on either stream
expect() {
    local want=$1 pattern=$2 code=0 output
    shift 2
    output=$("$@" 2>&1 </dev/null) || code=$?
    [ "$code" -eq "$want" ] || complain "exit code $code, not $want: $* → $output"
    grep --quiet --extended-regexp -- "$pattern" <<<"$output" || complain "no '$pattern': $* → $output"
}
newest() { rouse sessions ls --limit 1 --json | grep --only-matching 'sess_[0-9A-Z]*' | head -1; }
pending_of() { rouse sessions show "$1" --json | grep --only-matching 'pnd_[0-9A-Z_]*' | head -1; }
on_terminal() { script --quiet --return --command "$1" /dev/null </dev/null; }
is_json() { python3 -m json.tool >/dev/null; }
is_quiet() { ! LC_ALL=C grep --quiet --perl-regexp '[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]'; }
# wait_for FILE PATTERN
wait_for() {
    for _ in $(seq 200); do
        grep --quiet -- "$2" "$1" && return 0
        sleep 0.05
    done
    complain "'$2' never came: $(cat "$1")"
}

"$examples" extract "$source/docs/cli.md" toml >rouse.toml
"$examples" extract "$source/docs/cli.md" jsonl >helper.jsonl

# ---- no server ------------------------------------------------------------------------------

s=sess_01ZZZZZZZZZZZZZZZZZZZZZZZZ
while read -r words; do
    # shellcheck disable=SC2086
    expect 1 "no server answers at http://127.0.0.1:1; start one with 'rouse serve'" \
        env ROUSE_URL=http://127.0.0.1:1 rouse $words
done <<EOF
run hi
resume $s --result a=b
continue $s
cancel $s
explain $s
waits
sessions
sessions show $s
sessions log $s
sessions watch $s
sessions watch
sessions fork $s
sessions rm $s
pending
pending show pnd_1
pending complete pnd_1 x
pending fail pnd_1 x
pending cancel pnd_1
pending approve pnd_1
pending deny pnd_1
token
token create x
token revoke x
EOF

# ---- help and mistakes ----------------------------------------------------------------------

for words in run resume continue cancel explain waits sessions "sessions ls" "sessions show" \
    "sessions log" "sessions watch" "sessions fork" "sessions rm" pending "pending ls" "pending show" \
    "pending complete" "pending fail" "pending cancel" "pending approve" "pending deny" token \
    "token ls" "token create" "token revoke" verify export backup import serve demo; do
    # shellcheck disable=SC2086
    expect 0 "^Examples:" rouse $words --help
done
expect 2 "required" rouse sessions show
expect 2 "there are: ls, show" rouse sessions frobnicate
expect 2 "not the URL" rouse sessions --url ftp://example.com
expect 2 "not a session's id" rouse sessions show ../../token
expect 2 "CALL=TEXT" rouse resume $s --result "done"
expect 2 "nothing to say" rouse run ""
expect 2 "for new sessions" rouse run hi --session $s --agent a
expect 2 "not JSON" rouse pending approve pnd_1 --input '{'
expect 2 "not JSON" rouse pending approve pnd_1 --input ''
expect 2 "not a JSON object" rouse pending approve pnd_1 --input null
expect 2 "not a JSON object" rouse pending approve pnd_1 --input '[]'
expect 2 "must not be empty" rouse run "Deploy main" --session ''
expect 2 "must not be empty" rouse run "Deploy main" --agent ''

# ---- the document ---------------------------------------------------------------------------

start_server 0
"$examples" check "$source/docs/cli.md" || complain "docs/cli.md is not what the commands do"

# ---- what the examples do not show ----------------------------------------------------------

for words in sessions "sessions ls" waits pending token "sessions show $(newest)" "explain $(newest)"; do
    # shellcheck disable=SC2086
    rouse $words --json | is_json || complain "no JSON: $words"
done
rouse run hi --json | tail -1 | is_json || complain "no JSON: run"

expect 0 "I start the deploy" rouse run "Deploy main"
s=$(newest)
expect 0 "^$s" rouse sessions show "${s:5:18}"
expect 2 "too short" rouse sessions show "${s:0:10}"
p=$(pending_of "$s")
tail=${p##*_}
expect 0 "$p" rouse pending show "${tail:0:10}"
expect 0 "^accepted" rouse pending complete "${tail:0:10}" "done"
expect 0 "^known already" rouse pending complete "$p" "done"
expect 1 "another" rouse pending complete "$p" "something else"
expect 1 "no_suspended_turn|nothing is suspended" rouse resume "$s"
expect 0 "result +done" rouse pending show "$p"

expect 0 "waits" rouse run "Deploy main"
expect 2 "call_1_1=TEXT" rouse resume "$(newest)"
echo "from a pipe" | rouse pending complete "$(pending_of "$(newest)")" - >/dev/null
expect 0 "from a pipe" rouse sessions show "$(newest)"

reader=$(rouse token create reader 2>/dev/null)
expect 0 SESSION rouse sessions --token "$reader"
expect 1 "scope submit" rouse run hi --token "$reader"
echo "$reader" >reader
expect 0 "run.completed" rouse sessions log "$(newest)" --token-file reader
expect 1 "ROUSE_TOKEN" rouse sessions --token wrong

# ---- hostile text ---------------------------------------------------------------------------

evil=$(printf 'evil \033[2J\033]0;owned\007 \302\233 \342\200\256 title')
rouse run "Deploy $evil" --title "$evil" >evil.out 2>&1
s=$(newest)
rouse pending complete "$(pending_of "$s")" "$evil" >>evil.out 2>&1
for words in "sessions" "sessions show $s" "sessions log $s" "explain $s" "pending" "waits"; do
    # shellcheck disable=SC2086
    rouse $words >>evil.out 2>&1
done
is_quiet <evil.out || complain "control characters came through: $(cat --show-nonprinting evil.out)"
grep --quiet 'evil \\x1b\[2J' evil.out || complain "the title is not shown"
grep --quiet 'u{202e}' evil.out || complain "the direction of text is not shown"

# ---- terminals ------------------------------------------------------------------------------

on_terminal "rouse sessions" | grep --quiet $'\033' || complain "no colours on a terminal"
NO_COLOR=1 on_terminal "rouse sessions" | tr --delete '\r' | is_quiet ||
    complain "colours in spite of NO_COLOR"
rouse sessions | is_quiet || complain "colours in a pipe"
on_terminal "stty columns 40; rouse sessions" | sed 's/\x1b\[[0-9;]*m//g' | tr --delete '\r' |
    awk 'length($0) > 43 { exit 1 }' || complain "wider than the terminal"

# ---- Ctrl-C, restarts, interruptions --------------------------------------------------------

expect 1 "^left sess_.*goes on without you" \
    timeout --foreground --preserve-status --signal=INT 2 rouse run "think about it"
s=$(newest)
rouse sessions watch "$s" >watch.out 2>&1 &
watcher=$!
rouse run "think again" >run.out 2>&1 &
runner=$!
wait_for watch.out run.started
sleep 0.5
stop_server
start_server "$(port)"
wait "$runner" || complain "run ended with $?: $(cat run.out)"
grep --quiet "^Thinking takes time" run.out || complain "no answer over a restart: $(cat run.out)"
grep --quiet "connected again" run.out || complain "run did not come back: $(cat run.out)"
wait_for watch.out run.completed
[ "$(grep --count run.completed watch.out)" -eq 1 ] || complain "watch repeats: $(cat watch.out)"
rouse sessions rm "$s" >/dev/null
wait "$watcher" || complain "watch ended with $? when its session was removed"

stop_server
start_server "$(port)" ROUSE_RECOVERY_RESUME=off
rouse run "think hard" >run.out 2>&1 &
runner=$!
sleep 1
stop_server
start_server "$(port)" ROUSE_RECOVERY_RESUME=off
code=0
wait "$runner" || code=$?
[ "$code" -eq 1 ] || complain "run ended with $code when its run was interrupted: $(cat run.out)"
wait_for run.out "rouse continue sess_"
expect 0 "^Thinking takes time" rouse continue "$(newest)"

# ---- offline --------------------------------------------------------------------------------

stop_server
expect 0 "clean" rouse verify data
[ $failures -eq 0 ] || { echo "cli_test: $failures failures" >&2; exit 1; }
echo "cli_test: every command did as it should"
