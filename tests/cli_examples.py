#!/usr/bin/env python3
"""Runs the examples of a document and compares what they print with what it shows.

  cli_examples.py extract DOCUMENT LANGUAGE     prints the first code block in that language
  cli_examples.py check DOCUMENT                runs the examples in its console blocks
  cli_examples.py update DOCUMENT               writes into it what they print now

An example is a line that begins with "$ ", in a block marked `console`; the lines up to the next one
are its output, both streams together. In a block marked `console terminal` it runs on a terminal,
and the comment before it, `<!-- types: y, because -->`, says what is typed. $SESSION, $CALL and
$PENDING are those of the newest session. Ids, times, ages, ports and processes may differ."""

import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
import fcntl

VARIES = [
    (r"rk_[0-9A-Z]+\.[0-9A-Z]+", "SECRET"),
    (r"\b(sess|pnd|run|msg|rt|wait|boot|rk)_[0-9A-Z_]{8,}", r"\1_ID"),
    (r"\b[0-9A-Z]{10}\b", "SHORT"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+Z)?", "TIME"),
    (r"http://127\.0\.0\.1:\d+", "URL"),
    (r"\b\d+(s|m|h|d|ms)\b", "AGE"),
    (r"\bprocess \d+\b", "PROCESS"),
    (r'"(chain|hash|digest|input_digest)":"[0-9a-f]+"', r'"\1":"HASH"'),
    (r"[ \t]+", " "),
]


def same_for_all(text):
    for pattern, name in VARIES:
        text = re.sub(pattern, name, text)
    return [line.strip() for line in text.strip().splitlines()]


def blocks_of(lines):
    """(info string, first line, end, what is typed) of each code block."""
    typed, start, info = [], None, ""
    for number, line in enumerate(lines):
        comment = re.fullmatch(r"<!-- types: (.*) -->", line)
        if comment:
            typed = [word.strip() for word in comment.group(1).split(",")]
        elif line.startswith("```") and start is None:
            start, info = number + 1, line[3:].strip()
        elif line.startswith("```"):
            yield info, start, number, typed
            start, typed = None, []


def ask(*words):
    return json.loads(subprocess.run(["rouse", *words, "--json"], capture_output=True, text=True,
                                     check=True).stdout)


def newest_session():
    """The variables that examples use, once nothing runs any more."""
    while ask("sessions", "ls", "--status", "running")["items"]:
        time.sleep(0.05)
    listed = ask("sessions", "ls", "--limit", "1")["items"]
    if not listed:
        return {}
    pending = ask("sessions", "show", listed[0]["id"])["pending"]
    found = {"SESSION": listed[0]["id"]}
    if pending:
        found |= {"PENDING": pending[0]["pending_id"], "CALL": pending[0]["call_id"]}
    return found


def run(command, environment):
    done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment,
                          timeout=60, check=False)
    return done.returncode, done.stdout.decode()


def run_on_terminal(command, environment, typed):
    """Types each line once the output has come to rest behind a prompt."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe("bash", ["bash", "-c", command], environment | {"NO_COLOR": "1"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 300, 0, 0))
    output, typed, deadline = b"", list(typed), time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.3)
        if ready:
            try:
                output += os.read(terminal, 65536)
            except OSError:
                break
        elif typed and output.endswith(b" "):
            os.write(terminal, typed.pop(0).encode() + b"\n")
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), output.decode().replace("\r\n", "\n")


def examples(lines, first, end):
    """(command, first line of its output, end of its output) within a block."""
    number = first
    while number < end:
        command = lines[number][2:]
        number += 1
        while command.endswith("\\"):
            command += "\n" + lines[number]
            number += 1
        begin = number
        while number < end and not lines[number].startswith("$ "):
            number += 1
        yield command, begin, number


def go_through(path, update):
    lines = open(path, encoding="utf-8").read().split("\n")
    written, failures, count, copied = [], 0, 0, 0
    for info, first, end, typed in blocks_of(lines):
        if not info.startswith("console"):
            continue
        for command, begin, stop in examples(lines, first, end):
            count += 1
            environment = dict(os.environ) | newest_session()
            if info == "console terminal":
                code, output = run_on_terminal(command, environment, typed)
            else:
                code, output = run(command, environment)
            written += lines[copied:begin] + output.rstrip("\n").split("\n")[:len(output)]
            copied = stop
            wanted = "\n".join(lines[begin:stop])
            if code == 0 and (update or same_for_all(output) == same_for_all(wanted)):
                continue
            failures += 1
            print(f"{path}:{begin}: $ {command}\nexit code {code}; expected\n{wanted}\nbut got\n"
                  f"{output}", file=sys.stderr)
    written += lines[copied:]
    if update:
        open(path, "w", encoding="utf-8").write("\n".join(written))
    print(f"{count} examples of {os.path.basename(path)}, {failures} not as shown")
    return 1 if failures or count == 0 else 0


def extract(path, language):
    lines = open(path, encoding="utf-8").read().split("\n")
    for info, first, end, _ in blocks_of(lines):
        if info == language:
            print("\n".join(lines[first:end]))
            return 0
    return 1


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "extract":
        sys.exit(extract(sys.argv[2], sys.argv[3]))
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "update"):
        sys.exit(__doc__)
    sys.exit(go_through(sys.argv[2], sys.argv[1] == "update"))
