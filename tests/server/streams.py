"""Readers of event streams that drop, come back, read slowly, and lose their server.

Per session: each seq once, in order, the record as it is in the log. On the global stream: each
record of each session once per reader. Over reconnects, overruns and kills.
"""
import collections
import contextlib
import hashlib
import json
import random
import select
import socket
import threading
import time

from audit import Audit
from book import Book, Entry
from findings import Findings
from killing import judge, keeping, live_on
from kit import Broken, Client, Ended, Server, Site, take_binary, verify
from lab import Lab, Trouble
from records import Logs, read_logs
from rest import Rest, list_sessions
from world import World

_SESSION_READERS = 8
_GLOBAL_READERS = 3
_WRITERS = 3
_SESSIONS = 4  # written to all the time
_OTHERS = 3    # that come and go
_CATCH_UP_SECONDS = 30
_LIMITS = "[limits]\nstream_events = 40\nstream_bytes = \"64KiB\"\n"


class Writer(threading.Thread):
    """Keeps the sessions busy, with small and large texts."""

    def __init__(self, name: str, site: Site, book: Book, sessions: list[str], seed: str):
        super().__init__(name=name, daemon=True)
        self.trouble: str | None = None
        self._client = Client(site)
        self._book = book
        self._sessions = sessions
        self._rng = random.Random(seed)
        self._count = 0
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                with contextlib.suppress(Broken):
                    self._step()
        except Ended:
            pass
        except Exception as error:
            self.trouble = f"{self.name}: {error!r}"
            raise

    def _mark(self, what: str) -> str:
        self._count += 1
        size = self._rng.choice((0, 0, 0, 1_000, 10_000, 60_000))
        return f"{what} {self.name}-{self._count}" + " blah" * (size // 5)

    def _change(self, op: str, session: str, path: str, body: dict, sent: dict) -> dict:
        entry = Entry(self.name, op, session, sent)
        try:
            answer = self._client.ask("POST", path, body)
            entry.status, entry.body = answer.status, answer.body
        finally:
            self._book.add(entry)
        return entry.body

    def create(self, title: str) -> str:
        return self._change("create", "", "/v1/sessions", {"agent": "one", "title": title},
                            {"title": title})["id"]

    def _step(self) -> None:
        if self._rng.random() < 0.03:
            other = _SESSIONS + self._rng.randrange(_OTHERS)
            self._count += 1  # what broke off may be there: no title is used again
            self._sessions[other] = self.create(f"title {self.name}-{self._count}")
        session = self._rng.choice(self._sessions)
        body = self._client.ask("GET", f"/v1/sessions/{session}").body
        if body["status"] == "waiting" and body["pending"]:
            pending, text = body["pending"][0]["pending_id"], self._mark("result")
            self._change("result", session, "/async-tool/result",
                         {"pendingID": pending, "result": {"content": text}},
                         {"pending": pending, "text": text})
        elif body["status"] == "idle":
            text = self._mark("go")
            self._change("message", session, f"/v1/sessions/{session}/messages",
                         {"content": text}, {"content": text})
        time.sleep(self._rng.uniform(0, 0.004))


class Gone(Exception):
    """The stream ended, whoever ended it."""


class Stream:
    """One connection to a stream. Events come whole or not at all."""

    def __init__(self, site: Site, path: str, last_id: str | None, small: bool):
        self._socket = socket.socket()
        self._buffer = b""
        try:
            if small:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self._socket.settimeout(10)
            self._socket.connect(site.address())
            header = f"Last-Event-ID: {last_id}\r\n" if last_id else ""
            self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}"
                                 f"Authorization: Bearer {site.token}\r\n\r\n".encode())
            while b"\r\n\r\n" not in self._buffer:
                self._receive(65536)
        except OSError:
            self.close()
            raise Gone from None
        except BaseException:
            self.close()
            raise
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        self.status = int(head.split()[1])

    def close(self) -> None:
        self._socket.close()

    def _receive(self, size: int) -> None:
        try:
            piece = self._socket.recv(size)
        except OSError:
            raise Gone from None
        if not piece:
            raise Gone
        self._buffer += piece

    def events(self, seconds: float, size: int = 65536) -> list[dict[str, str]]:
        """What has come, after waiting for something for that long."""
        if select.select([self._socket], [], [], seconds)[0]:
            self._receive(size)
        *whole, self._buffer = self._buffer.split(b"\n\n")
        parsed = []
        for block in whole:
            lines = [line.partition(b": ") for line in block.split(b"\n")]
            parsed.append({name.decode(): value.decode() for name, _, value in lines if name})
        return parsed


