"""The promises that a log must keep whoever wrote it (reliability.md P2, P3, P4, P8, P9).

Each rule is checked from the records alone. A complaint names session and seq.
"""
import dataclasses
import datetime

from records import Logs, Record, text_of

_ENDS = {"run.completed", "run.failed", "run.cancelled", "run.interrupted"}
_SETTLES = {"pending.completed", "pending.failed", "pending.expired", "pending.cancelled"}
_EXHAUSTED_AFTER = 3  # interruptions in a row without a step of the model
# Agents whose last word is "<agent>: <the latest result>".
_SILENT = {"slow"}
_ORPHAN_SECONDS = 2


@dataclasses.dataclass
class Run:
    run_id: str
    continues: str
    started: int
    end: Record | None = None
    resume_unapplied: bool = False
    wait: str | None = None


@dataclasses.dataclass
class Wait:
    run_id: str
    resumed: int = 0
    consumed: int = 0


@dataclasses.dataclass
class Pending:
    created: Record
    settled: Record | None = None
    approved: Record | None = None


@dataclasses.dataclass
class Call:
    """A tool call of one message of the assistant."""
    call_id: str
    tool: str
    said: int  # seq of that message
    started: int = 0
    result: Record | None = None


class SessionAudit:
    """Walks one log. What it collects serves the other checks too."""

    def __init__(self, session: str, records: list[Record], boots: list[Record],
                 stopped: frozenset[str]):
        self.session = session
        self.records = records
        self.complaints: list[str] = []
        self.runs: dict[str, Run] = {}
        self.waits: dict[str, Wait] = {}
        self.pending: dict[str, Pending] = {}
        self.calls: list[Call] = []
        self.agent = ""
        self.parent: dict | None = None
        self.deleted = False
        self.exhausted = False
        self._boots = boots
        self._stopped = stopped
        self._run: Run | None = None      # the open one
        self._batch: list[Call] = []      # calls of the assistant's latest message
        self._text = ""                   # what it said last
        self._queued = 0
        self._in_a_row = 0
        self._boot = -1
        self._died: Run | None = None     # its process is dead, and recovery has not spoken yet
        self._consumed: str | None = None
        self._walk()

    def _complain(self, record: Record, what: str) -> None:
        self.complaints.append(f"{self.session} seq {record.seq} {record.kind}: {what}")

    def _walk(self) -> None:
        if not self.records or self.records[0].kind != "session.created":
            self.complaints.append(f"{self.session}: the log does not begin with its creation")
            return
        for record in self.records:
            self._notice_restart(record)
            handler = getattr(self, "_on_" + record.kind.replace(".", "_"), None)
            if handler:
                handler(record)
            elif record.kind in _SETTLES:
                self._settle(record)
            if record.kind in _ENDS:
                self._end(record)
            self._consumed = record["wait_id"] if record.kind == "token.consumed" else None

    def at_rest(self) -> list[str]:
        """Complaints about a session from which nobody wants anything any more."""
        if self.deleted or not self.records:
            return []
        last = self.records[-1]
        found = []
        if self._run:
            state = "waits" if self._run.wait else "is open"
            found.append(f"{self.session}: at the end run {self._run.run_id} still {state}, "
                         f"last record {last.seq} {last.kind}")
        for pending_id, pending in self.pending.items():
            if not pending.settled and not pending.approved:
                found.append(f"{self.session}: {pending_id} was never settled")
        ends = [run.end for run in self.runs.values() if run.end]
        if ends and ends[-1].kind == "run.interrupted" and not self._run:
            if not ends[-1].get("exhausted"):
                found.append(f"{self.session}: stays interrupted, though not exhausted")
        elif self._queued:
            found.append(f"{self.session}: {self._queued} queued messages were never answered")
        return found

    # ---- restarts --------------------------------------------------------------------------

    def _boot_of(self, record: Record) -> int:
        boot = self._boot
        while boot + 1 < len(self._boots) and self._boots[boot + 1]["ts"] <= record["ts"]:
            boot += 1
        return boot

    def _notice_restart(self, record: Record) -> None:
        """The first thing that happens to a run whose process died is that recovery says so."""
        boot = self._boot_of(record)
        if boot != self._boot:
            working = self._run and not self._run.wait
            self._died = self._run if working and self._boot >= 0 else None
            self._boot = boot
        if not self._died or record.kind in ("pending.waiting", "pending.failed", "token.minted"):
            return
        run, self._died = self._died, None
        says_so = record.kind in ("run.redriven", "run.waiting") or (
            record.kind == "run.interrupted" and record["reason"] == "process_restart")
        if not says_so or record.get("run_id") != run.run_id:
            self._complain(record, f"run {run.run_id} died with its process, and no record says so")
        elif (record.kind == "run.redriven") != run.resume_unapplied:
            self._complain(record, f"a run whose accepted result was "
                                   f"{'not ' if run.resume_unapplied else ''}applied")
        record["_recovery"] = True

    # ---- the session and its messages ------------------------------------------------------

    def _on_session_created(self, record: Record) -> None:
        self.agent = record.get("agent", "")
        self.parent = record.get("parent")
        if record.seq != 1 or record["id"] != self.session:
            self._complain(record, "another session's, or a second one")

    def _on_session_deleted(self, record: Record) -> None:
        self.deleted = True
        if record is not self.records[-1]:
            self._complain(record, "records follow the deletion")

    def _on_message_user(self, record: Record) -> None:
        self._queued += record.get("queued", False)

    def _on_message_assistant(self, record: Record) -> None:
        self._must_work(record)
        self._must_be_closed(record)
        self._in_a_row = 0
        self._step()
        self._text = text_of(record["content"])
        self._batch = [Call(block["id"], block["name"], record.seq)
                       for block in record["content"] if block["type"] == "tool_use"]
        self.calls += self._batch

    def _must_work(self, record: Record) -> None:
        if not self._run or self._run.wait:
            self._complain(record, "no run is at work")
        elif record.get("run_id", self._run.run_id) != self._run.run_id:
            self._complain(record, f"of run {record['run_id']}, which is not the open one")

    def _must_be_closed(self, record: Record) -> None:
        for call in self._batch:
            if not call.result:
                self._complain(record, f"call {call.call_id} has no result")

    def _step(self) -> None:
        if self._run:
            self._run.resume_unapplied = False

    # ---- runs ------------------------------------------------------------------------------

    def _on_run_started(self, record: Record) -> None:
        run_id, continues = record["run_id"], record.get("continues", "")
        if self._run:
            self._complain(record, f"run {self._run.run_id} is still open")
        if run_id in self.runs:
            self._complain(record, "the run was started before")
        if continues:
            before = self.runs.get(continues)
            if not before or not before.end or before.end.kind != "run.interrupted":
                self._complain(record, f"continues {continues}, which was not interrupted")
            if any(run.continues == continues for run in self.runs.values()):
                self._complain(record, f"{continues} is continued a second time")
        else:
            self._must_be_closed(record)
            self._batch = []
            self._queued = 0
        self._run = self.runs[run_id] = Run(run_id, continues, record.seq)

    def _on_run_waiting(self, record: Record) -> None:
        wait_id = record["wait_id"]
        self._step()
        if not self._run or self._run.run_id != record["run_id"]:
            self._complain(record, "its run is not open")
            return
        if self._run.wait and self._run.wait != wait_id:
            self._complain(record, f"the run waits already, {self._run.wait}")
        if not self._run.wait and wait_id in self.waits:
            self._complain(record, "the wait was over before")
        self._run.wait = wait_id
        self.waits.setdefault(wait_id, Wait(record["run_id"]))

    def _on_token_consumed(self, record: Record) -> None:
        wait = self.waits.get(record["wait_id"])
        if not wait:
            self._complain(record, "of a wait that never was")
            return
        wait.consumed += 1
        if wait.consumed > 1:
            self._complain(record, f"wait {record['wait_id']} is consumed a second time")

    def _on_run_resumed(self, record: Record) -> None:
        wait_id = record["wait_id"]
        wait = self.waits.get(wait_id)
        if not wait or not self._run or self._run.wait != wait_id:
            self._complain(record, f"the run does not wait for {wait_id}")
        if wait:
            wait.resumed += 1
            if wait.resumed > 1:
                self._complain(record, f"wait {wait_id} is resumed a second time")
        if self._consumed != wait_id:
            self._complain(record, "without its token being consumed")
        for pending_id, pending in self.pending.items():
            if not pending.settled and not pending.approved:
                self._complain(record, f"{pending_id} is still open")
        if self._run:
            self._run.wait = None
            self._run.resume_unapplied = True

    def _on_run_redriven(self, record: Record) -> None:
        if "_recovery" not in record:
            self._complain(record, "its process did not die")

    def _end(self, record: Record) -> None:
        run = self.runs.get(record["run_id"])
        if not run:
            self._complain(record, "of a run that never began")
            return
        if run.end:
            self._complain(record, f"the run ended before, seq {run.end.seq} {run.end.kind}")
            return
        if run is not self._run:
            self._complain(record, "of a run that is not the open one")
        if record.kind == "run.interrupted":
            self._interrupt(record, run)
        else:
            self._must_be_closed(record)
        if record.kind == "run.completed":
            self._complete(record, run)
        run.end = record
        run.wait = None
        self._run = None

    def _interrupt(self, record: Record, run: Run) -> None:
        if record["reason"] == "wait_timeout":
            return
        self._in_a_row += 1
        self.exhausted = record.get("exhausted", False)
        if self.exhausted != (self._in_a_row >= _EXHAUSTED_AFTER):
            self._complain(record, f"exhausted is {self.exhausted} after {self._in_a_row} in a row")
        if run.wait:
            self._complain(record, "the run was parked: a restart does not interrupt it")
        if record["reason"] == "process_restart" and "_recovery" not in record:
            self._complain(record, "its process did not die")
        if record["reason"] == "process_exit":
            boot = self._boots[self._boot]["boot_id"] if self._boot >= 0 else ""
            if boot not in self._stopped:
                self._complain(record, "the server was not told to stop")

    def _complete(self, record: Record, run: Run) -> None:
        if run.wait:
            self._complain(record, "the run waits")
        if self._batch:
            self._complain(record, "the model did not answer after its calls")
        if self.agent in _SILENT:
            return
        last = [call for call in self.calls if call.said > 0]
        if not last:
            return
        said = last[-1].said
        result = [call for call in last if call.said == said][-1].result
        expected = f"{self.agent}: {result_text(result)}" if result else None
        if expected is not None and self._text != expected:
            self._complain(record, f"the model said {self._text!r}, not {expected!r}: it did not "
                                   f"get the result of seq {result.seq}")

    def _on_run_failed(self, record: Record) -> None:
        self._complain(record, f"no run fails in this load: {record.get('error')}")

    # ---- calls -----------------------------------------------------------------------------

    def _call(self, call_id: str) -> Call | None:
        return next((call for call in self._batch if call.call_id == call_id), None)

    def _on_tool_started(self, record: Record) -> None:
        self._must_work(record)
        self._step()
        call = self._call(record["call_id"])
        if not call:
            self._complain(record, "the model made no such call")
            return
        call.started += 1
        if call.started > 1:
            self._complain(record, "the call was started before")

    def _on_tool_completed(self, record: Record) -> None:
        self._step()
        self._take_result(record)

    _on_tool_failed = _on_tool_completed

    def _on_pending_created(self, record: Record) -> None:
        self._must_work(record)
        self._step()
        if record["pending_id"] in self.pending:
            self._complain(record, "the id is not new")
        if not self._call(record["call_id"]):
            self._complain(record, "the model made no such call")
        self.pending[record["pending_id"]] = Pending(record)

    def _settle(self, record: Record) -> None:
        pending = self.pending.get(record["pending_id"])
        if not pending:
            self._complain(record, "of a call that was never pending")
            return
        if pending.settled or pending.approved:
            before = pending.settled or pending.approved
            self._complain(record, f"the call was settled before, seq {before.seq} {before.kind}")
            return
        pending.settled = record
        self._take_result(record)

    def _on_pending_approved(self, record: Record) -> None:
        pending = self.pending.get(record["pending_id"])
        if not pending or pending.settled or pending.approved:
            self._complain(record, "the call does not wait for a decision")
            return
        pending.approved = record

    def _take_result(self, record: Record) -> None:
        call = self._call(record["call_id"])
        if not call:
            self._complain(record, "the model made no such call")
        elif call.result:
            self._complain(record, f"a second result, after seq {call.result.seq}")
        else:
            call.result = record


