"""Sessions as things: made, changed, listed, forked, compacted, explained, deleted."""

import hashlib
import json
import pathlib

import kit
from kit import calls, every, on_result, on_user, says

SCRIPT = [
    on_user("go", calls(("job", {"branch": "main"}, "call_j"))),
    on_user("soon", calls(("soon", {}, "call_s"))),
    on_user("always", calls(("always", {}, "call_a"))),
    on_user("ask", calls(("ask_user", {"question": "Well?", "type": "text"}, "call_q"))),
    on_user("nap", calls(("wait_until", {"seconds": 1800}, "call_w"))),
    on_user("think", says("thought", delay_ms=30000)),
    on_user("hello", says("hello {{n}}")),
    *[on_result(t, says("{{result}}")) for t in ("job", "soon", "always", "ask_user", "wait_until")],
]
NAMES = ["job", "soon", "always", "ask_user", "wait_until"]
TOOLS = [{"name": "job", "kind": "external"}, {"name": "soon", "kind": "external", "timeout": "1h"},
         {"name": "always", "kind": "external", "timeout": "never"}]


def setup(agents=("helper", "other"), tools=TOOLS, names=NAMES, **sections):
    return kit.Setup(agents=[{"name": name, "script": SCRIPT, "tools": names} for name in agents],
                     tools=tools, **sections)


class SessionCase(kit.Case):
    setup = setup()

    def setUp(self):
        super().setUp()
        self.task = "task-" + self._testMethodName[-50:]  # a list of one's own

    def texts(self, session):
        return ["".join(b.get("text", "") for b in e["content"]) for e in self.client.transcript(session)]


class SessionObject(SessionCase):
    FIELDS = {"id", "title", "agent", "task_id", "alias", "external_id", "parent", "working_dir", "provider", "status",
              "state", "activity", "created_at", "updated_at", "last_seq", "run", "recovery", "pending", "usage",
              "forked_from", "metadata", "damaged"}

    def test_a_new_session(self):
        given = {"agent": "other", "title": "T", "working_dir": "/w", "task_id": self.task, "alias": "al",
                 "external_id": "ext 1", "metadata": {"k": [1, {"x": None}]}}
        answer = self.assert_status(self.client.post("/v1/sessions", given), 201)
        session = answer.json
        self.assertEqual(answer.headers["Location"], f"/v1/sessions/{session['id']}")
        self.assertRegex(session["id"], r"^sess_[0-9A-Z]{26}$")
        self.assertLessEqual(self.FIELDS, set(session))
        self.assertEqual({k: session[k] for k in given}, given)
        self.assertEqual((session["status"], session["state"], session["activity"], session["last_seq"]),
                         ("idle", "CREATED", {"type": "idle"}, 1))
        self.assertEqual((session["run"], session["parent"], session["pending"], session["damaged"]),
                         (None, None, [], None))
        self.assertNotIn("run_id", session)
        self.restart()
        self.assertEqual(self.client.session(session["id"]), session)

    def test_it_says_how_large_its_log_is(self):
        session = self.client.start("hello")["id"]
        log = self.client.get(f"/v1/sessions/{session}/log", headers={"Accept": "application/x-ndjson"}).body
        self.assertEqual(self.client.session(session)["log_bytes"], len(log))

    def test_a_run(self):
        session = self.client.start("go")
        run = session["run"]
        self.assertEqual(set(run) - {"error", "continues"},
                         {"run_id", "boot_id", "started_at", "ended_at", "outcome", "wait"})
        self.assertEqual(set(run["wait"]), {"wait_id", "kind", "since_seq", "resume_token_id", "deadline_at"})
        self.assertEqual((run["outcome"], run["ended_at"], session["state"]), (None, None, "WAITING_FOR_INPUT"))
        self.assertEqual(session["run_id"], run["run_id"])
        self.client.result(session["pending"][0]["pending_id"], wait="10s")
        view = self.client.session(session["id"])
        self.assertEqual((view["run"]["outcome"], view["state"], view["run"]["wait"]), ("completed", "COMPLETED", None))
        self.assertGreaterEqual(view["run"]["ended_at"], run["started_at"])

    def test_the_default_agent_is_the_first(self):
        self.assertEqual(self.client.start()["agent"], "helper")

    def test_a_message_that_comes_along_starts_a_run(self):
        answer = self.assert_status(self.client.post("/v1/sessions", {"message": "hello"}), 201)
        self.assertEqual(answer["run_id"], self.client.session(answer["id"])["run"]["run_id"])
        self.client.wait_status(answer["id"], "idle")

    def test_an_unknown_agent_is_refused_and_the_known_ones_named(self):
        before = self.client.get("/v1/sessions")["items"]
        answer = self.client.post("/v1/sessions", {"agent": "nobody"})
        self.assertEqual(answer.status, 400)
        self.assertIn("helper", answer["detail"])
        self.assertEqual(self.client.get("/v1/sessions")["items"], before)

    @every([("read-only id", {"id": "sess_x"}), ("status", {"status": "running"}), ("seq", {"last_seq": 3}),
            ("parent", {"parent": {"session_id": "sess_x"}}), ("forked_from", {"forked_from": {}}),
            ("usage", {"usage": {}}), ("title", {"title": 1}), ("metadata", {"metadata": "x"}),
            ("provider", {"provider": "x"}), ("alias", {"alias": "a b"}), ("alias path", {"alias": "../x"}),
            ("alias long", {"alias": "a" * 65}), ("task", {"task_id": "a/b"}), ("task dot", {"task_id": ".."}),
            ("message", {"message": 1}), ("message", {"message": ""})])
    def test_malformed_sessions_are_refused(self, body):
        # T8 T15
        before = self.client.get("/v1/sessions")["items"]
        self.assert_problem(self.client.post("/v1/sessions", body), 400, "invalid_request")
        self.assertEqual(self.client.get("/v1/sessions")["items"], before)

    @every([("unknown", "sess_" + "0" * 26), ("malformed", "nonsense"), ("dots", "%2e%2e"), ("path", "..%2f..%2ftoken"),
            ("long", "s" * 3000), ("system", "_system"), ("nul escaped", "sess_%01")])
    def test_what_does_not_exist_is_404(self, session):
        # T15
        doors = [("GET", path) for path in ("", "/messages", "/log", "/status", "/explain", "/events")]
        for method, path in doors + [("DELETE", ""), ("PATCH", ""), ("POST", "/messages"), ("POST", "/cancel")]:
            body = {"content": "x"} if path == "/messages" else {}
            answer = self.client.request(method, f"/v1/sessions/{session}{path}", body if method != "GET" else None)
            self.assert_problem(answer, 404, "not_found")

    def test_a_slash_that_is_hidden_is_none(self):
        # T12: a proxy in front sees another path than one of ours would be
        session = self.client.start()["id"]
        for path in (f"/v1/sessions/{session}%2fmessages", f"/v1/sessions%2F{session}", "/v1%2fsessions"):
            self.assert_problem(self.client.get(path), 404, "not_found")

    def test_strange_text_comes_back_as_it_was(self):
        # T16
        strange = "a\r\nb\x1b[31m\u202e\u2028\u0000 😀 \"</script>"
        session = self.client.start(title=strange, metadata={strange: strange}, external_id=strange)["id"]
        self.client.patch(f"/v1/sessions/{session}", {"metadata": {"more": strange}})
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hello " + strange})
        stream = self.stream(f"/v1/sessions/{session}/events?from_seq=1")
        stream.wait_for("run.completed")
        self.assertEqual(stream.events[0].data["title"], strange)
        self.restart()
        view = self.client.session(session)
        self.assertEqual((view["title"], view["metadata"], view["external_id"]),
                         (strange, {strange: strange, "more": strange}, strange))
        self.assertEqual(self.texts(session)[0], "hello " + strange)
        for line in self.server.stderr().splitlines():
            json.loads(line)
            self.assertNotIn("\x1b", line)


