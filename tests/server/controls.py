"""Negative controls: logs, books and streams that were tampered with must be noticed.

Each forgery breaks one promise. Logs are numbered and chained anew afterwards, so that only their
meaning gives them away. The untouched material must pass.
"""
import contextlib
import copy
import dataclasses
import json
import pathlib
import shutil
import time
from collections.abc import Callable

from audit import Audit
from book import Book, Entry
from kit import Server, take_binary, verify
from killing import Crew, judge
from lab import Lab, Trouble
from races import check_round, race_rounds
from records import Logs, Record, read_logs, relink, text_of
from rest import Rest
from streams import GlobalReader, SessionReader
from world import ONCE, World

_SECONDS = 1.2  # of load before and after the kill


@dataclasses.dataclass
class ControlTally:
    seed: int
    caught: int = 0
    missed: int = 0

    def note(self, name: str, complaints: list[str], expected: str) -> None:
        hits = [complaint for complaint in complaints if expected in complaint]
        self.caught += bool(hits)
        self.missed += not hits
        if not hits:
            print(f"  {name}: NOT caught; complaints: {complaints[:3]}", flush=True)

    def line(self) -> str:
        return f"controls: {self.caught} caught, {self.missed} missed (seed {self.seed})"

    def fine(self) -> bool:
        return self.missed == 0 and self.caught > 0


def controls(lab: Lab, times: int) -> ControlTally:
    tally = ControlTally(lab.seed)
    for number in range(times):
        home = lab.scratch / f"controls{number}"
        home.mkdir()
        _tamper_with_logs(lab, tally, home)
        _tamper_with_races(lab, tally, home)
    return tally


# ---- material ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Material:
    """A run that went well: logs, book, counters. Each forgery gets a copy."""
    logs: Logs
    entries: list[Entry]
    runs: list[tuple[str, str, str]]

    def copy(self) -> "Material":
        sessions = {session: copy.deepcopy(records)
                    for session, records in self.logs.sessions.items()}
        return Material(Logs(sessions, self.logs.system), copy.deepcopy(self.entries),
                        list(self.runs))

    def judge(self) -> list[str]:
        return judge(Audit(self.logs), self.entries, self.runs)

    def change(self, session: str, change: Callable[[list[Record]], list[Record]]) -> None:
        """Replaces the records of a log, numbered and chained anew."""
        self.logs.sessions[session] = relink(session, change(self.logs.sessions[session]))

    def find(self, wanted: Callable[[Record], bool]) -> tuple[str, int]:
        """A session and the place of a record in it."""
        for session, records in self.logs.sessions.items():
            for place, record in enumerate(records):
                if wanted(record):
                    return session, place
        raise Trouble("the material has no such record")

    def acked(self, op: str, wanted: Callable[[Entry], bool] = lambda entry: True) -> Entry:
        for entry in self.entries:
            if entry.op == op and entry.acked and wanted(entry) and \
                    (entry.session or entry.body.get("id")) in self.logs.sessions:
                return entry
        raise Trouble(f"the material has no acknowledged {op}")

    def remove(self, wanted: Callable[[Record], bool]) -> None:
        session, place = self.find(wanted)
        self.change(session, lambda records: records[:place] + records[place + 1:])

    def repeat(self, wanted: Callable[[Record], bool], **other) -> None:
        """Puts a copy, with other values, behind the record."""
        session, place = self.find(wanted)
        again = Record({**self.logs.sessions[session][place], **other})
        self.change(session, lambda r: r[:place + 1] + [again] + r[place + 1:])


