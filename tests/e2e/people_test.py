"""Calls that wait for a person or for a time: approval, ask_user, wait_until."""

import datetime
import json
import pathlib
import shutil
import tempfile

import kit
from kit import calls, every, on_result, on_user, says

ASK = {"question": "Ship it?", "type": "confirm"}


def rfc3339(seconds_from_now):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds_from_now)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class PeopleCase(kit.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="rouse-e2e-"))

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.place, ignore_errors=True)

    @classmethod
    def make_setup(cls):
        run = ["/bin/sh", "-c", f"echo run >> {cls.place}/runs; cat"]
        script = [
            on_user("drop", calls(("drop", {"table": "users", "n": 1.50}, "call_d"))),
            on_user("also", calls(("drop", {"table": "a"}, "call_d"), ("job", {}, "call_j"))),
            on_user("ask", calls(("ask_user", ASK, "call_a"))),
            on_user("choose", calls(("ask_user", {"question": "Which?", "type": "select", "options": ["a", "b"]}))),
            on_user("wrongly", calls(("ask_user", {"question": "Which?", "type": "select"}))),
            on_user("nap", calls(("wait_until", {"seconds": 0.3}))),
            on_user("sleep", calls(("wait_until", {"seconds": 600}))),
            on_user("past", calls(("wait_until", {"at": "2001-01-01T00:00:00Z"}))),
            on_user("neither", calls(("wait_until", {}))),
            on_user("never", calls(("wait_until", {"at": "tomorrow"}))),
            *[on_result(t, says("{{result}}")) for t in ("drop", "job", "ask_user", "wait_until")],
            says("hello", repeat=True),
        ]
        parameters = {"type": "object", "required": ["table"], "properties": {"table": {"type": "string"}}}
        return kit.Setup(
            agents=[{"name": "helper", "script": script, "tools": ["drop", "job", "ask_user", "wait_until"]}],
            tools=[{"name": "drop", "kind": "exec", "command": run, "approval": "always", "parameters": parameters,
                    "destructive": True},
                   {"name": "job", "kind": "external"}])

    def setUp(self):
        (self.place / "runs").unlink(missing_ok=True)
        super().setUp()

    def runs(self):
        path = self.place / "runs"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def suspend(self, message):
        session = self.client.start(message)
        self.assertEqual(session["outcome"]["status"], "suspended", session)
        return session["id"], session["pending"][0]

    def decide(self, call, decision, client=None, **more):
        return (client or self.client).post(f"/v1/pending/{call['pending_id']}/decision",
                                            {"decision": decision, **more})

    def words(self, session):
        self.client.wait_status(session, "idle")
        return self.client.last_words(session)