class Changing(SessionCase):
    def test_title_alias_and_metadata(self):
        session = self.client.start(task_id=self.task, metadata={"keep": 1, "drop": 2, "change": 3})["id"]
        answer = self.assert_status(self.client.patch(f"/v1/sessions/{session}", {
            "title": "New", "alias": "name", "metadata": {"drop": None, "change": [4], "add": {"x": 1}}}), 200)
        self.assertEqual((answer["title"], answer["alias"], answer["metadata"]),
                         ("New", "name", {"keep": 1, "change": [4], "add": {"x": 1}}))
        self.restart()
        self.assertEqual(self.client.session(session)["metadata"], answer["metadata"])
        self.assertEqual(self.client.kinds(session), ["session.created", "session.updated"])

    def test_metadata_is_merged_at_every_depth(self):
        # RFC 7396
        session = self.client.start(metadata={"a": {"b": 1, "c": 2}, "l": [1, 2]})["id"]
        answer = self.client.patch(f"/v1/sessions/{session}", {
            "metadata": {"a": {"b": None, "d": {"e": None}}, "l": [3]}})
        self.assertEqual(answer["metadata"], {"a": {"c": 2, "d": {}}, "l": [3]})

    def test_what_is_not_named_stays(self):
        session = self.client.start(title="T", alias="a1", task_id=self.task)["id"]
        self.client.patch(f"/v1/sessions/{session}", {"metadata": {"x": 1}})
        view = self.client.session(session)
        self.assertEqual((view["title"], view["alias"]), ("T", "a1"))
        view = self.assert_status(self.client.patch(f"/v1/sessions/{session}", {"alias": None, "title": None}), 200)
        self.assertEqual((view["title"], view["alias"]), ("", None))

    def test_a_waiting_session_changes_and_waits_on(self):
        # design 1: innocent appends
        session = self.client.start("go")
        self.assert_status(self.client.patch(f"/v1/sessions/{session['id']}", {"title": "meanwhile"}), 200)
        self.assertEqual(self.client.session(session["id"])["status"], "waiting")
        self.client.result(session["pending"][0]["pending_id"], "r", wait="10s")
        self.assertEqual(self.client.last_words(session["id"]), "r")

    def test_an_alias_is_unique_within_its_task(self):
        one = self.client.start(task_id=self.task, alias="twin")["id"]
        elsewhere = self.client.start(task_id=self.task[:-1], alias="twin")["id"]
        other = self.client.start(task_id=self.task)["id"]
        with self.nothing_changes(other):
            self.assert_problem(self.client.patch(f"/v1/sessions/{other}", {"alias": "twin"}), 409, "alias_taken")
        self.assert_status(self.client.patch(f"/v1/sessions/{one}", {"alias": "twin"}), 200)  # its own
        self.assert_status(self.client.patch(f"/v1/sessions/{one}", {"alias": "free"}), 200)
        self.assert_status(self.client.patch(f"/v1/sessions/{other}", {"alias": "twin"}), 200)
        self.assertEqual(self.client.session(elsewhere)["alias"], "twin")

    def test_an_alias_that_is_taken_gets_a_number(self):
        self.client.start(task_id=self.task, alias="twin")
        answer = self.client.post("/v1/sessions", {"task_id": self.task, "alias": "twin"})
        self.assert_status(answer, 201)
        self.assertEqual(answer["alias"], "twin-2")
        longest = [self.client.start(task_id=self.task, alias="a" * 64)["alias"] for _ in range(3)]
        self.assertEqual(longest, ["a" * 64, "a" * 62 + "-2", "a" * 62 + "-3"])  # no longer than it may be

    def test_an_alias_that_races_has_one_owner(self):
        joins = [self.background(self.client.post, "/v1/sessions", {"task_id": self.task, "alias": "prize"})
                 for _ in range(6)]
        aliases = sorted(join()["alias"] for join in joins)
        self.assertEqual(aliases, ["prize"] + [f"prize-{n}" for n in range(2, 7)])

    @every([("status", {"status": "idle"}), ("agent", {"agent": "other"}), ("last_seq", {"last_seq": 1}),
            ("task", {"task_id": "t"}), ("title", {"title": 1}), ("alias", {"alias": "a b"}),
            ("metadata", {"metadata": []})])
    def test_nothing_else_can_be_changed(self, body):
        # T8: no read-only field ever changes
        session = self.client.start()["id"]
        with self.nothing_changes(session):
            self.assert_problem(self.client.patch(f"/v1/sessions/{session}", body), 400, "invalid_request")