def _tamper_with_logs(lab: Lab, tally: ControlTally, home: pathlib.Path) -> None:
    binary = take_binary(home)
    world = World(home / "world")
    book = Book(home / "book.jsonl")
    server = Server(binary, home / "data", world.config, home / "server.log")
    early = home / "early"
    with contextlib.ExitStack() as stack:
        stack.callback(server.end)
        server.start()
        crew = Crew(lab, server, book)
        time.sleep(_SECONDS / 2)
        server.kill()
        shutil.copytree(server.data, early)
        for _ in range(2):
            server.start()
            time.sleep(_SECONDS)
            server.kill()
        server.start()
        crew.stop()
        found = Rest(server.site, book).bring()
        server.stop()
    material = Material(read_logs(server.data), book.entries, world.runs())
    found += material.judge()
    if found:
        print(f"  controls say nothing: the checkers complain of a sound run: {found[:3]}")
        tally.missed += 1
        return
    for name, (forge, expected) in _FORGERIES.items():
        forged = material.copy()
        forge(forged)
        tally.note(name, forged.judge(), expected)
    tally.note("an old disk", _judge_old_disk(binary, world, early, home, material), "no log of")
    tally.note("a flipped byte", _judge_flipped_byte(server.data), "chain")
    tally.note("a flipped byte, verify", _verify_flipped_byte(binary, server.data), "damage")
    for name, complaints in _tamper_with_streams(material).items():
        tally.note(name, complaints, "")


# ---- forged logs and books ---------------------------------------------------------------------


def _lose_message(m: Material) -> None:
    entry = m.acked("message")
    m.remove(lambda r: r.get("message_id") == entry.body["message_id"])


def _lose_session(m: Material) -> None:
    del m.logs.sessions[m.acked("create").body["id"]]


def _lose_result(m: Material) -> None:
    entry = m.acked("result")
    m.remove(lambda r: r.kind == "pending.completed" and
             r["pending_id"] == entry.sent["pending"])


def _change_result(m: Material) -> None:
    entry = m.acked("result")
    session, place = m.find(lambda r: r.kind == "pending.completed" and
                            r["pending_id"] == entry.sent["pending"])
    m.logs.sessions[session][place]["result"]["content"] = "another"
    m.change(session, lambda records: records)


def _lose_cancel(m: Material) -> None:
    entry = m.acked("cancel", lambda entry: entry.sent["mode"] == "discard")
    m.remove(lambda r: r.kind == "run.cancelled" and r["run_id"] == entry.body["run_id"])


def _lose_token(m: Material) -> None:
    entry = m.acked("rotate")
    m.remove(lambda r: r.kind == "token.minted" and r["token_id"] == entry.body["token_id"])


def _is_resumed(r: Record) -> bool:
    return r.kind == "run.resumed"


def _resume_twice(m: Material) -> None:
    m.repeat(_is_resumed)


def _consume_twice(m: Material) -> None:
    m.repeat(lambda r: r.kind == "token.consumed")


def _settle_twice(m: Material) -> None:
    m.repeat(lambda r: r.kind == "pending.completed", result={"content": "another"})


def _give_two_results(m: Material) -> None:
    m.repeat(lambda r: r.kind == "tool.completed")


def _say_twice(m: Material) -> None:
    entry = m.acked("message")
    m.repeat(lambda r: r.get("message_id") == entry.body["message_id"], message_id="msg_other")


def _forget_result(m: Material) -> None:
    """The result was accepted, and the model answers as if it were another one."""
    session, place = m.find(lambda r: r.kind == "message.assistant" and
                            text_of(r["content"]).startswith("one: "))
    m.logs.sessions[session][place]["content"] = [{"type": "text", "text": "one: nothing"}]
    m.change(session, lambda records: records)


def _is_interrupted(r: Record) -> bool:
    return r.kind == "run.interrupted" and r["reason"] == "process_restart"


def _hide_death(m: Material) -> None:
    m.remove(_is_interrupted)


def _die_twice(m: Material) -> None:
    m.repeat(_is_interrupted)


def _die_for_nothing(m: Material) -> None:
    session, place = m.find(lambda r: r.kind == "run.completed")
    m.logs.sessions[session][place].update(kind="run.interrupted", reason="process_restart")
    m.change(session, lambda records: records)


def _leave_open(m: Material) -> None:
    session, place = m.find(lambda r: r.kind == "run.completed")
    m.change(session, lambda records: records[:place])


def _count_twice(m: Material) -> None:
    m.runs.append(next(run for run in m.runs if run[0] in ONCE and run[1] in m.logs.sessions))