class Reader(threading.Thread):
    """Follows one stream over all its breaks."""

    def __init__(self, name: str, site: Site, path: str, first: str, seed: str):
        super().__init__(name=name, daemon=True)
        self.complaints: list[str] = []
        self.trouble: str | None = None
        self.reconnects = 0
        self.overruns = 0
        self.last_id: str | None = None
        self._site = site
        self._path = path
        self._first = first  # the query of a connection that has seen nothing yet
        self._rng = random.Random(seed)
        self._was_here = False
        self._stopping = threading.Event()
        self.patient = threading.Event()  # from now on it stays to the end

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                with contextlib.suppress(Gone):
                    self._read_for_a_while()
        except Ended:
            pass
        except Exception as error:
            self.trouble = f"{self.name}: {error!r}"
            raise

    def _read_for_a_while(self) -> None:
        chosen = "stay" if self.patient.is_set() else \
            self._rng.choice(("events",) * 5 + ("time",) * 4 + ("slow",))
        path = self._path if self.last_id else self._path + self._first
        stream = Stream(self._site, path, self.last_id, chosen == "slow")
        try:
            if stream.status != 200:
                self._complain(f"the stream is refused with {stream.status}")
                raise Gone
            self.reconnects += self._was_here
            self._was_here = True
            left = self._rng.randint(0, 60) if chosen == "events" else None
            until = time.monotonic() + (self._rng.uniform(0, 0.5) if chosen == "time" else 4)
            while not self._stopping.is_set() and (chosen == "stay" or time.monotonic() < until):
                if chosen != "stay" and self.patient.is_set():
                    return
                if chosen == "slow":
                    time.sleep(0.05)
                for event in stream.events(0.05, 1000 if chosen == "slow" else 65536):
                    if left == 0:
                        return  # what was not looked at was not received
                    left = left - 1 if left else left
                    self._take(event)
        finally:
            stream.close()

    def _complain(self, what: str) -> None:
        if len(self.complaints) < 5:
            self.complaints.append(f"{self.name}, after {self.last_id}: {what}")

    def _take(self, event: dict[str, str]) -> None:
        kind = event.get("event")
        if kind == "overrun":
            self.overruns += 1
        elif kind == "resync":
            self._complain("resync, though the journal is kept")
        elif kind in ("delta", "status"):
            if "id" in event:
                self._complain(f"{kind} has an id")
        elif kind == "snapshot":
            self.on_snapshot(event)
            self.last_id = event["id"]
        elif kind:
            record = json.loads(event["data"])
            if record["kind"] != kind:
                self._complain(f"event {kind} with a record {record['kind']}")
            self.on_record(event, record)
            self.last_id = event["id"]

    def on_snapshot(self, event: dict[str, str]) -> None:
        self._complain("a snapshot")

    def on_record(self, event: dict[str, str], record: dict) -> None:
        raise NotImplementedError


def _digest(session: str, task: str, line: str) -> bytes:
    data = f'{{"session_id":{json.dumps(session)},"task_id":{json.dumps(task)},{line[1:]}'
    return hashlib.sha256(data.encode()).digest()


class SessionReader(Reader):
    def __init__(self, name: str, site: Site, session: str, first: str, seed: str):
        super().__init__(name, site, f"/v1/sessions/{session}/events", first, seed)
        self.session = session
        self.seen: dict[int, bytes] = {}
        self.next: int | None = 1 if first else None

    def on_snapshot(self, event: dict[str, str]) -> None:
        if self.next is not None:
            self._complain("a snapshot, though it had a place to go on from")
        if json.loads(event["data"])["last_seq"] != int(event["id"]):
            self._complain("the snapshot's id is not its last_seq")
        self.next = int(event["id"]) + 1

    def on_record(self, event: dict[str, str], record: dict) -> None:
        seq = record["seq"]
        if int(event["id"]) != seq or record["session_id"] != self.session:
            self._complain(f"id {event['id']} with seq {seq} of {record['session_id']}")
        if seq != self.next:
            self._complain(f"seq {seq} after {None if self.next is None else self.next - 1}")
        self.next = seq + 1
        self.seen[seq] = hashlib.sha256(event["data"].encode()).digest()

    def check(self, logs: Logs) -> list[str]:
        records = logs.sessions[self.session]
        found = list(self.complaints)
        if self.next is not None and self.next != len(records) + 1:
            found.append(f"{self.name}: got to seq {self.next - 1} of {len(records)}")
        for seq, digest in self.seen.items():
            if digest != _digest(self.session, "", records[seq - 1].line):
                found.append(f"{self.name}: seq {seq} is not the record of the log")
        return found


class GlobalReader(Reader):
    def __init__(self, name: str, site: Site, seed: str):
        super().__init__(name, site, "/v1/events", "", seed)
        self.seen: dict[tuple[str, int], bytes] = {}
        self.began: float | None = None  # when the first event was there
        self.last: dict[str, int] = {}

    def on_record(self, event: dict[str, str], record: dict) -> None:
        self.began = self.began or time.time()
        session, seq = record["session_id"], record["seq"]
        if (session, seq) in self.seen:
            self._complain(f"{session} seq {seq} a second time")
        last = self.last.get(session)
        if last is not None and seq != last + 1:
            self._complain(f"{session} seq {seq} after {last}")
        self.last[session] = seq
        self.seen[session, seq] = hashlib.sha256(event["data"].encode()).digest()

    def check(self, logs: Logs, made_at: dict[str, float]) -> list[str]:
        found = list(self.complaints)
        for session, records in logs.sessions.items():
            seen = [seq for seq in range(1, len(records) + 1) if (session, seq) in self.seen]
            whole = made_at.get(session, 0) > (self.began or time.time())
            first = 1 if whole else (seen[0] if seen else len(records) + 1)
            missing = sorted(set(range(first, len(records) + 1)) - set(seen))
            if missing:
                found.append(f"{self.name}: {session} lacks seq {missing[:10]} of {len(records)}")
            for seq in seen:
                if self.seen[session, seq] != _digest(session, "", records[seq - 1].line):
                    found.append(f"{self.name}: {session} seq {seq} is not the record of the log")
        return found