class Deleting(SessionCase):
    @every([("new", None), ("idle", "hello"), ("waiting", "go"), ("running", "think")])
    def test_a_deleted_session_is_gone_everywhere(self, message):
        session = self.client.start(message, wait=None, task_id=self.task)["id"]
        if message == "go":
            self.client.wait_status(session, "waiting")
        answer = self.assert_status(self.client.delete(f"/v1/sessions/{session}"), 204)
        self.assertEqual(answer.body, b"")
        for restarted in (False, True):
            if restarted:
                self.restart()
            for path in ("", "/messages", "/log", "/status", "/explain", "/events"):
                self.assert_problem(self.client.get(f"/v1/sessions/{session}{path}"), 410, "session_gone")
            for path, body in (("/messages", {"content": "x"}), ("/cancel", {}), ("/resume", {"results": {}}),
                               ("/continue", {}), ("/extend", {"seconds": 5}), ("/fork", {}),
                               ("/compact", {"summary": "s"}), ("/resume-token", {})):
                self.assert_problem(self.client.post(f"/v1/sessions/{session}{path}", body), 410, "session_gone")
            self.assert_problem(self.client.patch(f"/v1/sessions/{session}", {"title": "x"}), 410, "session_gone")
            self.assert_problem(self.client.delete(f"/v1/sessions/{session}"), 410, "session_gone")
            self.assertEqual(self.client.get(f"/v1/sessions?task_id={self.task}")["items"], [])
            self.assertNotIn(session, [w["session_id"] for w in self.client.get("/v1/waits")["items"]])

    def test_its_files_go(self):
        session = self.client.start("go")["id"]
        self.client.delete(f"/v1/sessions/{session}")
        self.assertEqual(self.server.stop(), 0)
        left = [path.name for path in pathlib.Path(self.server.data).rglob("*") if session[5:] in path.name]
        self.assertEqual(left, [])

    def test_a_stream_of_a_deleted_session_ends(self):
        session = self.client.start("go")["id"]
        stream = self.stream(f"/v1/sessions/{session}/events")
        stream.wait_for("snapshot")
        self.client.delete(f"/v1/sessions/{session}")
        stream.wait_for("session.deleted")

    def test_whoever_waits_for_its_run_is_told_that_it_is_gone(self):
        session = self.client.start()["id"]
        answers = []
        join = self.background(lambda: answers.append(self.server.client().post(
            f"/v1/sessions/{session}/messages?wait=25s", {"content": "think"})))
        self.client.wait_status(session, "running")
        self.assert_status(self.client.delete(f"/v1/sessions/{session}"), 204)
        join()
        self.assert_problem(answers[0], 410, "session_gone")

    def test_its_alias_is_free_again(self):
        first = self.client.start(task_id=self.task, alias="again")["id"]
        self.client.delete(f"/v1/sessions/{first}")
        self.client.start(task_id=self.task, alias="again")


