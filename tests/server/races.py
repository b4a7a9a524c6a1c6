"""Two to eight clients settle one waiting call at the same moment, each in another way.

One of them wins, or the call's own time does. The log says who; each client's answer must be true,
and the session must come to its end. In some rounds the server is killed in the middle, and who has
no answer asks again.
"""
import collections
import contextlib
import dataclasses
import datetime
import pathlib
import random
import threading
import time

from audit import Audit, SessionAudit
from book import Book, Entry
from findings import Findings
from killing import judge, keeping
from kit import Broken, Client, Server, Silent, take_binary, verify
from lab import Lab, Trouble
from records import Record, read_logs, text_of
from world import World

_RACERS = 8
_BRIEF_MS = 60  # the timeout of the tool that runs out in the middle of a race
_END_SECONDS = 20
_DYING = 0.03   # share of rounds in which the server is killed
_WAYS = ("same", "same", "same", "other", "error", "drop", "cancel", "acknowledge", "message",
         "token", "token", "token_other")


@dataclasses.dataclass
class Round:
    """One waiting call, and what was tried on it."""
    number: int
    session: str
    run: str
    pending: str
    call: str
    token: str
    ways: list[str]
    fire_at: float | None  # the moment at which the call's time is over, if that is near
    dies: bool             # the server is killed in the middle of it
    entries: list[Entry] = dataclasses.field(default_factory=list)


class Racer(threading.Thread):
    """A client that waits for the starting signal of each round."""

    def __init__(self, number: int, server: Server, book: Book, barrier: threading.Barrier):
        super().__init__(name=f"racer{number}", daemon=True)
        self.trouble: str | None = None
        self.round: Round | None = None
        self._number = number
        self._client = Client(server.site)
        self._book = book
        self._barrier = barrier

    def run(self) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            while True:
                self._barrier.wait()  # the round is there
                try:
                    if self._number < len(self.round.ways):
                        self._race(self.round, self.round.ways[self._number])
                except (Broken, Silent) as error:
                    self.trouble = f"round {self.round.number}: {type(error).__name__}: {error}"
                except Exception as error:
                    self.trouble = f"round {self.round.number}: {error!r}"
                    raise
                finally:
                    self._barrier.wait()  # everybody has an answer

    def _race(self, race: Round, way: str) -> None:
        own = f"{way} {race.number}.{self._number}"
        result = f"same {race.number}" if way in ("same", "token") else own
        path, pending = f"/v1/sessions/{race.session}", {"pending": race.pending}
        method, body, sent = "POST", {}, {}
        match way:
            case "same" | "other":
                op, path = "result", "/async-tool/result"
                body = {"pendingID": race.pending, "result": {"content": result}}
                sent = {**pending, "text": result}
            case "error":
                op, path = "error", "/async-tool/error"
                body, sent = {"pendingID": race.pending, "error": own}, {**pending, "text": own}
            case "drop":
                op, method, path = "drop", "DELETE", f"/async-tool/pending/{race.pending}"
                body, sent = None, pending
            case "cancel" | "acknowledge":
                op, path = "cancel", f"{path}/cancel"
                body = sent = {"mode": "discard" if way == "cancel" else way}
            case "message":
                op, path = "message", f"{path}/messages"
                body = sent = {"content": f"go {own}"}
            case _:
                op, path = "resume", f"{path}/resume"
                body = {"token": race.token, "results": {race.call: {"content": result}}}
                sent = {"results": {race.call: result}, "run": race.run}
        if race.fire_at:
            time.sleep(max(0.0, race.fire_at - time.time()))
        heard = False
        while not heard:
            entry = Entry(f"{race.number}.{self._number}", op, race.session, sent)
            try:
                answer = self._client.ask(method, path, body)
                entry.status, entry.body = answer.status, answer.body
                heard = True
            except Broken:
                if not race.dies:
                    raise
                heard = op == "message"  # said again it would be another one
            self._book.add(entry)
            race.entries.append(entry)


