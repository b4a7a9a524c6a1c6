"""Clients that keep a server busy in all the ways that it offers, and write down what they heard."""
import random
import threading
import time

from book import Book, Entry
from kit import Answer, Broken, Client, Ended, Silent, Site
from world import AGENTS

_OPEN_SESSIONS = 6  # that one client looks after at a time


class Shared:
    """What clients know of one another: sessions to meddle with."""

    def __init__(self):
        self._lock = threading.Lock()
        self._sessions: list[str] = []

    def add(self, session: str) -> None:
        with self._lock:
            self._sessions.append(session)

    def pick(self, rng: random.Random) -> str | None:
        with self._lock:
            recent = self._sessions[-40:]
        return rng.choice(recent) if recent else None


class Worker(threading.Thread):
    """One client: makes sessions and plays with them until it is told to stop."""

    def __init__(self, name: str, site: Site, book: Book, shared: Shared, seed: str,
                 agents: tuple[str, ...] = AGENTS):
        super().__init__(name=name, daemon=True)
        self.trouble: str | None = None
        self._client = Client(site)
        self._book = book
        self._shared = shared
        self._rng = random.Random(seed)
        self._agents = agents
        self._mine: list[str] = []
        self._count = 0
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._step()
                except Broken:
                    pass
        except Ended:
            pass
        except Silent as silent:
            self.trouble = f"{self.name}: {silent}"
        except Exception as error:
            self.trouble = f"{self.name}: {type(error).__name__}: {error}"
            raise
        finally:
            self._client.close()

    # ---- asking ----------------------------------------------------------------------------

    def _mark(self, what: str) -> str:
        """A text that nobody else sends."""
        self._count += 1
        return f"{what} {self.name}-{self._count}"

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _change(self, op: str, session: str, path: str, body: dict | None, sent: dict,
                method: str = "POST", key: str | None = None) -> Answer:
        entry = Entry(self.name, op, session, sent, key)
        try:
            answer = self._client.ask(method, path, body, key)
        except (Broken, Ended):
            self._book.add(entry)
            raise
        entry.status, entry.body, entry.replayed = answer.status, answer.body, answer.replayed
        self._book.add(entry)
        return answer

    def _insist(self, op: str, session: str, path: str, body: dict, sent: dict) -> Answer:
        """With a key of its own, until there is an answer; sometimes once more for good measure."""
        key = self._mark("key")
        while True:
            try:
                answer = self._change(op, session, path, body, sent, key=key)
            except Broken:
                continue
            if answer.code == "idempotency_in_progress":
                continue
            break
        if self._chance(0.2):
            self._change(op, session, path, body, sent, key=key)
        if answer.ok and op in ("create", "message") and self._chance(0.1):
            # Another request under a key that is taken.
            field = "message" if op == "create" else "content"
            self._change("misuse", session, path, {**body, field: "go to nobody"}, {}, key=key)
        return answer

    def _maybe_insist(self, op: str, session: str, path: str, body: dict, sent: dict) -> Answer:
        ask = self._insist if self._chance(0.4) else self._change
        return ask(op, session, path, body, sent)

    # ---- what to do next -------------------------------------------------------------------

    def _step(self) -> None:
        if len(self._mine) < _OPEN_SESSIONS and self._chance(0.7):
            self._create()
        elif self._chance(0.15):
            self._serve_anybody()
        else:
            theirs = self._shared.pick(self._rng) if self._chance(0.15) else None
            session = theirs or (self._rng.choice(self._mine) if self._mine else None)
            if session:
                self._play(session)
        time.sleep(self._rng.uniform(0, 0.004))

    def _create(self) -> None:
        sent = {"title": self._mark("title")}
        body = {"agent": self._rng.choice(self._agents), "title": sent["title"]}
        if self._chance(0.85):
            body["message"] = sent["message"] = self._mark("go")
        wait = "?wait=300ms" if "message" in body and self._chance(0.2) else ""
        answer = self._maybe_insist("create", "", f"/v1/sessions{wait}", body, sent)
        if answer.ok:
            self._mine.append(answer.body["id"])
            self._shared.add(answer.body["id"])

    def _serve_anybody(self) -> None:
        answer = self._client.ask("GET", "/async-tool/pending?limit=30")
        if answer.body.get("pending"):
            self._play(self._rng.choice(answer.body["pending"])["sessionID"])

    def _play(self, session: str) -> None:
        answer = self._client.ask("GET", f"/v1/sessions/{session}")
        if not answer.ok:
            self._retire(session)
            return
        act = getattr(self, f"_on_{answer.body['status']}")
        act(answer.body)

    def _retire(self, session: str) -> None:
        if session in self._mine:
            self._mine.remove(session)

    def _on_idle(self, session: dict) -> None:
        if session["run"] and self._chance(0.7):
            self._retire(session["id"])
            if self._chance(0.05):
                self._remove(session)
        else:
            self._say(session)

    def _on_running(self, session: dict) -> None:
        chosen = self._rng.random()
        if chosen < 0.10:
            self._say(session)
        elif chosen < 0.14:
            self._cancel(session)

    def _on_interrupted_startup(self, session: dict) -> None:
        interruption = session["recovery"]["interruption"]
        if not interruption or not interruption["exhausted"]:
            return  # it goes on by itself
        if self._chance(0.5):
            self._change("go_on", session["id"], f"/v1/sessions/{session['id']}/continue", {}, {})
        elif self._chance(0.5):
            self._say(session)
        else:
            self._retire(session["id"])

    def _on_interrupted_waiting(self, session: dict) -> None:
        self._say(session)

    def _on_waiting(self, session: dict) -> None:
        calls = session["pending"]
        outside = [call for call in calls if call["waits_for"] == "external"]
        asked = [call for call in calls if call["reason"] == "approval_required"]
        chosen = self._rng.random()
        if chosen < 0.06:
            self._cancel(session)
        elif chosen < 0.16:
            self._say(session)
        elif chosen < 0.18 and len(outside) == len(calls):
            self._extend(session)
        elif asked:
            self._decide(session, self._rng.choice(asked))
        elif outside and chosen < 0.40:
            self._resume(session, outside)
        elif outside:
            self._settle(session, self._rng.choice(outside))

    # ---- actions ---------------------------------------------------------------------------

    def _say(self, session: dict) -> None:
        body = {"content": self._mark("go"),
                "on_waiting": self._rng.choice(("supersede", "queue", "queue", "reject"))}
        if self._chance(0.2):
            body["on_running"] = "reject"
        wait = "?wait=300ms" if self._chance(0.2) else ""
        self._maybe_insist("message", session["id"], f"/v1/sessions/{session['id']}/messages{wait}",
                           body, {"content": body["content"], "on_waiting": body["on_waiting"]})

    def _cancel(self, session: dict) -> None:
        mode = self._rng.choice(("discard", "acknowledge"))
        self._change("cancel", session["id"], f"/v1/sessions/{session['id']}/cancel",
                     {"mode": mode}, {"mode": mode})

    def _extend(self, session: dict) -> None:
        if session["run"]["wait"]["deadline_at"]:
            self._change("extend", session["id"], f"/v1/sessions/{session['id']}/extend",
                         {"seconds": 7200}, {})

    def _remove(self, session: dict) -> None:
        self._change("remove", session["id"], f"/v1/sessions/{session['id']}", None, {}, "DELETE")

    def _decide(self, session: dict, call: dict) -> None:
        text = self._mark("no")
        decision = self._rng.choice(("approve", "approve", "deny"))
        body = {"decision": decision}
        if decision == "deny":
            body["message"] = text
        path = f"/v1/pending/{call['pending_id']}/decision"
        sent = {"pending": call["pending_id"], "decision": decision, "text": text}
        for _ in range(1 + self._chance(0.3)):
            self._change("decide", session["id"], path, body, sent)

    def _settle(self, session: dict, call: dict) -> None:
        pending = call["pending_id"]
        if self._chance(0.15):
            worker = self._mark("worker")
            self._change("claim", session["id"], f"/async-tool/pending/{pending}/claim",
                         {"worker": worker, "leaseMs": 60000},
                         {"pending": pending, "worker": worker})
        chosen = self._rng.random()
        if chosen < 0.12:
            self._change("drop", session["id"], f"/async-tool/pending/{pending}", None,
                         {"pending": pending}, "DELETE")
        elif chosen < 0.25:
            self._fail(session, pending)
        else:
            self._answer(session, pending)

    def _fail(self, session: dict, pending: str) -> None:
        text = self._mark("failed")
        body = {"pendingID": pending, "error": text}
        for _ in range(1 + self._chance(0.3)):
            self._change("error", session["id"], "/async-tool/error", body,
                         {"pending": pending, "text": text})

    def _answer(self, session: dict, pending: str) -> None:
        text = self._mark("result")
        result = {"title": "", "output": text} if self._chance(0.5) else {"content": text}
        body = {"pendingID": pending, "result": result}
        sent = {"pending": pending, "text": text}
        wait = "?wait=300ms" if self._chance(0.1) else ""
        path = f"/async-tool/result{wait}"
        again = self._chance(0.3)
        try:
            self._maybe_insist("result", session["id"], path, body, sent)
        except Broken:
            again = self._chance(0.7)
        if again:
            self._change("result", session["id"], path, body, sent)
        if self._chance(0.2):
            other = self._mark("other")
            self._change("result", session["id"], "/async-tool/result",
                         {"pendingID": pending, "result": {"content": other}},
                         {"pending": pending, "text": other})

    def _resume(self, session: dict, calls: list[dict]) -> None:
        body = {}
        path = f"/v1/sessions/{session['id']}"
        if self._chance(0.7):
            token = self._change("rotate", session["id"], f"{path}/resume-token", {}, {})
            if not token.ok:
                return
            body["token"] = token.body["token"]
        if len(calls) > 1 and self._chance(0.4):
            calls = calls[:1]
        results = {call["call_id"]: self._mark("resumed") for call in calls}
        sent = {"results": results, "run": session["run"]["run_id"]}
        body["results"] = {call: {"content": text} for call, text in results.items()}
        again = self._chance(0.3)
        try:
            self._maybe_insist("resume", session["id"], f"{path}/resume", body, sent)
        except Broken:
            again = self._chance(0.7)
        if again:
            self._change("resume", session["id"], f"{path}/resume", body, sent)
        if self._chance(0.1):
            others = {call: self._mark("other") for call in results}
            self._change("resume", session["id"], f"{path}/resume",
                         {**body, "results": {c: {"content": t} for c, t in others.items()}},
                         {"results": others, "run": sent["run"]})