class Forking(SessionCase):
    def fork(self, session, **body):
        return self.client.post(f"/v1/sessions/{session}/fork", body)

    def test_a_fork_has_the_same_past_and_a_future_of_its_own(self):
        # design 4 Fork
        session = self.client.start("hello", title="T", alias="orig", task_id=self.task, metadata={"m": 1})["id"]
        answer = self.assert_status(self.fork(session), 201)
        fork = answer["id"]
        self.assertEqual(answer.headers["Location"], f"/v1/sessions/{fork}")
        self.assertNotEqual(fork, session)
        last = self.client.session(session)["last_seq"]
        self.assertEqual(answer["forked_from"], {"session_id": session, "at_seq": last})
        self.assertEqual((answer["title"], answer["alias"], answer["task_id"], answer["status"]),
                         ("T", None, self.task, "idle"))
        self.assertEqual(self.texts(fork), ["hello", "hello 1"])
        self.client.post(f"/v1/sessions/{fork}/messages?wait=10s", {"content": "hello"})
        self.assertEqual(self.texts(fork), ["hello", "hello 1", "hello", "hello 2"])
        self.assertEqual(self.texts(session), ["hello", "hello 1"])
        self.restart()
        self.assertEqual(self.texts(fork), ["hello", "hello 1", "hello", "hello 2"])

    def test_a_fork_of_a_waiting_session_does_not_wait(self):
        # S2-32
        session = self.client.start("go")
        pending = session["pending"][0]["pending_id"]
        with self.nothing_changes(session["id"]):
            fork = self.assert_status(self.fork(session["id"], title="Branch"), 201).json
        self.assertEqual((fork["title"], fork["status"], fork["pending"]), ("Branch", "idle", []))
        states = [p["state"]["status"] for e in self.client.transcript(fork["id"]) for p in e["parts"]]
        self.assertEqual(states, ["error"])
        kinds = self.client.kinds(fork["id"])
        self.assertFalse([k for k in kinds if k.startswith("token.") or k == "pending.created"], kinds)
        self.client.result(pending, "for the original", wait="10s")
        self.assertEqual(self.client.last_words(session["id"]), "for the original")
        self.assertNotIn("for the original", self.texts(fork["id"]))

    def test_a_fork_at_a_place(self):
        session = self.client.start("hello")["id"]
        at = self.client.session(session)["last_seq"]
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hello"})
        fork = self.assert_status(self.fork(session, at_seq=at), 201).json
        self.assertEqual(fork["forked_from"]["at_seq"], at)
        self.assertEqual(self.texts(fork["id"]), ["hello", "hello 1"])

    def test_a_fork_is_of_the_session_as_it_was_then(self):
        session = self.client.start("hello", title="old", metadata={"a": 1})["id"]
        at = self.client.session(session)["last_seq"]
        self.client.patch(f"/v1/sessions/{session}", {"title": "new", "metadata": {"a": 2, "b": 3}})
        for fork, want in ((self.fork(session), ("new", {"a": 2, "b": 3})),
                           (self.fork(session, at_seq=at), ("old", {"a": 1})),
                           (self.fork(session, title="mine"), ("mine", {"a": 2, "b": 3}))):
            self.assertEqual((fork["title"], fork["metadata"]), want)

    def test_a_fork_of_a_compacted_session_is_compacted(self):
        # The model is not shown again what it was spared.
        session = self.client.start("hello")["id"]
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hello"})
        at = self.client.session(session)["last_seq"]
        self.client.post(f"/v1/sessions/{session}/compact", {"summary": "They said hello.", "keep_last": 1})
        fork = self.fork(session)["id"]
        self.assertEqual(self.texts(fork), self.texts(session))
        said = [r["seq"] for r in self.client.log(fork) if r["kind"].startswith("message.")]
        shown = self.client.get(f"/v1/sessions/{fork}/messages")["compacted"]
        self.assertEqual((shown["summary"], shown["upto_seq"]), ("They said hello.", said[-2]))
        self.client.post(f"/v1/sessions/{fork}/messages?wait=10s", {"content": "hello"})
        self.restart()
        self.assertEqual(len(self.texts(fork)), 6)
        self.assertNotIn("session.compacted", self.client.kinds(self.fork(session, at_seq=at)["id"]))

    @every([("zero", 0), ("negative", -1), ("beyond", 10**6), ("a text", "3"), ("a fraction", 1.5)])
    def test_a_place_that_is_not_there_is_refused(self, at):
        session = self.client.start("hello", task_id=self.task)["id"]
        count = len(self.client.get(f"/v1/sessions?task_id={self.task}")["items"])
        self.assert_problem(self.fork(session, at_seq=at), 400, "invalid_request")
        self.assertEqual(len(self.client.get(f"/v1/sessions?task_id={self.task}")["items"]), count)