class Approval(PeopleCase):
    def test_the_call_parks_before_it_runs(self):
        # design 6 Approval
        session, call = self.suspend("drop")
        self.assertEqual((call["waits_for"], call["reason"], call["status"]),
                         ("person", "approval_required", "waiting"))
        self.assertEqual(call["input"], {"table": "users", "n": 1.5})
        self.assertTrue(call["input_digest"])
        self.assertEqual(self.client.session(session)["run"]["wait"]["kind"], "person")
        self.restart()
        self.assertEqual((self.client.session(session)["status"], self.runs()), ("waiting", 0))

    def test_approve_runs_it_with_the_exact_input(self):
        session, call = self.suspend("drop")
        self.restart()
        answer = self.assert_status(self.decide(call, "approve", input_digest=call["input_digest"]), 202)
        self.assertEqual(answer["run_id"], self.client.session(session)["run"]["run_id"])
        self.assertEqual(self.words(session), '{"table":"users","n":1.5}')
        self.assertEqual(self.runs(), 1)
        approved = [r for r in self.client.log(session) if r["kind"] == "pending.approved"]
        self.assertEqual([(r["input_digest"], "input" in r) for r in approved], [(call["input_digest"], False)])

    def test_approve_with_edited_input_runs_that(self):
        session, call = self.suspend("drop")
        self.assert_status(self.decide(call, "approve", input={"table": "logs"}), 202)
        self.assertEqual(json.loads(self.words(session)), {"table": "logs"})
        approved = [r for r in self.client.log(session) if r["kind"] == "pending.approved"]
        self.assertEqual(approved[0]["input"], {"table": "logs"})
        self.assertNotEqual(approved[0]["input_digest"], call["input_digest"])

    def test_edited_input_must_fit_the_tool(self):
        session, call = self.suspend("drop")
        for wrong in ({"table": 17}, {}):
            with self.nothing_changes(session):
                refused = self.assert_problem(self.decide(call, "approve", input=wrong), 400, "invalid_request")
                self.assertEqual(refused["field"], "/input")
        self.assertEqual(self.runs(), 0)
        self.assert_status(self.decide(call, "approve", input={"table": "logs"}), 202)  # it still waits
        self.assertEqual(json.loads(self.words(session)), {"table": "logs"})

    def test_deny_gives_the_model_the_message(self):
        session, call = self.suspend("drop")
        self.assert_status(self.decide(call, "deny", message="not on a Friday"), 202)
        self.assertIn("not on a Friday", self.words(session))
        self.assertEqual(self.runs(), 0)
        part = [p for e in self.client.transcript(session) for p in e["parts"]][0]
        self.assertEqual(part["state"]["status"], "error")

    def test_an_approval_is_bound_to_the_input(self):
        session, call = self.suspend("drop")
        with self.nothing_changes(session):
            self.assert_problem(self.decide(call, "approve", input_digest="0" * 64), 409, "digest_mismatch")
        self.assertEqual(self.runs(), 0)

    @every([("approve", "approve", "deny"), ("deny", "deny", "approve")])
    def test_a_decision_is_made_once(self, first, second):
        session, call = self.suspend("drop")
        before = self.runs()
        self.assert_status(self.decide(call, first), 202)
        self.client.wait_status(session, "idle")
        ran = self.runs()
        for restarted in (False, True):
            if restarted:
                self.restart()
            with self.nothing_changes(session):
                again = self.decide(call, first)
                self.assertIs(self.assert_status(again, 202).get("duplicate"), True)
                self.assert_problem(self.decide(call, second), 409, "conflicting_result")
        self.assertEqual(self.runs(), ran)
        self.assertEqual(ran - before, 1 if first == "approve" else 0)

    def test_it_takes_operate(self):
        # T25: a person's scope
        session, call = self.suspend("drop")
        with self.nothing_changes(session):
            self.assert_problem(self.decide(call, "approve", client=self.token("submit")), 403, "forbidden")
            self.assert_problem(self.decide(call, "approve", client=self.server.client(None)), 401, "unauthorized")
            self.assert_problem(self.server.client(None).result(call["pending_id"]), 401, "unauthorized")
        self.assert_status(self.decide(call, "approve", client=self.token("operate")), 202)

    def test_a_result_does_not_replace_a_decision(self):
        session, call = self.suspend("drop")
        with self.nothing_changes(session):
            self.assert_problem(self.client.result(call["pending_id"], "I say it ran"), 409, "decision_required")
            self.assert_problem(self.client.post(f"/v1/sessions/{session}/resume", {
                "results": {"call_d": {"content": "x"}}}), 409, "decision_required")

    def test_a_call_that_asks_for_nothing_takes_no_decision(self):
        session = self.client.start("also")
        job = [c for c in session["pending"] if c["call_id"] == "call_j"][0]
        with self.nothing_changes(session["id"]):
            answer = self.decide(job, "approve")
            self.assertEqual(answer.status, 409)
            self.assertNotEqual(answer.code, "not_waiting")

    def test_an_approved_call_runs_once_its_batch_can_go_on(self):
        session = self.client.start("also")
        calls_by_id = {c["call_id"]: c for c in session["pending"]}
        self.assert_status(self.decide(calls_by_id["call_d"], "approve"), 202)
        self.assertEqual((self.client.session(session["id"])["status"], self.runs()), ("waiting", 0))
        self.restart()
        self.client.result(calls_by_id["call_j"]["pending_id"], "j", wait="10s")
        self.client.wait_status(session["id"], "idle")
        self.assertEqual(self.runs(), 1)
        parts = {p["call_id"]: p["state"] for e in self.client.transcript(session["id"]) for p in e["parts"]}
        self.assertEqual((parts["call_d"]["status"], parts["call_j"]["output"]), ("completed", "j"))

    def test_a_crash_right_after_the_approval_never_runs_it_twice(self):
        # P4 P8
        for _ in range(4):
            before = self.runs()
            session, call = self.suspend("drop")
            self.assert_status(self.decide(call, "approve"), 202)
            self.restart()
            self.client.wait_status(session, "idle")
            self.assertLessEqual(self.runs() - before, 1)
            if self.runs() == before:
                self.assertIn("unknown", self.client.last_words(session))

    def test_nobody_decides_in_time(self):
        # S0-79, design 7 Time: a call's timeout is 24 h by default
        session, call = self.suspend("drop")
        self.assertTrue(call["expires_at"])
        self.assert_status(self.client.post(f"/v1/sessions/{session}/extend", {"deadline_at": rfc3339(0.3)}), 200)
        self.assertEqual(self.words(session), "Tool execution timed out")
        self.assert_problem(self.decide(call, "approve"), 410, "not_waiting")
        self.assertEqual(self.runs(), 0)

    @every([("cancelled", "delete"), ("cancelled with its run", "cancel")])
    def test_what_closes_the_call_keeps_it_from_running(self, how):
        session, call = self.suspend("drop")
        if how == "delete":
            self.client.delete(f"/async-tool/pending/{call['pending_id']}")
        else:
            self.client.post(f"/v1/sessions/{session}/cancel")
        self.client.wait_status(session, "idle")
        self.assert_problem(self.decide(call, "approve"), 410, "not_waiting")
        self.assertEqual(self.runs(), 0)

    def test_a_decision_that_comes_turns_later_is_late(self):
        # design 7 Again: superseded is 410
        session, call = self.suspend("drop")
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hello"})
        self.assertEqual(self.runs(), 0)
        self.assert_problem(self.decide(call, "approve"), 410, "not_waiting")

    def test_a_decision_that_comes_again_turns_later_is_a_duplicate(self):
        # design 7 Again: for as long as the log exists
        session, call = self.suspend("drop")
        first = self.decide(call, "approve")
        self.client.wait_status(session, "idle")
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "drop"})  # another run waits
        with self.nothing_changes(session):
            again = self.assert_status(self.decide(call, "approve"), 202)
            self.assertEqual(again.json, {**first.json, "duplicate": True})
            self.assert_problem(self.decide(call, "deny"), 409, "conflicting_result")

    @every([("no decision", {}), ("another word", {"decision": "maybe"}), ("a flag", {"decision": True}),
            ("input is text", {"decision": "approve", "input": "x"}),
            ("unknown field", {"decision": "approve", "scope": "admin"})])
    def test_malformed_decisions_are_refused(self, body):
        session, call = self.suspend("drop")
        with self.nothing_changes(session):
            self.assert_problem(self.client.post(f"/v1/pending/{call['pending_id']}/decision", body),
                                400, "invalid_request")