def _count_unannounced(m: Material) -> None:
    tool, session, call = next(run for run in m.runs if run[0] == "count_once" and
                               run[1] in m.logs.sessions)
    m.change(session, lambda records: [r for r in records if not (
        r.kind == "tool.started" and r["call_id"] == call)])


def _not_counted(m: Material) -> None:
    session, place = m.find(lambda r: r.kind == "tool.completed" and
                            text_of(r["result"]["content"]).startswith("counted"))
    call = m.logs.sessions[session][place]["call_id"]
    m.runs = [run for run in m.runs if run[1:] != (session, call)]


def _win_twice(m: Material) -> None:
    entry = m.acked("result", lambda entry: not entry.body.get("duplicate") and not entry.replayed)
    m.entries.append(copy.deepcopy(entry))


def _refuse_the_winner(m: Material) -> None:
    entry = m.acked("result")
    entry.status, entry.body = 409, {"code": "conflicting_result"}


def _refuse_as_over(m: Material) -> None:
    entry = m.acked("error")
    entry.status, entry.body = 410, {"code": "not_waiting"}


def _answer_twice(m: Material) -> None:
    entry = m.acked("create", lambda entry: entry.key is not None)
    other = m.acked("create", lambda e: e.body["id"] != entry.body["id"])
    m.entries.append(dataclasses.replace(other, key=entry.key, replayed=True))


def _have_trouble(m: Material) -> None:
    entry = m.acked("message")
    entry.status, entry.body = 500, {"code": "internal"}


def _invent_message(m: Material) -> None:
    m.repeat(lambda r: r.kind == "message.user", message_id="msg_other",
             content=[{"type": "text", "text": "go away"}])


# forgery → (how, what the complaint must speak of)
_FORGERIES = {
    "a lost message": (_lose_message, "the message is not in the log"),
    "a lost session": (_lose_session, "there is no log of"),
    "a lost result": (_lose_result, "the result is not the one in the log"),
    "a changed result": (_change_result, "the result is not the one in the log"),
    "a lost cancel": (_lose_cancel, " cancel sess_"),
    "a lost token": (_lose_token, "the token is not in the log"),
    "a second resume": (_resume_twice, "is resumed a second time"),
    "a second consumption": (_consume_twice, "is consumed a second time"),
    "a second settlement": (_settle_twice, "was settled before"),
    "a second result": (_give_two_results, "a second result"),
    "a message twice": (_say_twice, "is there 2 times"),
    "a forgotten result": (_forget_result, "did not get the result"),
    "a death unnoticed": (_hide_death, "no record says so"),
    "a death twice": (_die_twice, "the run ended before"),
    "a death for nothing": (_die_for_nothing, "its process did not die"),
    "a run left open": (_leave_open, "at the end run"),
    "a tool that ran twice": (_count_twice, "ran 2 times"),
    "a tool that ran too early": (_count_unannounced, "the log has 0 starts"),
    "a tool that did not run": (_not_counted, "did not run"),
    "a second winner": (_win_twice, "a second winner"),
    "a winner refused": (_refuse_the_winner, "refused, but it is what the log has"),
    "an error refused": (_refuse_as_over, "refused, but it is what the log has"),
    "one key, two effects": (_answer_twice, "another id than"),
    "trouble": (_have_trouble, "an answer of the server's own trouble"),
    "an invented message": (_invent_message, "nobody sent"),
}


# ---- forged files ------------------------------------------------------------------------------


def _judge_old_disk(binary: pathlib.Path, world: World, early: pathlib.Path, home: pathlib.Path,
                    material: Material) -> list[str]:
    """The disk of an earlier moment, as a power cut leaves it that takes acknowledged work along."""
    server = Server(binary, early, world.config, home / "early.log")
    with contextlib.ExitStack() as stack:
        stack.callback(server.end)
        server.start()
        book = Book(home / "early.jsonl")
        Rest(server.site, book).bring()
        server.stop()
    return judge(Audit(read_logs(early)), material.entries + book.entries, world.runs())