class Compacting(SessionCase):
    def compact(self, session, **body):
        return self.client.post(f"/v1/sessions/{session}/compact", body)

    def test_a_summary_takes_the_place_of_what_was_said(self):
        # design 4 Compact: nothing is removed
        session = self.client.start("hello")["id"]
        for _ in range(2):
            self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hello"})
        before = self.client.log(session)
        self.assert_status(self.compact(session, summary="They said hello.", keep_last=2), 200)
        self.assertEqual(self.client.log(session)[:-1], before)
        record = self.client.log(session)[-1]
        self.assertEqual((record["kind"], record["summary"]), ("session.compacted", "They said hello."))
        shown = self.client.get(f"/v1/sessions/{session}/messages")["compacted"]
        self.assertEqual(shown["summary"], "They said hello.")
        self.restart()
        answer = self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hello"})
        self.assertEqual(answer["outcome"]["status"], "completed")

    def test_a_waiting_session_is_not_compacted(self):
        # S2-25 S2-33
        session = self.client.start("go")["id"]
        with self.nothing_changes(session):
            self.assert_problem(self.compact(session, summary="s"), 409, "suspended_session")

    def test_a_summary_may_be_left_out(self):
        # api 2: {keep_last?, summary?}
        session = self.client.start("hello")["id"]
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hello"})
        self.assert_status(self.compact(session, keep_last=2), 200)

    @every([("negative", {"summary": "s", "keep_last": -1}), ("a text", {"summary": "s", "keep_last": "2"}),
            ("summary", {"summary": 1}), ("unknown", {"summary": "s", "model": "x"})])
    def test_malformed_requests_are_refused(self, body):
        session = self.client.start("hello")["id"]
        with self.nothing_changes(session):
            self.assert_problem(self.compact(session, **body), 400, "invalid_request")


class Listing(SessionCase):
    def ids(self, query):
        answer = self.assert_status(self.client.get("/v1/sessions?" + query), 200)
        return [s["id"] for s in answer["items"]]

    def test_filters(self):
        of_task = f"task_id={self.task}&"
        idle = self.client.start("hello", task_id=self.task)["id"]
        waiting = self.client.start("go", task_id=self.task, agent="other", alias="al")["id"]
        running = self.client.start("think", wait=None, task_id=self.task, external_id="ext/1")["id"]
        self.assertEqual(self.ids(of_task), [running, waiting, idle])  # newest first
        for query, want in (("status=idle", [idle]), ("status=waiting", [waiting]), ("status=running", [running]),
                            ("status=interrupted_startup", []), ("agent=other", [waiting]), ("alias=al", [waiting]),
                            ("external_id=ext/1", [running]), ("suspended=true", [waiting]),
                            ("suspended=false", [running, idle]), ("agent=other&suspended=false", []),
                            ("parent=sess_" + "0" * 26, [])):
            self.assertEqual(self.ids(of_task + query), want, query)
        self.restart(setup(recovery={"resume": "off"}))
        self.assertEqual(self.ids(of_task + "status=interrupted_startup"), [running])
        self.assertEqual(self.ids(of_task + "suspended=true"), [waiting])

    @every([("status", "status=lost"), ("suspended", "suspended=yes"), ("limit", "limit=0"), ("limit", "limit=501"),
            ("limit", "limit=-3"), ("limit", "limit=ten"), ("cursor", "cursor=nonsense"), ("cursor", "cursor=")])
    def test_malformed_filters_are_refused(self, query):
        self.assert_problem(self.client.get(f"/v1/sessions?{query}"), 400, "invalid_request")

    def test_pages_cover_everything_once(self):
        made = [self.client.start(task_id=self.task)["id"] for _ in range(7)]
        seen, cursor, pages = [], None, 0
        while pages == 0 or cursor:
            page = self.client.get(f"/v1/sessions?task_id={self.task}&limit=3"
                                   + (f"&cursor={cursor}" if cursor else "")).json
            self.assertLessEqual(len(page["items"]), 3)
            seen += [s["id"] for s in page["items"]]
            cursor, pages = page["next_cursor"], pages + 1
            if pages == 1:
                self.client.start(task_id=self.task)  # what is new does not disturb who reads on
        self.assertEqual(seen, made[::-1])
        self.assertEqual(pages, 3)

    def test_an_item_says_what_a_list_needs(self):
        self.client.start("go", task_id=self.task, title="T")
        item = self.client.get(f"/v1/sessions?task_id={self.task}")["items"][0]
        for field in ("id", "title", "agent", "task_id", "status", "created_at", "updated_at", "last_seq"):
            self.assertIn(field, item)
        self.assertEqual(item["status"], "waiting")


