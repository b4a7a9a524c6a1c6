"""What a turn does over HTTP: batches, wrong inputs, budgets, models that fail, sessions that grow old."""

import pathlib
import shutil
import tempfile

import kit
from kit import calls, every, on_result, on_user, says


class Turns(kit.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="rouse-e2e-"))

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.place, ignore_errors=True)

    @classmethod
    def make_setup(cls, **sections):
        script = [
            on_user("batch", calls(("note", {"n": 1}, "call_1"), ("job", {}, "call_2"), ("note", {"n": 3}, "call_3"),
                                   ("job", {}, "call_4"))),
            on_user("wrongly", calls(("note", {"n": "one"}, "call_w"))),
            on_user("nothing", calls(("no_such_tool", {}, "call_n"))),
            on_user("fail", calls(("fail", {}, "call_f"))),
            on_user("twice", calls(("job", {}, "call_a"), say="First."), repeat=False),
            on_user("endless", calls("quick")),
            on_user("overloaded", {"error": {"status": 529}, "delay_ms": 300}),
            on_user("again", calls(("job", {}, "call_x"))),
            on_user("hello", says("hello")),
            {"when": {"tool_result": "job"}, "call": [{"tool": "job", "input": {"second": True}, "id": "call_b"}]},
            on_result("quick", calls("quick")),
            *[on_result(t, says("{{result}}")) for t in ("note", "job", "fail")],
            on_result("no_such_tool", says("{{result}}")),
        ]
        notes = f"read line; echo \"$line\" >> {cls.place}/notes; echo noted"
        number = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
        names = ["note", "job", "fail", "quick"]
        return kit.Setup(
            agents=[{"name": "helper", "script": script, "tools": names, "retries": 0},
                    {"name": "orderly", "script": script, "tools": names, "parallel": False},
                    {"name": "brief", "script": script, "tools": names, "max_iterations": 3}],
            tools=[{"name": "note", "kind": "exec", "command": ["/bin/sh", "-c", notes], "parameters": number},
                   {"name": "fail", "kind": "exec", "command": ["/bin/sh", "-c", "echo bad luck >&2; exit 3"]},
                   {"name": "quick", "kind": "exec", "command": ["/bin/true"], "read_only": True},
                   {"name": "job", "kind": "external"}], **sections)

    def setUp(self):
        (self.place / "notes").unlink(missing_ok=True)
        super().setUp()

    def notes(self):
        path = self.place / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def parts(self, session):
        return [(p["call_id"], p["state"]["status"]) for e in self.client.transcript(session) for p in e["parts"]]

    def test_a_parallel_batch_drains_its_siblings(self):
        # S2-42 S2-45
        session = self.client.start("batch")
        self.assertEqual([c["call_id"] for c in session["pending"]], ["call_2", "call_4"])
        self.assertEqual(sorted(self.notes()), ['{"n":1}', '{"n":3}'])
        self.assertEqual(self.parts(session["id"]), [("call_1", "completed"), ("call_2", "waiting_async"),
                                                     ("call_3", "completed"), ("call_4", "waiting_async")])

    def test_a_sequential_batch_stops_at_the_first_that_waits(self):
        # S2-43 S2-49: the rest runs on resume, before the next model call, over a kill -9
        session = self.client.start("batch", agent="orderly")
        self.assertEqual([c["call_id"] for c in session["pending"]], ["call_2"])
        self.assertEqual(self.notes(), ['{"n":1}'])
        self.restart()
        answer = self.client.result(session["pending"][0]["pending_id"], "r", wait="10s")
        self.assertEqual(answer["outcome"]["status"], "suspended")
        self.assertEqual(self.notes(), ['{"n":1}', '{"n":3}'])
        view = self.client.session(session["id"])
        self.assertEqual([c["call_id"] for c in view["pending"]], ["call_4"])
        self.client.result(view["pending"][0]["pending_id"], "r4")
        self.client.wait_kind(session["id"], "message.assistant", 2)
        self.assertEqual(self.notes(), ['{"n":1}', '{"n":3}'])

    def test_suspend_resume_suspend_in_one_turn(self):
        # S2-48: each wait has a token of its own
        session = self.client.start("twice")
        first = session["outcome"]["suspension"]["resume_token"]
        answer = self.client.post(f"/v1/sessions/{session['id']}/resume?wait=10s",
                                  {"token": first, "results": {"call_a": {"content": "one"}}})
        outcome = self.assert_status(answer, 200)["outcome"]
        self.assertEqual((outcome["status"], [c["id"] for c in outcome["suspension"]["pending_tool_calls"]]),
                         ("suspended", ["call_b"]))
        second = outcome["suspension"]["resume_token"]
        self.assertNotEqual(first, second)
        self.assertEqual(outcome["run_id"], session["run_id"], "a run keeps its id over any number of waits")
        self.restart()
        with self.nothing_changes(session["id"]):
            self.assert_problem(self.client.post(f"/v1/sessions/{session['id']}/resume",
                                                 {"token": first, "results": {"call_b": {"content": "x"}}}),
                                409, "conflicting_result")
        self.client.post(f"/v1/sessions/{session['id']}/resume?wait=10s",
                         {"token": second, "results": {"call_b": {"content": "two"}}})
        self.assertEqual(self.client.last_words(session["id"]), "two")
        kinds = self.client.kinds(session["id"])
        self.assertEqual([kinds.count(k) for k in ("run.started", "run.waiting", "run.resumed", "run.completed")],
                         [1, 2, 2, 1])

    def test_a_wrong_input_is_an_error_to_the_model(self):
        session = self.client.start("wrongly")
        self.assertEqual((session["outcome"]["status"], self.notes()), ("completed", []))
        self.assertEqual(self.parts(session["id"]), [("call_w", "error")])

    def test_an_unknown_tool_is_an_error_to_the_model(self):
        session = self.client.start("nothing")
        self.assertEqual(session["outcome"]["status"], "completed")
        self.assertIn("no_such_tool", self.client.last_words(session["id"]))

    def test_a_program_that_fails_is_an_error_to_the_model(self):
        session = self.client.start("fail")
        self.assertIn("bad luck", self.client.last_words(session["id"]))
        self.assertEqual(self.parts(session["id"]), [("call_f", "error")])

    def test_a_turn_beyond_its_budget_waits_for_a_person(self):
        # design 2: a wait without calls is user_input (budget, unknown outcome); design 7: a message is the answer
        session = self.client.start("endless", agent="brief")
        self.assertEqual(session["status"], "waiting")
        self.assertEqual(session["run"]["wait"]["kind"], "user_input")
        self.assertIn("3 model calls", session["run"]["wait"]["prompt"])
        self.assertEqual(self.client.kinds(session["id"]).count("message.assistant"), 3)
        answer = self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "go on"})
        self.assertEqual(answer["outcome"]["status"], "suspended", answer)
        self.assertEqual(self.client.kinds(session["id"]).count("message.assistant"), 6)

    @every([("by its timer", False), ("while the server is down", True)])
    def test_a_wait_without_calls_whose_deadline_passes_is_interrupted(self, down):
        # S3-03 S3-32 S3-40 S3-47 S3-50 S3-51 S3-53 S3-62 S3-74
        session = self.client.start("endless", agent="brief")
        door, token = f"/v1/sessions/{session['id']}", session["outcome"]["suspension"]["resume_token"]
        wait = self.assert_status(self.client.post(f"{door}/extend", {"seconds": 1}), 200)
        if down:
            self.server.kill()
            kit.wait_until(lambda: kit.now_ms() > kit.to_ms(wait["deadline_at"]), "the wait's time to pass")
            self.server.start()
            self.client = self.server.client()
        else:
            self.client.wait_kind(session["id"], "status.derived")
        view = self.client.session(session["id"])
        self.assertEqual(view["status"], "interrupted_waiting")
        interruption = view["recovery"]["interruption"]
        self.assertEqual((interruption["run_id"], interruption["reason"], interruption["while"]),
                         (session["run_id"], "wait_timeout", "waiting"))
        log = self.client.log(session["id"])
        self.assertEqual([r["kind"] for r in log[-3:]], ["token.expired", "run.interrupted", "status.derived"])
        self.assertEqual(log[-1]["status"], "interrupted_waiting")
        self.restart()
        with self.nothing_changes(session["id"]):
            self.assertEqual(self.client.session(session["id"])["status"], "interrupted_waiting")
            answer = self.client.post(f"{door}/resume", {"token": token, "input": "go on"})
            self.assert_problem(answer, 410, "token_expired")
        answer = self.client.post(f"{door}/messages?wait=10s", {"content": "hello"})
        self.assertEqual(answer["outcome"]["status"], "completed")
        self.assertEqual(self.client.session(session["id"])["status"], "idle")

    def test_a_model_that_fails_fails_the_run_and_what_was_queued_follows(self):
        session = self.client.start("overloaded", wait=None)["id"]
        self.client.post(f"/v1/sessions/{session}/messages", {"content": "hello"})
        self.client.wait_kind(session, "run.failed")
        self.client.wait_kind(session, "run.started", 2)
        kit.wait_until(lambda: self.client.session(session)["status"] == "idle", "both runs to end")


class Retention(kit.Case):
    setup = kit.Setup(agents=[{"name": "helper", "tools": ["job"], "script": [
        on_user("hello", says("hello")), on_user("go", calls("job"))]}],
        tools=[{"name": "job", "kind": "external"}], retention={"finished_after": "300ms"})

    def test_a_session_that_is_idle_for_so_long_is_deleted(self):
        # docs/configuration.md
        session = self.client.start("hello")["id"]
        kit.wait_until(lambda: self.client.get(f"/v1/sessions/{session}").status == 410, "it to be deleted", patience=3)

    def test_a_session_that_waits_is_not(self):
        waiting = self.client.start("go")["id"]
        idle = self.client.start("hello")["id"]
        self.assertEqual(self.client.session(waiting)["status"], "waiting")
        self.assertIn(self.client.get(f"/v1/sessions/{idle}").status, (200, 410))