@contextlib.contextmanager
def _flipped_byte(data: pathlib.Path):
    """One bit of a text in the middle of a log."""
    path = max((data / "sessions").glob("*.messages.jsonl"), key=lambda p: p.stat().st_size)
    text = path.read_bytes()
    place = text.rindex(b'"kind":"message.user"') + 10
    path.write_bytes(text[:place] + bytes([text[place] ^ 1]) + text[place + 1:])
    try:
        yield
    finally:
        path.write_bytes(text)


def _judge_flipped_byte(data: pathlib.Path) -> list[str]:
    with _flipped_byte(data):
        return read_logs(data).faults


def _verify_flipped_byte(binary: pathlib.Path, data: pathlib.Path) -> list[str]:
    with _flipped_byte(data):
        return [json.dumps(finding) for finding in verify(binary, data)["findings"]]


# ---- forged streams ----------------------------------------------------------------------------


def _event(session: str, record: Record, **other) -> tuple[dict[str, str], dict]:
    data = f'{{"session_id":{json.dumps(session)},"task_id":"",{record.line[1:]}'
    event = {"id": str(record.seq), "event": record.kind, "data": data, **other}
    return event, json.loads(event["data"])


def _tamper_with_streams(material: Material) -> dict[str, list[str]]:
    session, records = max(material.logs.sessions.items(), key=lambda item: len(item[1]))
    logs = Logs({session: records}, [])
    middle = len(records) // 2
    other = {"id": str(middle + 1), "event": records[middle].kind,
             "data": _event(session, records[middle])[0]["data"].replace('"ts":"2', '"ts":"3')}

    def read(of: list[Record], altered: dict | None = None, reader=None) -> list[str]:
        reader = reader or SessionReader("control", None, session, "?from_seq=1", "0")
        for record in of:
            mine = altered if altered and record is records[middle] else {}
            reader.on_record(*_event(session, record, **mine))
        if isinstance(reader, GlobalReader):
            return reader.check(logs, {session: time.time()})
        return reader.check(logs)

    def of_all() -> GlobalReader:
        return GlobalReader("control", None, "0")

    if read(records) or read(records, reader=of_all()):
        return {"a stream as it should be": []}
    gap = records[:middle] + records[middle + 1:]
    swapped = records[:middle] + [records[middle + 1], records[middle]] + records[middle + 2:]
    return {
        "a gap": read(gap),
        "a repeat": read(records[:middle + 1] + records[middle:]),
        "a wrong order": read(swapped),
        "an early end": read(records[:-1]),
        "an altered event": read(records, other),
        "a gap in all": read(gap, reader=of_all()),
        "a repeat in all": read(records[:middle + 1] + records[middle:], reader=of_all()),
        "an early end in all": read(records[:-1], reader=of_all()),
        "a session missing in all": of_all_missing(logs, session),
    }


def of_all_missing(logs: Logs, session: str) -> list[str]:
    reader = GlobalReader("control", None, "0")
    reader.began = 1.0
    return reader.check(logs, {session: time.time()})


# ---- forged races ------------------------------------------------------------------------------


def _tamper_with_races(lab: Lab, tally: ControlTally, home: pathlib.Path) -> None:
    done, audit = race_rounds(lab, home / "races", 20)
    for race in done:
        session = audit.sessions[race.session]
        winner = session.pending[race.pending].settled
        if winner.kind != "pending.completed" or not any(
                entry.acked and entry.op == "result" for entry in race.entries):
            continue
        if check_round(race, session):
            print(f"  controls say nothing: a sound race is complained of: {race}")
            tally.missed += 1
            return
        for name, answer in (("a race with two winners", (200, {"success": True})),
                             ("a race with a winner refused", (409, {"code": "conflicting_result"})),
                             ("a race with a wrong refusal", (404, {"code": "unknown"}))):
            forged = copy.deepcopy(race)
            told = next(e for e in forged.entries if e.acked and e.op == "result")
            if name.endswith("two winners"):
                forged.entries.append(dataclasses.replace(told, status=answer[0], body=answer[1]))
                told.body = answer[1]
            else:
                told.status, told.body = answer
            tally.note(name, check_round(forged, session), race.session)
        return
    raise Trouble("no race was won by a result")