class Waits(SessionCase):
    def waits(self, query=""):
        return self.assert_status(self.client.get(f"/v1/waits?task_id={self.task}{query}"), 200).json

    def test_the_earliest_deadline_is_first(self):
        day = self.client.start("go", task_id=self.task, title="T", agent="other")
        soon = self.client.start("soon", task_id=self.task)["id"]
        self.client.start("hello", task_id=self.task)
        for restarted in (False, True):
            if restarted:
                self.restart()
            items = self.waits()["items"]
            self.assertEqual([w["session_id"] for w in items], [soon, day["id"]])
        wait = items[1]
        self.assertEqual({k: wait[k] for k in day["run"]["wait"]}, day["run"]["wait"])
        self.assertEqual((wait["title"], wait["agent"], wait["task_id"]), ("T", "other", self.task))
        self.assertEqual([c["pending_id"] for c in wait["pending"]], [day["pending"][0]["pending_id"]])

    def test_those_without_a_deadline_are_last(self):
        # docs/configuration.md: timeout = "never"
        always = self.client.start("always", task_id=self.task)["id"]
        day = self.client.start("go", task_id=self.task)["id"]
        items = self.waits()["items"]
        self.assertEqual([w["session_id"] for w in items], [day, always])
        self.assertIsNone(items[1]["deadline_at"])
        self.assertIsNone(items[1]["pending"][0]["expires_at"])

    def test_filters(self):
        job = self.client.start("go", task_id=self.task)["id"]
        ask = self.client.start("ask", task_id=self.task, agent="other")["id"]
        nap = self.client.start("nap", task_id=self.task)["id"]

        def ids(query):
            return {w["session_id"] for w in self.waits(query)["items"]}
        self.assertEqual(ids("&kind=external"), {job})
        self.assertEqual(ids("&kind=person"), {ask})
        self.assertEqual(ids("&kind=timer"), {nap})
        self.assertEqual(ids("&agent=other"), {ask})
        self.assertEqual(ids("&agent=other&kind=timer"), set())
        self.assert_problem(self.client.get("/v1/waits?kind=nothing"), 400, "invalid_request")

    def test_pages(self):
        made = {self.client.start(m, task_id=self.task)["id"] for m in ("go", "soon", "always", "always", "go")}
        seen, cursor = [], ""
        while cursor is not None:
            page = self.waits("&limit=2" + (f"&cursor={cursor}" if cursor else ""))
            seen += [w["session_id"] for w in page["items"]]
            cursor = page["next_cursor"]
        self.assertEqual((len(seen), set(seen)), (5, made))
        self.assert_problem(self.client.get("/v1/waits?cursor=nonsense"), 400, "invalid_request")

    def test_what_is_over_is_not_listed(self):
        session = self.client.start("go", task_id=self.task)
        self.client.result(session["pending"][0]["pending_id"], wait="10s")
        self.assertEqual(self.waits()["items"], [])


class Explaining(SessionCase):
    def explain(self, session):
        return self.assert_status(self.client.get(f"/v1/sessions/{session}/explain"), 200).json

    def test_why_it_waits_and_what_happens_when(self):
        session = self.client.start("soon")
        told = self.explain(session["id"])
        self.assertEqual((told["status"], told["wait"]["kind"]), ("waiting", "external"))
        self.assertTrue(told["reason"])
        # The wait's own deadline is behind that of its calls, and comes to nothing.
        self.assertEqual([d["at"] for d in told["deadlines"]], [session["pending"][0]["expires_at"]])
        self.assertIn("soon", told["deadlines"][0]["what"])
        self.assertEqual(told["concerns"], [])

    def test_what_woke_it_last(self):
        session = self.client.start("go")
        self.assertEqual(self.explain(session["id"])["last_wake"]["kind"], "run.started")
        self.client.result(session["pending"][0]["pending_id"], wait="10s")
        told = self.explain(session["id"])
        self.assertEqual((told["last_wake"]["kind"], told["last_wake"]["reason"]), ("run.resumed", "result"))
        self.assertEqual((told["status"], told["wait"], told["deadlines"]), ("idle", None, []))

    def test_what_changed_in_its_agent_since(self):
        session = self.client.start("go", agent="other")["id"]
        self.restart(setup(agents=("helper",), tools=TOOLS[1:], names=NAMES[1:]))
        concerns = " ".join(self.explain(session)["concerns"])
        self.assertIn("other", concerns)
        self.assertIn("job", concerns)

    def test_why_it_failed_and_why_it_stopped(self):
        failed = self.client.start("nobody wrote this")["id"]
        self.assertIn("the script has no entry", self.explain(failed)["reason"])
        running = self.client.start("think", wait=None)["id"]
        self.restart(setup(recovery={"resume": "off"}))
        told = self.explain(running)
        self.assertEqual((told["status"], told["interruption"]["reason"]), ("interrupted_startup", "process_restart"))
        self.assertIn("continue", told["reason"])


