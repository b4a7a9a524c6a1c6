#!/usr/bin/env python3
"""Runs the commands of docs/http.md against a real server: ROUSE_BINARY, or the first argument.

A `#→ text` behind a command means that the command prints that text. Blocks marked `sh skip` are not run."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def commands(document):
    for block in re.findall(r"^```sh\n(.*?)^```$", document.read_text(), re.S | re.M):
        yield block


def script_of(document):
    """One shell script that stops at the first command whose output lacks what the page promises."""
    lines = ["set -u -o pipefail"]
    for block in commands(document):
        helper = "() {" in block
        for line in [block] if helper else block.splitlines():
            if "#→" not in line:
                lines.append(line)
                continue
            command, promised = (part.strip() for part in line.split("#→"))
            quoted = command.replace("'", "'\\''")
            lines.append(f"out=$({command}) || true")
            lines.append(f"case $out in *'{promised}'*) ;; *) printf '%s\\n  printed: %s\\n"
                         f"  the page says: %s\\n' '{quoted}' \"$out\" '{promised}'; exit 1 ;; esac")
    return "\n".join(lines) + "\n"


def main():
    binary = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ROUSE_BINARY", ROOT / "build/release/rouse")
    with tempfile.TemporaryDirectory() as directory:
        data = pathlib.Path(directory) / "data"
        server = subprocess.Popen([binary, "serve", "--data", data, "--listen", "127.0.0.1:0"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = server.stdout.readline().split()[-1]
            environment = {**os.environ, "ROUSE": url, "TOKEN": (data / "token").read_text().strip()}
            script = script_of(ROOT / "docs/http.md")
            code = subprocess.run(["bash", "-c", script], env=environment).returncode
        finally:
            server.terminate()
            server.wait()
    if code == 0:
        print(f"docs/http.md: {script.count('case $out')} promises kept")
    return code


if __name__ == "__main__":
    sys.exit(main())