class Questions(PeopleCase):
    def test_a_question_waits_for_a_person_and_its_answer(self):
        # S2-92 S2-93
        session, call = self.suspend("ask")
        self.assertEqual((call["waits_for"], call["prompt"], call["metadata"]),
                         ("person", "Ship it?", {"type": "confirm"}))
        self.assertEqual(call["input"], ASK)
        self.restart()
        answer = json.dumps({"answer": "yes", "confirmed": True})
        with self.nothing_changes(session):
            self.assert_problem(self.token("submit").result(call["pending_id"], answer), 403, "forbidden")
            self.assert_problem(self.server.client(None).result(call["pending_id"], answer), 401, "unauthorized")
        self.assert_status(self.token("operate").result(call["pending_id"], answer), 200)
        self.assertEqual(self.words(session), answer)

    def test_it_is_answered_by_resume_too(self):
        session, call = self.suspend("choose")
        self.assertEqual(call["metadata"]["type"], "select")
        self.assert_status(self.client.post(f"/v1/sessions/{session}/resume", {
            "results": {call["call_id"]: {"content": '{"answer":"b"}'}}}), 202)
        self.assertEqual(self.words(session), '{"answer":"b"}')

    def test_a_question_that_is_wrong_is_an_error_to_the_model(self):
        session = self.client.start("wrongly")
        self.assertEqual(session["outcome"]["status"], "completed")
        self.assertIn("options", self.client.last_words(session["id"]))

    def test_workers_do_not_get_it(self):
        session, call = self.suspend("ask")
        taken = self.client.post("/async-tool/claim", {"worker": "w", "tools": ["ask_user"]})
        self.assertEqual(self.assert_status(taken, 200)["pending"], [])
        self.assert_problem(self.client.post(f"/async-tool/pending/{call['pending_id']}/claim", {"worker": "w"}),
                            403, "forbidden")


    def test_nobody_answers_in_time(self):
        # S0-79, design 7 Time
        session, call = self.suspend("ask")
        self.assertTrue(call["expires_at"])
        self.assert_status(self.client.post(f"/v1/sessions/{session}/extend", {"deadline_at": rfc3339(0.3)}), 200)
        self.assertEqual(self.words(session), "Tool execution timed out")