class Status(SessionCase):
    def test_the_boards_vocabulary(self):
        # S1-68 S1-69 S1-70 S1-71 S1-72 S1-73 S1-74 S1-75
        session = self.client.start("go", task_id=self.task)["id"]
        status = self.assert_status(self.client.get(f"/v1/sessions/{session}/status"), 200).json
        self.assertEqual((status["session_id"], status["task_id"], status["state"]),
                         (session, self.task, "WAITING_FOR_INPUT"))
        self.assertEqual((status["is_agent_running"], status["is_resumable"], status["needs_resume"],
                          status["resume_reason"]), (False, False, False, "not_resumable"))
        for field in ("executor_status", "agent_execution_id", "runtime", "worktree_path", "worktree_branch"):
            self.assertIsNone(status[field], field)
        self.assertIn("agent_profile_id", status)

    def test_the_other_vocabularies(self):
        session = self.client.start("go", task_id=self.task)["id"]
        status = self.client.get(f"/v1/sessions/{session}/status").json
        view = self.client.session(session)
        self.assertEqual((status["status"], status["activity"], status["seq"]),
                         ("waiting", view["activity"], view["last_seq"]))

    def test_every_door_shows_the_same_status(self):
        # S3-54
        def check(session, status):
            self.assertEqual(self.client.session(session)["status"], status)
            self.assertEqual(self.client.get(f"/v1/sessions/{session}/status")["status"], status)
            self.assertEqual(self.client.get(f"/v1/sessions/{session}/explain")["status"], status)
            snapshot = self.stream(f"/v1/sessions/{session}/events").wait_for("snapshot")[0]
            self.assertEqual(snapshot.data["status"], status)
            listed = self.client.get(f"/v1/sessions?task_id={self.task}")["items"]
            self.assertEqual([s["status"] for s in listed if s["id"] == session], [status])
            filtered = self.client.get(f"/v1/sessions?task_id={self.task}&status={status}")["items"]
            self.assertIn(session, [s["id"] for s in filtered])
        idle, waiting = (self.client.start(message, task_id=self.task)["id"] for message in ("hello", "go"))
        running = self.client.start("think", wait=None, task_id=self.task)["id"]
        for session, status in ((idle, "idle"), (waiting, "waiting"), (running, "running")):
            check(session, status)
        self.restart(setup(recovery={"resume": "off"}))
        for session, status in ((idle, "idle"), (waiting, "waiting"), (running, "interrupted_startup")):
            check(session, status)

    def test_a_running_agent(self):
        session = self.client.start("think", wait=None)["id"]
        status = self.client.get(f"/v1/sessions/{session}/status").json
        self.assertEqual((status["state"], status["is_agent_running"], status["activity"]),
                         ("RUNNING", True, {"type": "busy"}))

    def test_the_session_must_be_of_the_task(self):
        # S1-68 S1-91
        session = self.client.start(task_id=self.task)["id"]
        path = f"/v1/tasks/{self.task}/sessions/{session}/status"
        self.assertEqual(self.assert_status(self.client.get(path), 200)["session_id"], session)
        self.assert_problem(self.client.get(f"/v1/tasks/another/sessions/{session}/status"), 404, "session_not_in_task")
        self.assert_problem(self.client.get(f"/v1/tasks/{self.task}/sessions/sess_{'0' * 26}/status"),
                            404, "session_not_in_task")


