#!/usr/bin/env python3
"""Runs the commands of the README and of pages in docs/ against a real server: ROUSE_BINARY, or the first argument.
Also: the pages that list what the program has (metrics, log lines, codes, records) list all of it, and nothing else;
and links between pages lead somewhere.

A `#→ text` behind a command means that the command prints that text. Blocks marked `sh skip` are not run."""

import contextlib
import os
import pathlib
import re
import signal
import socket
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
        for line in block.splitlines() if "#→" in block else [block]:
            if "#→" not in line:
                lines.append(line)
                continue
            command, promised = (part.strip() for part in line.split("#→"))
            quoted = command.replace("'", "'\\''")
            lines.append(f"out=$({command}) || true")
            lines.append(f"case $out in *'{promised}'*) ;; *) printf '%s\\n  printed: %s\\n"
                         f"  the page says: %s\\n' '{quoted}' \"$out\" '{promised}'; exit 1 ;; esac")
    return "\n".join(lines) + "\n"


def run(script, directory, environment):
    """What it starts and leaves behind ends with it."""
    shell = subprocess.Popen(["bash", "-c", script], env=environment, cwd=directory, start_new_session=True)
    try:
        return shell.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def check_readme(binary, directory):
    """The story: this server is killed by it, and the next one ends with the shell that started it."""
    place = pathlib.Path(directory)
    release = place / "build/release"
    release.mkdir(parents=True)
    (release / "rouse").symlink_to(pathlib.Path(binary).resolve())
    port = free_port()
    environment = {**os.environ, "ROUSE_SERVER_LISTEN": f"127.0.0.1:{port}"}
    server = subprocess.Popen([release / "rouse", "serve", "--data", "data"], cwd=place, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        server.stdout.readline()
        code = run(script_of(ROOT / "README.md").replace("7717", port), place, environment)
        if code == 0 and server.wait(timeout=10) != -signal.SIGKILL:
            print("README.md: the story did not kill the server that it began with")
            code = 1
        return code
    finally:
        server.kill()
        server.wait()


def check_http(binary, directory):
    data = pathlib.Path(directory) / "data"
    server = subprocess.Popen([binary, "serve", "--data", data, "--listen", "127.0.0.1:0"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = server.stdout.readline().split()[-1]
        environment = {**os.environ, "ROUSE": url, "TOKEN": (data / "token").read_text().strip()}
        return run(script_of(ROOT / "docs/http.md"), ROOT, environment)
    finally:
        server.terminate()
        server.wait()


def check_models(binary, directory):
    """The page starts its servers itself; here they get ports that are free."""
    place = pathlib.Path(directory)
    (place / "testing").symlink_to(ROOT / "testing")
    (place / "rouse").symlink_to(pathlib.Path(binary).resolve())
    script = script_of(ROOT / "docs/models.md")
    for port in ("8901", "8902"):
        script = script.replace(port, free_port())
    environment = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    return run(script, place, environment)


def check_mail(binary, directory):
    """Agents that answer whatever they are told."""
    place = pathlib.Path(directory)
    (place / "bin").mkdir()
    (place / "bin/rouse").symlink_to(pathlib.Path(binary).resolve())
    (place / "agent.jsonl").write_text('{"when":{},"say":"Yes.","repeat":true}\n')
    (place / "agent.toml").write_text('[[agents]]\nname = "agent"\nmodel = "scripted:agent.jsonl"\n')
    server = subprocess.Popen([binary, "serve", "--config", "agent.toml", "--data", "data", "--listen", "127.0.0.1:0"],
                              cwd=place, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = server.stdout.readline().split()[-1]
        token = (place / "data/token").read_text().strip()
        environment = {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "ROUSE": url, "TOKEN": token,
                       "ROUSE_URL": url, "ROUSE_TOKEN": token}
        return run(script_of(ROOT / "docs/mail.md"), place, environment)
    finally:
        server.terminate()
        server.wait()


def check_operations(binary, directory):
    """Plays what an operator does, from the first start to a new token; the last server ends with the shell."""
    place = pathlib.Path(directory)
    (place / "bin").mkdir()
    (place / "bin/rouse").symlink_to(pathlib.Path(binary).resolve())
    port = free_port()
    environment = {**os.environ, "PATH": f"{place / 'bin'}:{os.environ['PATH']}",
                   "ROUSE_SERVER_LISTEN": f"127.0.0.1:{port}", "ROUSE_URL": f"http://127.0.0.1:{port}"}
    return run(script_of(ROOT / "docs/operations.md").replace("7717", port), place, environment)


def sources(*rooms, ending=".cc"):
    """The text of the files of these rooms, tests left out."""
    files = [path for room in rooms for path in sorted((ROOT / "src" / room).rglob(f"*{ending}"))]
    return "\n".join(path.read_text() for path in files if not path.name.endswith("_test.cc"))


def compare(page, what, listed, wanted):
    """Prints what one of them has and the other has not."""
    for name in sorted(wanted - listed):
        print(f"{page} lacks the {what} `{name}`")
    for name in sorted(listed - wanted):
        print(f"{page} has the {what} `{name}`, and the program has not")
    return listed == wanted


def section_of(page, title):
    """What stands under a headline, as far as the next one."""
    return re.search(rf"^#+ {re.escape(title)}$(.*?)(?=^#|\Z)", (ROOT / page).read_text(), re.S | re.M)[1]


def first_cells(text):
    """What stands in backticks in the first column of the tables."""
    return {name for row in re.findall(r"^\| (`.*?) \|", text, re.M) for name in re.findall(r"`([^`]+)`", row)}


def check_lists():
    page = "docs/operations.md"
    metrics = {name.split("{")[0] for name in first_cells(section_of(page, "Metrics")) if name.startswith("rouse_")}
    built = set(re.findall(r'"(rouse_[a-z_]+)"', (ROOT / "src/server/metrics.cc").read_text()))
    alerts = {name for name in metrics if " " in name}
    events = set(re.findall(r'\blog_?\s*\.(?:debug|info|warn|error)\(\s*"([a-z_.]+)"', sources("")))
    events |= {"run.put_off", "run.stopped", "run.failed"}  # one line of code
    lists = [(page, "metric", metrics - alerts, built),
             (page, "log line", first_cells(section_of(page, "The log")), events)]
    page = "docs/reference.md"
    kinds = re.findall(r'(?:ROUSE_RECORD\(\w+, |kKind = )"([a-z.]+)"', sources("domain", ending=".h"))
    lists.append((page, "record", first_cells(section_of(page, "Records")), set(kinds)))
    rows = re.findall(r"^\| (`.*?) \| (\d+) \|", section_of(page, "Errors"), re.M)
    listed = {f"{code} {status}" for codes, status in rows for code in re.findall(r"`(\w+)`", codes)}
    lists.append((page, "code", listed, codes_of_errors()))
    routes = re.findall(r'\{"(\w+)", "([^"]+)", (\w+),', (ROOT / "src/server/routes.cc").read_text())
    scopes = {f"{method} {path}: {scope}" for method, path, scope in routes if scope not in ("read", "open")}
    rows = re.findall(r"^\| `(\w+ /\S+)` \| `(\w+)`(, or the pending id)? \|$", section_of(page, "Scopes"), re.M)
    listed = {f"{route}: {'or_pending_id' if alone else scope}" for route, scope, alone in rows}
    lists.append((page, "route", listed, scopes))
    failures = {reason for kind, reason in re.findall(r'ErrorKind::(\w+),\s*"(\w+)"', sources("models"))}
    failures -= {"invalid_script", "no_such_file"}  # of the configuration
    listed = first_cells(section_of(page, "Why a run failed"))
    lists.append((page, "reason", listed & failures, failures))
    words = set()
    for enum in ("SessionStatus", "BoardState", "ActivityType", "PendingStatus", "WaitsFor", "WaitKind",
                 "InterruptReason", "ReportStatus", "RunOutcome", "TaskState", "MailAction"):
        names = re.search(rf"kEnumNames<{enum}>\[\] = \{{(.*?)\}}", sources("domain", "runtime", ending=".h"), re.S)
        words |= set(re.findall(r'"(\w+)"', names[1]))
    listed = set(re.findall(r"`(\w+)`", section_of(page, "Statuses")))
    lists.append((page, "word", listed & words, words))
    page = "docs/log_format.md"
    lists.append((page, "record", first_cells(section_of(page, "Kinds")), set(kinds)))
    return all([compare(*one) for one in lists])


def check_links():
    """Every link to a page of ours leads to one, and to a headline of it."""
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    broken = 0
    for page in pages:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            other = page.parent / path if path else page
            found = other.exists()
            if found and anchor:
                titles = re.findall(r"^#+ (.*)$", other.read_text(), re.M)
                found = anchor in {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in titles}
            if not found:
                print(f"{page.relative_to(ROOT)}: {target} leads nowhere")
                broken += 1
    return broken == 0


def codes_of_errors():
    """Code and status of each problem that the API answers with, as src/server/http.cc makes them."""
    table = (ROOT / "src/server/http.cc").read_text()
    mapped = {reason: f"{code or reason} {status}" for reason, status, code in
              re.findall(r'\{"(\w+)", (\d+), "[^"]+"(?:, "(\w+)")?\}', table)}
    codes = set(mapped.values())
    literal = r'(?:Problem\w*\s*(?:\w+)?|return |\()\s*\{\s*(\d{3}), "(\w+)"'
    for status, code in re.findall(literal, sources("server")):
        codes.add(f"{code} {status}")
    only_agents_see = {"too_deep", "circular_wait", "open_calls"}
    for kind, reason in re.findall(r'ErrorKind::(\w+),\s*"(\w+)"', sources("server", "runtime", "domain")):
        if kind in ("conflict", "precondition") and reason not in mapped and reason not in only_agents_see:
            codes.add(f"{reason} 409")
    return codes


def main():
    named = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ROUSE_BINARY", ROOT / "build/release/rouse")
    binary = pathlib.Path(named).resolve()
    pages = (("README.md", check_readme), ("docs/http.md", check_http), ("docs/models.md", check_models),
             ("docs/mail.md", check_mail), ("docs/operations.md", check_operations))
    for page, check in pages:
        with tempfile.TemporaryDirectory() as directory:
            code = check(binary, directory)
        if code != 0:
            return code
        promises = script_of(ROOT / page).count("case $out")
        print(f"{page}: {promises} promises kept")
    if not all([check_lists(), check_links()]):
        return 1
    print("lists and links: complete")
    return 0


if __name__ == "__main__":
    sys.exit(main())