def races(lab: Lab, rounds: int) -> Findings:
    findings = Findings("races", lab.seed)
    home = lab.scratch / "races"
    home.mkdir()
    book = Book(home / "book.jsonl")
    with keeping(lab, findings, home, book):
        done, audit = _race(lab, findings, home, book, rounds)
        findings.add(judge(audit, book.entries, []))
        findings.count("rounds", len(done))
        findings.count("answers", sum(len(race.entries) for race in done))
        for race in done:
            findings.add(check_round(race, audit.sessions[race.session]))
        won = collections.Counter(_how_it_was_won(race, audit) for race in done)
        for way, number in sorted(won.items()):
            findings.count(f"won by {way}", number)
    return findings


def race_rounds(lab: Lab, home: pathlib.Path, rounds: int) -> tuple[list[Round], Audit]:
    """Some races as material for other checks."""
    home.mkdir()
    return _race(lab, Findings("races", lab.seed), home, Book(home / "book.jsonl"), rounds)


def _race(lab: Lab, findings: Findings, home: pathlib.Path, book: Book,
          rounds: int) -> tuple[list[Round], Audit]:
    binary = take_binary(home)
    world = World(home / "world", brief_ms=_BRIEF_MS)
    server = Server(binary, home / "data", world.config, home / "server.log")
    with contextlib.ExitStack() as stack:
        stack.callback(server.end)
        server.start()
        stack.enter_context(server.unbroken())
        barrier = threading.Barrier(_RACERS + 1)
        stack.callback(barrier.abort)
        racers = [Racer(number, server, book, barrier) for number in range(_RACERS)]
        for racer in racers:
            racer.start()
        starter = _Starter(server, book, lab.rng)
        done = []
        for number in range(rounds):
            race = starter.prepare(number)
            for racer in racers:
                racer.round = race
            barrier.wait()
            if race.dies:
                time.sleep(lab.rng.uniform(0, 0.008))
                server.must_run()
                server.kill()
                server.start()
                findings.count("kills")
            barrier.wait()
            server.must_run()
            for racer in racers:
                if racer.trouble:
                    time.sleep(0.3)
                    server.must_run()
                    raise Trouble(racer.trouble)
            findings.add(starter.finish(race))
            done.append(race)
            findings.progress(f"{number + 1} of {rounds}")
        server.stop()
    report = verify(binary, server.data)
    if not report.get("clean"):
        findings.add([f"verify: {report}"])
    return done, Audit(read_logs(server.data))


class _Starter:
    """Makes the sessions, and leads them to their ends."""

    def __init__(self, server: Server, book: Book, rng: random.Random):
        self._client = Client(server.site)
        self._book = book
        self._rng = rng

    def _ask(self, op: str, session: str, path: str, body: dict, sent: dict) -> dict:
        answer = self._client.ask("POST", path, body)
        self._book.add(Entry("starter", op, session, sent, None, answer.status, answer.body))
        return answer.body

    def prepare(self, number: int) -> Round:
        agent = self._rng.choice(("one", "one", "brief", "brief", "two", "chain"))
        sent = {"title": f"race {number}", "message": f"go {number}"}
        body = self._ask("create", "", "/v1/sessions?wait=10s", {"agent": agent, **sent}, sent)
        outcome = body["outcome"]
        if outcome["status"] != "suspended":
            raise Trouble(f"round {number} does not wait: {outcome}")
        waits = outcome["suspension"]
        call = waits["pending_tool_calls"][0]
        race = Round(number, body["id"], outcome["run_id"], call["pending_id"], call["id"],
                     waits["resume_token"], [], None, self._rng.random() < _DYING)
        if agent == "two":  # the last of two open calls is raced for
            other = waits["pending_tool_calls"][1]["pending_id"]
            self._ask("result", race.session, "/async-tool/result",
                      {"pendingID": other, "result": {"content": f"first {number}"}},
                      {"pending": other, "text": f"first {number}"})
        race.ways = [self._rng.choice(_WAYS) for _ in range(self._rng.randint(2, _RACERS))]
        if agent == "brief":
            session = self._client.ask("GET", f"/v1/sessions/{race.session}").body
            expires = session["pending"][0]["expires_at"] if session["pending"] else None
            if expires:
                race.fire_at = datetime.datetime.fromisoformat(expires).timestamp() + \
                    self._rng.uniform(-0.006, 0.004)
        return race

    def finish(self, race: Round) -> list[str]:
        """Answers what waits now: the call of a superseding message, the next one of a chain."""
        deadline = time.monotonic() + _END_SECONDS
        while True:
            body = self._client.ask("GET", f"/v1/sessions/{race.session}").body
            if body["status"] == "idle":
                return []
            if time.monotonic() > deadline:
                return [f"{race.session}: does not come to its end: round {race.number}, "
                        f"{body['status']}, seq {body['last_seq']}, {race.ways}"]
            for call in body["pending"]:
                text = f"end {race.number} {call['call_id']}"
                self._ask("result", race.session, "/async-tool/result",
                          {"pendingID": call["pending_id"], "result": {"content": text}},
                          {"pending": call["pending_id"], "text": text})
            if body["status"] == "running":
                time.sleep(0.002)