class Log(SessionCase):
    def test_records_come_oldest_first_in_pages(self):
        session = self.client.start("go")["id"]
        last = self.client.session(session)["last_seq"]
        self.assertEqual([r["seq"] for r in self.client.log(session)], list(range(1, last + 1)))
        page = self.client.get(f"/v1/sessions/{session}/log?from_seq=3&limit=2").json
        self.assertEqual([r["seq"] for r in page["items"]], [3, 4])
        self.assertEqual(page["next_seq"], 5)
        page = self.client.get(f"/v1/sessions/{session}/log?from_seq=5").json
        self.assertEqual([r["seq"] for r in page["items"]], list(range(5, last + 1)))
        self.assertIsNone(page["next_seq"])
        page = self.client.get(f"/v1/sessions/{session}/log?from_seq=0&limit=2").json
        self.assertEqual(([r["seq"] for r in page["items"]], page["next_seq"]), ([1, 2], 3))
        self.assertEqual(self.client.get(f"/v1/sessions/{session}/log?from_seq=999")["items"], [])
        for query in ("from_seq=-1", "from_seq=x", "limit=0", "limit=x"):
            self.assert_problem(self.client.get(f"/v1/sessions/{session}/log?{query}"), 400, "invalid_request")

    def test_the_lines_are_as_stored_and_chained(self):
        # W13, docs/log_format.md
        session = self.client.start("go")["id"]
        answer = self.client.get(f"/v1/sessions/{session}/log", headers={"Accept": "application/x-ndjson"})
        self.assertEqual(self.assert_status(answer, 200).headers["Content-Type"], "application/x-ndjson")
        chain = hashlib.sha256(session.encode()).hexdigest()[:32]
        for number, line in enumerate(answer.body.decode().splitlines(), 1):
            record = json.loads(line)
            self.assertEqual(list(record)[:3], ["seq", "ts", "kind"])
            self.assertEqual(record["seq"], number)
            chain = hashlib.sha256((chain + line[:line.rindex(',"chain"')]).encode()).hexdigest()[:32]
            self.assertEqual(record["chain"], chain)
        self.assertEqual(self.server.stop(), 0)
        self.assertEqual((self.server.data / f"sessions/{session}.messages.jsonl").read_bytes(), answer.body)

    def test_a_resumed_turn_is_one_turn_of_the_transcript(self):
        # S2-40
        session = self.client.start("go")
        self.client.result(session["pending"][0]["pending_id"], "r", wait="10s")
        entries = self.client.transcript(session["id"])
        self.assertEqual([(e["role"], len(e["parts"])) for e in entries],
                         [("user", 0), ("assistant", 1), ("assistant", 0)])
        self.assertEqual(entries[1]["content"][-1]["type"], "tool_use")

    def test_the_view_is_the_same_after_kill_9(self):
        # P9 W14: everything is a fold over the log
        sessions = [self.client.start(m)["id"] for m in ("hello", "go", "ask", "always", "nobody knows")]
        self.client.post(f"/v1/sessions/{sessions[1]}/resume", {"results": {"call_j": {"content": "r"}}})
        self.client.wait_status(sessions[1], "idle")

        def views():
            return [[self.client.get(f"/v1/sessions/{s}{path}").json for path in ("", "/messages", "/log", "/status")]
                    for s in sessions]
        before = views()
        self.restart()
        self.assertEqual(views(), before)
        self.server.stop()
        self.server.start()
        self.client = self.server.client()
        self.assertEqual(views(), before)


class Catalogue(SessionCase):
    def test_agents_tools_and_models(self):
        agents = {a["name"]: a for a in self.client.get("/v1/agents")["items"]}
        self.assertEqual(set(agents), {"helper", "other"})
        self.assertEqual(agents["helper"]["tools"], NAMES)
        tools = {t["name"]: t for t in self.client.get("/v1/tools")["items"]}
        self.assertLessEqual(set(NAMES), set(tools))
        self.assertEqual((tools["job"]["kind"], tools["ask_user"]["kind"]), ("external", "built-in"))
        self.assertEqual(len(self.client.get("/v1/models")["items"]), 2)

    def test_tasks(self):
        # api 4
        made = self.assert_status(self.client.post("/v1/tasks", {"id": self.task, "title": "T"}), 201)
        self.assertEqual((made["id"], made["title"], made["state"], made["sessions"]), (self.task, "T", "TODO", []))
        self.assertEqual(made.headers["Location"], f"/v1/tasks/{self.task}")
        session = self.client.start(task_id=self.task)["id"]
        changed = self.assert_status(self.client.patch(f"/v1/tasks/{self.task}", {"state": "IN_PROGRESS"}), 200)
        self.assertEqual((changed["state"], changed["title"]), ("IN_PROGRESS", "T"))
        self.restart()
        task = self.assert_status(self.client.get(f"/v1/tasks/{self.task}"), 200)
        self.assertEqual((task["state"], task["sessions"]), ("IN_PROGRESS", [session]))
        self.assertIn(self.task, [t["id"] for t in self.client.get("/v1/tasks")["items"]])
        self.assertEqual(self.client.post("/v1/tasks", {"id": self.task}).status, 409)
        for body in ({"state": "LATER"}, {"id": "other"}, {"sessions": []}):
            self.assert_problem(self.client.patch(f"/v1/tasks/{self.task}", body), 400, "invalid_request")
        self.assert_problem(self.client.get("/v1/tasks/none"), 404, "not_found")
        self.assert_problem(self.client.post("/v1/tasks", {"id": "../x"}), 400, "invalid_request")


class WithoutAnyConfiguration(kit.Case):
    setup = None

    def test_a_newcomer_sees_a_suspend_and_a_resume(self):
        # api 6: the demo
        session = self.client.start("Deploy main")
        self.assertEqual((session["agent"], session["outcome"]["status"]), ("demo", "suspended"))
        self.assertEqual(session["pending"][0]["tool"], "deploy_preview")
        self.restart()
        self.client.result(session["pending"][0]["pending_id"], "https://preview.example", wait="10s")
        self.assertIn("https://preview.example", self.client.last_words(session["id"]))
