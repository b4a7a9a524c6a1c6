"""SIGKILL at random moments under load: while it starts, while it recovers, while it works.

What a dead process wrote is still in the page cache, so this says little about durability (that is
what `power` is for). It tests that nothing is done twice, nothing is forgotten, and that recovery
finds its way from wherever it is dropped.
"""
import contextlib
import pathlib
import time

from audit import Audit
from book import Book, Entry, check_book
from findings import Findings
from kit import Client, Crashed, Server, take_binary, verify
from lab import Lab, Trouble
from load import Shared, Worker
from records import read_logs
from rest import Rest, list_sessions
from world import ONCE, World

_CLIENTS = 6
_GIVE_UP = 20


class Crew:
    """The clients of a run, and their book."""

    def __init__(self, lab: Lab, server: Server, book: Book, name: str = ""):
        shared = Shared()
        self.workers = [Worker(f"{name}c{number}", server.site, book, shared,
                               f"{lab.seed}/{name}{number}") for number in range(_CLIENTS)]
        for worker in self.workers:
            worker.start()

    def must_work(self) -> None:
        for worker in self.workers:
            if worker.trouble:
                raise Trouble(worker.trouble)

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        for worker in self.workers:
            worker.join(timeout=60)
        self.must_work()


def kill(lab: Lab, kills: int) -> Findings:
    findings = Findings("kill", lab.seed)
    home = lab.scratch / "kill"
    home.mkdir()
    binary = take_binary(home)
    world = World(home / "world")
    book = Book(home / "book.jsonl")
    server = Server(binary, home / "data", world.config, home / "server.log")
    with keeping(lab, findings, home, book), contextlib.ExitStack() as stack:
        stack.callback(server.end)
        crew = Crew(lab, server, book)
        for number in range(kills):
            live_on(findings, lambda: _one_life(lab, server))
            server.kill()
            crew.must_work()
            findings.count("kills")
            findings.progress(f"{number + 1} of {kills}, {book.acks()} acks")
        while not live_on(findings, server.start):
            server.kill()
        crew.stop()
        finish(findings, server, binary, world, book)
    return findings


def _one_life(lab: Lab, server: Server) -> None:
    server.spawn()
    chosen = lab.rng.random()
    if chosen < 0.2:  # while it opens the store and recovers
        time.sleep(lab.rng.uniform(0, 0.04))
    else:
        server.await_up()
        time.sleep(lab.rng.uniform(0, 0.03) if chosen < 0.4 else lab.rng.uniform(0.03, 0.6))
        server.must_run()
        if chosen > 0.93:  # told to stop, it leaves runs behind in another way
            server.stop()
            server.start()
            time.sleep(lab.rng.uniform(0, 0.1))


def live_on(findings: Findings, live) -> bool:
    """A server that falls by itself is a violation, and a chance to see how the next one copes."""
    try:
        live()
    except Crashed as crashed:
        findings.add([str(crashed)])
        if len(findings.found) > _GIVE_UP:
            raise
        return False
    return True


def finish(findings: Findings, server: Server, binary: pathlib.Path, world: World,
           book: Book) -> None:
    """Lets everything come to rest, stops the server, and holds the logs against the book."""
    findings.add(Rest(server.site, book).bring())
    server.stop()
    book.close()
    report = verify(binary, server.data)
    if not report.get("clean"):
        findings.add([f"verify: {report}"])
    audit = Audit(read_logs(server.data))
    findings.add(judge(audit, book.entries, world.runs()))
    findings.add(_start_once_more(server, audit))
    findings.count("acks", book.acks())
    findings.count("sessions", len(audit.sessions))
    findings.count("resumes", audit.resumes())


def _start_once_more(server: Server, audit: Audit) -> list[str]:
    """A start with nothing to recover changes no log, and shows what the logs say."""
    server.start()
    shown = list_sessions(Client(server.site))
    server.stop()
    found = []
    for session, records in read_logs(server.data).sessions.items():
        before = audit.logs.sessions[session]
        if [record.line for record in records] != [record.line for record in before]:
            found.append(f"{session}: one more start changed the log, which had {len(before)}")
        view = shown.pop(session, {})
        ends = [run.end for run in audit.sessions[session].runs.values()]
        interrupted = bool(ends) and ends[-1] is not None and ends[-1].kind == "run.interrupted"
        expected = "interrupted_startup" if interrupted else "idle"
        if view.get("last_seq") != len(before) or view.get("status") != expected:
            found.append(f"{session}: shown as {view}, but its log has {len(before)} records and "
                         f"is {expected}")
    return found + [f"{session}: shown, but there is no log of it" for session in shown]


def judge(audit: Audit, entries: list[Entry], runs: list[tuple[str, str, str]]) -> list[str]:
    """Everything that can be held against logs at rest, the clients' book and the counters."""
    return [*audit.complaints, *audit.at_rest(), *audit.check_counters(runs, ONCE),
            *audit.check_children(), *check_book(entries, audit)]


@contextlib.contextmanager
def keeping(lab: Lab, findings: Findings, home: pathlib.Path, book: Book):
    """Keeps the evidence when something was found, or when the campaign broke off."""
    try:
        yield
    except Trouble as trouble:
        findings.add([f"broken off: {trouble}"])
    book.close()
    if findings.found:
        lab.keep(findings.name, "\n".join(findings.found), home)