def streams(lab: Lab, reconnects: int) -> Findings:
    findings = Findings("streams", lab.seed)
    home = lab.scratch / "streams"
    home.mkdir()
    binary = take_binary(home)
    world = World(home / "world", limits=_LIMITS)
    book = Book(home / "book.jsonl")
    server = Server(binary, home / "data", world.config, home / "server.log")
    with keeping(lab, findings, home, book), contextlib.ExitStack() as stack:
        stack.callback(server.end)
        server.start()
        with server.unbroken():
            hall = _Hall(lab, server, book)
        while hall.reconnects() < reconnects:
            time.sleep(lab.rng.uniform(0.05, 3))
            hall.must_work()
            live_on(findings, server.must_run)
            server.kill()
            while not live_on(findings, server.start):
                server.kill()
            findings.count("kills")
            findings.progress(f"{hall.reconnects()} of {reconnects}")
        hall.stop_writing()
        findings.add(Rest(server.site, book).bring())
        findings.add(hall.catch_up())
        server.stop()
        server.end()
        hall.leave()
        _check(findings, binary, server, book, hall)
    return findings


class _Hall:
    """All readers and writers."""

    def __init__(self, lab: Lab, server: Server, book: Book):
        self._client = Client(server.site)
        first = Writer("w", server.site, book, [], f"{lab.seed}/first")
        sessions = [first.create(f"stream {number}") for number in range(_SESSIONS + _OTHERS)]
        site = server.site
        self.readers = [
            SessionReader(f"reader{number}", site, sessions[number % _SESSIONS],
                          "" if number % 3 == 0 else "?from_seq=1", f"{lab.seed}/r{number}")
            for number in range(_SESSION_READERS)]
        self.readers += [GlobalReader(f"global{number}", site, f"{lab.seed}/g{number}")
                         for number in range(_GLOBAL_READERS)]
        self.writers = [Writer(f"w{number}", site, book, sessions, f"{lab.seed}/w{number}")
                        for number in range(_WRITERS)]
        for thread in (*self.readers, *self.writers):
            thread.start()

    def must_work(self) -> None:
        for thread in (*self.readers, *self.writers):
            if thread.trouble:
                raise Trouble(thread.trouble)

    def reconnects(self) -> int:
        return sum(reader.reconnects for reader in self.readers)

    def overruns(self) -> int:
        return sum(reader.overruns for reader in self.readers)

    def stop_writing(self) -> None:
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.join(timeout=60)
        self.must_work()

    def catch_up(self) -> list[str]:
        """Everybody may read to the end now."""
        for reader in self.readers:
            reader.patient.set()
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        while time.monotonic() < deadline:
            if not self._behind():
                return []
            time.sleep(0.1)
        return [f"{reader.name} does not get to the end, after {reader.last_id}"
                for reader in self._behind()]

    def _behind(self) -> list[Reader]:
        ends = {session: item["last_seq"]
                for session, item in list_sessions(self._client).items()}
        behind = []
        for reader in self.readers:
            if isinstance(reader, SessionReader):
                late = reader.next != ends[reader.session] + 1
            else:
                late = any(reader.last.get(session, end) != end for session, end in ends.items())
            if late:
                behind.append(reader)
        return behind

    def leave(self) -> None:
        for thread in (*self.readers, *self.writers):
            thread.stop()
        for thread in (*self.readers, *self.writers):
            thread.join(timeout=20)


def _check(findings: Findings, binary, server: Server, book: Book, hall: _Hall) -> None:
    hall.must_work()
    book.close()
    report = verify(binary, server.data)
    if not report.get("clean"):
        findings.add([f"verify: {report}"])
    logs = read_logs(server.data)
    audit = Audit(logs)
    findings.add(judge(audit, book.entries, []))
    made_at = {entry.body["id"]: entry.asked_at for entry in book.entries
               if entry.op == "create" and entry.acked}
    events = collections.Counter()
    for reader in hall.readers:
        is_global = isinstance(reader, GlobalReader)
        findings.add(reader.check(logs, made_at) if is_global else reader.check(logs))
        events["global events" if is_global else "session events"] += len(reader.seen)
    findings.count("reconnects", hall.reconnects())
    findings.count("overruns", hall.overruns())
    for what, number in events.items():
        findings.count(what, number)
    findings.count("records", sum(len(records) for records in logs.sessions.values()))
