"""The book of all clients: what each asked, and what it heard; and the check of it against the logs.

Every 2xx is a promise, kept by a record; every refusal claims something that the log must bear out;
what broke off may have happened once or not at all.
"""
import collections
import dataclasses
import hashlib
import json
import pathlib
import threading
import time

from audit import Audit, SessionAudit
from records import Record, text_of

CHILD_MESSAGE = "go, child"


@dataclasses.dataclass
class Entry:
    who: str
    op: str
    session: str
    sent: dict
    key: str | None = None
    status: int | None = None  # None: the connection broke
    body: dict = dataclasses.field(default_factory=dict)
    replayed: bool = False
    asked_at: float = dataclasses.field(default_factory=time.time)
    heard_at: float = 0

    @property
    def acked(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def code(self) -> str:
        return self.body.get("code", "")

    def __str__(self) -> str:
        heard = "broken" if self.status is None else f"{self.status} {json.dumps(self.body)[:160]}"
        return f"{self.who} {self.op} {self.session} {json.dumps(self.sent)[:160]} → {heard}"


class Book:
    """Written by all clients at once, and to a file as they go."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.entries: list[Entry] = []
        self._lock = threading.Lock()
        self._file = open(path, "w")

    def add(self, entry: Entry) -> None:
        entry.heard_at = time.time()
        with self._lock:
            self.entries.append(entry)
            self._file.write(json.dumps(dataclasses.asdict(entry)) + "\n")

    def close(self) -> None:
        with self._lock:
            self._file.flush()

    def acks(self) -> int:
        with self._lock:
            return sum(entry.acked for entry in self.entries)


def check_book(entries: list[Entry], audit: Audit) -> list[str]:
    checker = _Checker(entries, audit)
    return checker.complaints


class _Checker:
    def __init__(self, entries: list[Entry], audit: Audit):
        self.complaints: list[str] = []
        self._entries = entries
        self._audit = audit
        self._deleted = audit.logs.deleted()
        self._by_seq = {session: {record.seq: record for record in records}
                        for session, records in audit.logs.sessions.items()}
        for entry in entries:
            self._check(entry)
        self._check_winners()
        self._check_keys()
        self._check_nothing_invented()

    def _complain(self, entry: Entry, what: str) -> None:
        self.complaints.append(f"{what}: {entry}")

    def _check(self, entry: Entry) -> None:
        if entry.status is None:
            return
        if entry.status >= 500:
            self._complain(entry, "an answer of the server's own trouble")
            return
        if entry.op == "misuse":
            if entry.code not in ("idempotency_key_reused", "idempotency_in_progress"):
                self._complain(entry, "the key was taken")
            return
        session = entry.session or entry.body.get("id", "")
        audit = self._audit.sessions.get(session)
        gone = session in self._deleted
        if not audit:
            if not gone and (entry.acked or session):
                self._complain(entry, f"there is no log of {session}")
            return
        if gone and not entry.acked:
            return  # whoever asks for what is gone is refused, whatever it was
        check = getattr(self, f"_{'honour' if entry.acked else 'refused'}_{entry.op}", None)
        if not check:
            return
        complaint = check(entry, audit)
        if complaint:
            self._complain(entry, complaint)
        if entry.acked and entry.body.get("outcome"):
            complaint = self._check_outcome(entry.body["outcome"], audit)
            if complaint:
                self._complain(entry, complaint)

    def _record(self, audit: SessionAudit, seq: int) -> Record:
        return self._by_seq[audit.session].get(seq, Record(seq=seq, kind="nothing"))

    # ---- what was acknowledged -------------------------------------------------------------

    def _honour_create(self, entry: Entry, audit: SessionAudit) -> str | None:
        if audit.records[0].get("title") != entry.sent["title"]:
            return "the session has another title"
        message = entry.sent.get("message")
        if message and not any(text_of(r["content"]) == message for r in _messages(audit)):
            return "its message is not in the log"
        run = entry.body.get("run_id")
        return None if not run or run in audit.runs else f"run {run} is not in the log"

    def _honour_message(self, entry: Entry, audit: SessionAudit) -> str | None:
        body = entry.body
        found = [r for r in _messages(audit) if r["message_id"] == body["message_id"]]
        if not found or text_of(found[0]["content"]) != entry.sent["content"]:
            return "the message is not in the log"
        if found[0].get("queued", False) != body.get("queued", False):
            return "queued or not: the log says otherwise"
        if body["run_id"] not in audit.runs:
            return f"run {body['run_id']} is not in the log"
        last = self._record(audit, body["seq"])
        expected = ("message.user",) if body.get("queued") else ("run.started", "run.resumed")
        if last.kind not in expected or found[0].seq > body["seq"]:
            return f"seq {body['seq']} is {last.kind}"
        for pending_id in body.get("superseded", []):
            pending = audit.pending.get(pending_id)
            if not pending or not pending.settled or pending.settled.get("reason") != "superseded":
                return f"{pending_id} was not superseded"
        return None

    def _honour_result(self, entry: Entry, audit: SessionAudit) -> str | None:
        if not _is_result(_settled(entry, audit), entry.sent["text"]):
            return f"the result is not the one in the log, {_settled(entry, audit)}"
        return None

    def _honour_error(self, entry: Entry, audit: SessionAudit) -> str | None:
        if not _is_error(_settled(entry, audit), entry.sent["text"]):
            return f"the error is not the one in the log, {_settled(entry, audit)}"
        return None

    def _honour_drop(self, entry: Entry, audit: SessionAudit) -> str | None:
        settled = _settled(entry, audit)
        reasons = ("cancelled",) if not entry.body.get("duplicate") else \
            ("cancelled", "superseded", "interrupted", "failed")
        if settled and settled.kind == "pending.cancelled" and settled["reason"] in reasons:
            return None
        return f"the call was not cancelled, {settled}"

    def _honour_decide(self, entry: Entry, audit: SessionAudit) -> str | None:
        pending = audit.pending.get(entry.sent["pending"])
        if entry.sent["decision"] == "approve":
            return None if pending and pending.approved else "the call was not approved"
        return None if _is_error(_settled(entry, audit), entry.sent["text"]) else \
            f"the call was not denied, {_settled(entry, audit)}"

    def _honour_cancel(self, entry: Entry, audit: SessionAudit) -> str | None:
        record = self._record(audit, entry.body["seq"])
        if record.get("run_id") != entry.body["run_id"]:
            return f"seq {entry.body['seq']} is {record.kind} of {record.get('run_id')}"
        if record.kind == "run.cancelled" and record["reason"] == "cancelled":
            return None
        acknowledged = record.kind == "run.resumed" and record["reason"] == "cancelled" and \
            entry.sent["mode"] == "acknowledge"
        return None if acknowledged else f"seq {record.seq} is {record.kind}"

    def _honour_resume(self, entry: Entry, audit: SessionAudit) -> str | None:
        body = entry.body
        for call_id, text in entry.sent["results"].items():
            if not any(_is_result(p.settled, text) for p in _pending_of(audit, call_id)):
                return f"the result of {call_id} is not in the log"
        if body.get("duplicate") or body["remaining"]:
            return None
        record = self._record(audit, body["seq"])
        return None if record.kind == "run.resumed" and record["run_id"] == body["run_id"] else \
            f"seq {body['seq']} is {record.kind}"

    def _honour_rotate(self, entry: Entry, audit: SessionAudit) -> str | None:
        minted = [r for r in audit.records if r.kind == "token.minted" and
                  r["token_id"] == entry.body["token_id"]]
        secret = entry.body["token"].partition(".")[2]
        if minted and minted[0]["hash"] == hashlib.sha256(secret.encode()).hexdigest():
            return None
        return "the token is not in the log"

    def _honour_go_on(self, entry: Entry, audit: SessionAudit) -> str | None:
        record = self._record(audit, entry.body["seq"])
        found = record.kind == "run.started" and record["run_id"] == entry.body["run_id"] and \
            record.get("continues")
        return None if found else f"seq {record.seq} is {record.kind}"

    def _honour_extend(self, entry: Entry, audit: SessionAudit) -> str | None:
        deadline = entry.body.get("deadline_at")
        found = any(r.kind == "run.waiting" and r["wait_id"] == entry.body["wait_id"] and
                    r.get("deadline_at") == deadline for r in audit.records)
        return None if found else "the new deadline is not in the log"

    def _honour_claim(self, entry: Entry, audit: SessionAudit) -> str | None:
        found = any(r.kind == "pending.processing" and r["pending_id"] == entry.sent["pending"] and
                    r["worker"] == entry.sent["worker"] for r in audit.records)
        return None if found else "the lease is not in the log"

    def _honour_remove(self, _entry: Entry, audit: SessionAudit) -> str | None:
        return None if audit.deleted else "the session is still there"

    def _check_outcome(self, outcome: dict, audit: SessionAudit) -> str | None:
        run = audit.runs.get(outcome["run_id"])
        if not run:
            return f"the outcome is of run {outcome['run_id']}, which is not in the log"
        if outcome["status"] == "suspended":
            waited = any(wait.run_id == run.run_id for wait in audit.waits.values())
            return None if waited else "the outcome is suspended, and the run never waited"
        kind = run.end.kind if run.end else "open"
        return None if kind == f"run.{outcome['status']}" else \
            f"the outcome is {outcome['status']}, and the run is {kind}"

    # ---- what was refused ------------------------------------------------------------------

    def _refused_settlement(self, entry: Entry, audit: SessionAudit, equal: bool) -> str | None:
        settled = _settled(entry, audit)
        pending = audit.pending.get(entry.sent["pending"])
        if not pending:
            return "the call is not in the log" if entry.code != "unknown_pending_id" else None
        if entry.code == "unknown_pending_id":
            return "the call is in the log"
        if entry.code in ("conflicting_result", "not_waiting"):
            if not settled and not pending.approved:
                return "refused, but nothing else settled the call"
            if equal:
                return f"refused, but it is what the log has, {settled}"
        answered = settled is not None and settled.kind in ("pending.completed", "pending.failed")
        if entry.code == "conflicting_result" and not answered and not pending.approved:
            return f"a conflict, but the log has {settled}"
        if entry.code == "not_waiting" and answered and entry.op in ("result", "error"):
            return f"not waiting, but the log has {settled}"
        return None

    def _refused_result(self, entry: Entry, audit: SessionAudit) -> str | None:
        return self._refused_settlement(entry, audit,
                                        _is_result(_settled(entry, audit), entry.sent["text"]))

    def _refused_error(self, entry: Entry, audit: SessionAudit) -> str | None:
        return self._refused_settlement(entry, audit,
                                        _is_error(_settled(entry, audit), entry.sent["text"]))

    def _refused_drop(self, entry: Entry, audit: SessionAudit) -> str | None:
        return self._refused_settlement(entry, audit, False)

    def _refused_resume(self, entry: Entry, audit: SessionAudit) -> str | None:
        if entry.code == "invalid_token":
            return "the token was minted and shown"
        if entry.code not in ("conflicting_result", "token_consumed"):
            return None
        run = entry.sent.get("run")
        given = [any(_is_result(p.settled, text) for p in _pending_of(audit, call_id, run))
                 for call_id, text in entry.sent["results"].items()]
        return "refused, but it is what the log has" if given and all(given) else None

    # ---- over all of them ------------------------------------------------------------------

    def _check_winners(self) -> None:
        """One client at most was told that it settled a call."""
        winners = collections.defaultdict(list)
        for entry in self._entries:
            if entry.op in ("result", "error", "drop", "decide") and entry.acked and \
                    not entry.replayed and not entry.body.get("duplicate"):
                winners[entry.sent["pending"]].append(entry)
        for entries in winners.values():
            for entry in entries[1:]:
                self._complain(entry, f"a second winner, after {entries[0]}")

    def _check_keys(self) -> None:
        """One Idempotency-Key, one effect, one answer."""
        by_key = collections.defaultdict(list)
        for entry in self._entries:
            if entry.key and entry.acked and entry.op != "misuse":
                by_key[entry.key].append(entry)
        for entries in by_key.values():
            first = [e for e in entries if not e.replayed]
            if len(first) > 1 and entries[0].op in ("create", "message"):
                self._complain(first[1], f"the key was used up by {first[0]}")
            for name in ("id", "run_id", "message_id"):
                if len({entry.body.get(name) for entry in entries}) > 1:
                    self._complain(entries[-1], f"another {name} than {entries[0]}")

    def _check_nothing_invented(self) -> None:
        """Each message and each result in the logs was sent, and is there once."""
        titles = collections.Counter()
        texts = collections.Counter()
        sent = {e.sent.get("message") for e in self._entries} | \
            {e.sent.get("content") for e in self._entries}
        settled = collections.defaultdict(set)
        for entry in self._entries:
            if "pending" in entry.sent:
                settled[entry.sent["pending"]].add(entry.sent.get("text"))
            for call_id, text in entry.sent.get("results", {}).items():
                settled[entry.session, call_id].add(text)
        for session, audit in self._audit.sessions.items():
            titles[audit.records[0].get("title")] += 1
            for record in _messages(audit):
                text = text_of(record["content"])
                if text == CHILD_MESSAGE and audit.parent:
                    continue
                texts[text] += 1
                if text not in sent:
                    self.complaints.append(f"{session} seq {record.seq}: nobody sent {text!r}")
            for pending_id, pending in audit.pending.items():
                record = pending.settled
                if not record or record.kind != "pending.completed" or \
                        pending.created["waits_for"] != "external":
                    continue
                text = text_of(record["result"]["content"])
                known = settled[pending_id] | settled[session, record["call_id"]]
                if text not in known:
                    self.complaints.append(f"{session} seq {record.seq}: nobody sent {text!r}")
        for what, count in (titles + texts).items():
            if what and count > 1:
                self.complaints.append(f"{what!r} was sent once and is there {count} times")


def _messages(audit: SessionAudit) -> list[Record]:
    return [record for record in audit.records if record.kind == "message.user"]


def _settled(entry: Entry, audit: SessionAudit) -> Record | None:
    pending = audit.pending.get(entry.sent["pending"])
    return pending.settled if pending else None


def _pending_of(audit: SessionAudit, call_id: str, run: str | None = None) -> list:
    return [p for p in audit.pending.values() if p.created["call_id"] == call_id and
            (run is None or p.created.get("run_id") == run)]


def _is_result(record: Record | None, text: str) -> bool:
    return record is not None and record.kind == "pending.completed" and \
        text_of(record["result"].get("content")) == text


def _is_error(record: Record | None, text: str) -> bool:
    return record is not None and record.kind == "pending.failed" and record["error"] == text
