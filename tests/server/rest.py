"""Brings a server's sessions to their end: whatever waits is answered, whatever runs is awaited."""
import time

from book import Book, Entry
from kit import Client, Site

_PATIENCE_SECONDS = 20  # without any progress


def list_sessions(client: Client, query: str = "") -> dict[str, dict]:
    """All sessions, over all pages."""
    found, cursor = {}, ""
    while cursor is not None:
        page = client.settled("GET", f"/v1/sessions?limit=500{query}{cursor}").body
        found.update((item["id"], item) for item in page["items"])
        cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else None
    return found


class Rest:
    def __init__(self, site: Site, book: Book):
        self._client = Client(site)
        self._book = book
        self._exhausted: set[str] = set()
        self._count = 0

    def bring(self) -> list[str]:
        """Complaints about sessions that do not get there."""
        seen = None
        since = time.monotonic()
        while True:
            still_open = self._open()
            if not still_open:
                return []
            for session in still_open:
                self._answer(session)
            now = self._progress(still_open)
            if now != seen:
                seen, since = now, time.monotonic()
            elif time.monotonic() - since > _PATIENCE_SECONDS:
                return [f"{session}: does not come to rest: {self._explain(session)}"
                        for session in still_open]
            time.sleep(0.05)

    def _open(self) -> list[str]:
        found = []
        for status in ("running", "waiting", "interrupted_startup"):
            found += list_sessions(self._client, f"&status={status}")
        return [session for session in found if session not in self._exhausted]

    def _progress(self, sessions: list[str]) -> dict[str, int]:
        return {session: self._client.settled("GET", f"/v1/sessions/{session}")
                .body.get("last_seq", 0) for session in sessions}

    def _explain(self, session: str) -> str:
        return str(self._client.settled("GET", f"/v1/sessions/{session}/explain").body)[:600]

    def _answer(self, session: str) -> None:
        body = self._client.settled("GET", f"/v1/sessions/{session}").body
        interruption = (body.get("recovery") or {}).get("interruption")
        if interruption and interruption["exhausted"] and body["status"] != "running":
            self._exhausted.add(session)
        for call in body.get("pending", []):
            self._count += 1
            text = f"rest-{self._count}"
            if call["reason"] == "approval_required":
                self._note("decide", session, f"/v1/pending/{call['pending_id']}/decision",
                           {"decision": "approve"},
                           {"pending": call["pending_id"], "decision": "approve", "text": text})
            elif call["waits_for"] in ("external", "person"):
                self._note("result", session, "/async-tool/result",
                           {"pendingID": call["pending_id"], "result": {"content": text}},
                           {"pending": call["pending_id"], "text": text})

    def _note(self, op: str, session: str, path: str, body: dict, sent: dict) -> None:
        answer = self._client.settled("POST", path, body)
        self._book.add(Entry("rest", op, session, sent, None, answer.status, answer.body))