# ---- who won -----------------------------------------------------------------------------------


def _how_it_was_won(race: Round, audit: Audit) -> str:
    winner = audit.sessions[race.session].pending[race.pending].settled
    if not winner:
        return "nobody"
    return winner["reason"] if winner.kind == "pending.cancelled" else \
        winner.kind.removeprefix("pending.")


def check_round(race: Round, audit: SessionAudit) -> list[str]:
    winner = audit.pending[race.pending].settled
    if not winner:
        return [f"{race.session}: round {race.number} has no winner"]
    claims = [entry for entry in race.entries if _claims(entry, race, audit, winner)]
    heard = [str(entry) for entry in race.entries]
    expected = [0] if winner.kind == "pending.expired" else [1]
    if any(entry.status is None for entry in race.entries):
        expected = [0, *expected]  # the winner may not have heard of it
    found = []
    if len(claims) not in expected:
        found.append(f"{race.session}: round {race.number} was won by {winner}, and {len(claims)} "
                     f"clients were told so: {heard}")
    for entry in race.entries:
        complaint = _untrue(entry, race, winner)
        if complaint:
            found.append(f"{race.session}: round {race.number}: {complaint}: {entry}; the log has "
                         f"{winner}")
    return found


def _claims(entry: Entry, race: Round, audit: SessionAudit, winner: Record) -> bool:
    """True when the client was told that it was the one."""
    if not entry.acked or entry.body.get("duplicate"):
        return False
    if entry.op == "message":
        return race.pending in entry.body.get("superseded", [])
    if entry.op == "cancel":
        # Of the commit that closed the call: pending.cancelled, the token, the run.
        return winner.kind == "pending.cancelled" and \
            0 < entry.body["seq"] - winner.seq <= 2 and \
            all(audit.records[seq - 1].kind.startswith(("token.", "run."))
                for seq in range(winner.seq + 1, entry.body["seq"] + 1))
    return True


def _untrue(entry: Entry, race: Round, winner: Record) -> str | None:
    """A reason when the answer does not fit to the one who won."""
    if entry.status is None:
        return None
    if entry.op == "cancel":
        # One that acknowledges wants a session that waits.
        busy = entry.code == "session_busy" and entry.sent["mode"] == "acknowledge"
        return None if entry.acked or entry.code == "not_running" or busy else "refused"
    if entry.op == "message":
        return None if entry.acked else "refused"
    if entry.op == "drop":
        if entry.acked:
            return None if winner.kind == "pending.cancelled" else "not cancelled"
        fits = entry.code == "not_waiting" and winner.kind != "pending.cancelled"
        return None if fits else "refused"
    mine = entry.sent["results"][race.call] if entry.op == "resume" else entry.sent["text"]
    equal = _is_mine(entry, winner, mine)
    if entry.acked != equal:
        return "told yes, and it is not so" if entry.acked else "told no, and it is so"
    if entry.acked:
        return None
    answered = winner.kind in ("pending.completed", "pending.failed")
    if entry.op == "resume":
        known = ("conflicting_result", "no_suspended_turn", "token_consumed", "token_revoked",
                 "unknown_pending_tool_call", "not_waiting")
        return None if entry.code in known else "an answer that nobody expects"
    fits = entry.code == ("conflicting_result" if answered else "not_waiting")
    return None if fits else "the wrong refusal"


def _is_mine(entry: Entry, winner: Record, text: str) -> bool:
    if entry.op == "error":
        return winner.kind == "pending.failed" and winner["error"] == text
    return winner.kind == "pending.completed" and text_of(winner["result"]["content"]) == text