def result_text(record: Record) -> str:
    """What the model gets to read as the result of a call."""
    if record.kind in ("pending.completed", "tool.completed"):
        return text_of(record["result"].get("content", ""))
    return record.get("error", "")


def _seconds(time: str) -> float:
    return datetime.datetime.fromisoformat(time).timestamp()


class Audit:
    """All sessions, and what holds between them."""

    def __init__(self, logs: Logs):
        boots = logs.boots()
        stopped = frozenset(r["boot_id"] for r in logs.system if r.kind == "boot.stopped")
        self.logs = logs
        self.sessions = {session: SessionAudit(session, records, boots, stopped)
                         for session, records in logs.sessions.items()}
        self.complaints = list(logs.faults)
        for audit in self.sessions.values():
            self.complaints += audit.complaints

    def at_rest(self) -> list[str]:
        return [what for audit in self.sessions.values() for what in audit.at_rest()]

    def resumes(self) -> int:
        return sum(wait.resumed for audit in self.sessions.values()
                   for wait in audit.waits.values())

    def exhausted(self) -> int:
        return sum(audit.exhausted for audit in self.sessions.values())

    def check_counters(self, runs: list[tuple[str, str, str]], once: tuple[str, ...]) -> list[str]:
        """Counted outside of the server: a tool that is not idempotent runs at most once for each
        call of the model, never before the log says so, and a good result means that it ran."""
        found = []
        deleted = self.logs.deleted()
        ran: dict[tuple[str, str, str], int] = {}
        for run in runs:
            ran[run] = ran.get(run, 0) + 1
        may_run: dict[tuple[str, str, str], int] = {}
        for session, audit in self.sessions.items():
            for call in audit.calls:
                key = (call.tool, session, call.call_id)
                may_run[key] = may_run.get(key, 0) + (call.started > 0 or call.tool not in once)
                worked = call.result and call.result.kind == "tool.completed" and \
                    not call.result["result"].get("is_error")
                if call.tool.startswith("count_") and worked and not ran.get(key):
                    found.append(f"{session} seq {call.result.seq}: {call.tool} has a result and "
                                 f"did not run")
        for (tool, session, call), times in sorted(ran.items()):
            if session in deleted:
                continue
            if tool in once and times > may_run.get((tool, session, call), 0):
                found.append(f"{session}: {tool} {call} ran {times} times, and the log has "
                             f"{may_run.get((tool, session, call), 0)} starts of it")
        return found

    def check_children(self) -> list[str]:
        """A child is there when its parent waits for it, and does not work for one that gave up."""
        found = []
        deleted = self.logs.deleted()
        for session, audit in self.sessions.items():
            for pending_id, pending in audit.pending.items():
                wish = pending.created.get("metadata", {}).get("start_session")
                if pending.created["waits_for"] != "child" or not wish:
                    continue
                if wish["session_id"] not in self.sessions and wish["session_id"] not in deleted:
                    found.append(f"{session}: {pending_id} waits for {wish['session_id']}, which "
                                 f"was never made")
            if audit.parent and audit.parent["session_id"] in self.sessions:
                found += self._check_orphan(audit, self.sessions[audit.parent["session_id"]])
        return found

    def _check_orphan(self, child: SessionAudit, parent: SessionAudit) -> list[str]:
        started = parent.runs.get(child.parent["run_id"])
        if not started or not started.end or started.end.kind != "run.cancelled":
            return []
        given_up = started.end
        for run in child.runs.values():
            if not run.end or run.end.kind == "run.cancelled":
                continue
            late = _seconds(run.end["ts"]) - _seconds(given_up["ts"])
            if child.records[run.started - 1]["ts"] <= given_up["ts"] and late > _ORPHAN_SECONDS:
                return [f"{child.session}: worked on for {late:.0f} s after {parent.session} had "
                        f"given up (seq {given_up.seq}), until seq {run.end.seq} {run.end.kind}"]
        return []