class Timers(PeopleCase):
    def test_a_timer_goes_on_when_its_time_has_come(self):
        session, call = self.suspend("nap")
        self.assertEqual(call["waits_for"], "timer")
        self.assertEqual(self.client.session(session)["run"]["wait"]["kind"], "timer")
        self.assertIn("It is ", self.words(session))
        part = [p for e in self.client.transcript(session) for p in e["parts"]][0]
        self.assertEqual(part["state"]["status"], "completed", "a timer that is over is no failure")

    def test_a_timer_outlives_the_server(self):
        session, call = self.suspend("nap")
        self.restart()
        self.assertIn("It is ", self.words(session))

    def test_a_timer_that_ended_while_the_server_was_down(self):
        session, call = self.suspend("nap")
        self.server.kill()
        kit.wait_until(lambda: rfc3339(0) > call["expires_at"], "the timer to pass")
        self.server.start()
        self.client = self.server.client()
        self.assertIn("It is ", self.words(session))
        kinds = self.client.kinds(session)
        self.assertEqual((kinds.count("run.resumed"), kinds.count("run.interrupted")), (1, 0))

    def test_a_time_that_has_passed_does_not_wait(self):
        session = self.client.start("past")
        self.assertEqual(session["outcome"]["status"], "completed")
        self.assertNotIn("run.waiting", self.client.kinds(session["id"]))

    @every([("neither", "neither"), ("no time", "never")])
    def test_a_wrong_time_is_an_error_to_the_model(self, message):
        session = self.client.start(message)
        self.assertEqual(session["outcome"]["status"], "completed")
        part = [p for e in self.client.transcript(session["id"]) for p in e["parts"]][0]
        self.assertEqual(part["state"]["status"], "error")

    def test_a_timer_can_be_cancelled(self):
        session, call = self.suspend("sleep")
        self.assert_status(self.client.delete(f"/async-tool/pending/{call['pending_id']}"), 200)
        self.assertEqual(self.words(session), "Cancelled by user")
