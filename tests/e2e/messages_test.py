"""Messages to sessions that run or wait, cancelling, and moving deadlines."""

import datetime
import os
import pathlib
import shutil
import tempfile

import kit
from kit import calls, every, on_result, on_user, says


KEY = {"Idempotency-Key": "queued"}


def later(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class MessageCase(kit.Case):
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
            on_user("number", says("answer {{n}}")),
            on_user("for ever", says("never", delay_ms=30000)),
            on_user("think", says("thought", delay_ms=400)),
            on_user("ponder", says("pondered", delay_ms=1500)),
            on_user("two", calls(("job", {"n": 1}, "call_a"), ("job", {"n": 2}, "call_b"))),
            on_user("go", calls(("job", {}, "call_j"))),
            on_user("quick", calls(("quick", {}, "call_q"))),
            on_user("at three", calls(("wait_until", {"seconds": 3600}, "call_w"))),
            on_user("hang", calls(("hang", {}, "call_h"))),
            *[on_result(t, says("{{result}}")) for t in ("job", "quick", "hang")],
        ]
        hang = ["/bin/sh", "-c", f"echo $$ > {cls.place}/pid; exec sleep 60"]
        return kit.Setup(
            agents=[{"name": "helper", "script": script, "tools": ["job", "quick", "hang", "wait_until"]}],
            tools=[{"name": "job", "kind": "external"}, {"name": "quick", "kind": "external", "timeout": "700ms"},
                   {"name": "hang", "kind": "exec", "command": hang}], **sections)

    def setUp(self):
        (self.place / "pid").unlink(missing_ok=True)
        super().setUp()

    def say(self, session, content, wait=None, **options):
        return self.client.post(f"/v1/sessions/{session}/messages" + (f"?wait={wait}" if wait else ""),
                                {"content": content, **options})

    def suspend(self, message="go"):
        session = self.client.start(message)
        self.assertEqual(session["status"], "waiting")
        return session["id"], session["pending"][0]["pending_id"]

    def running(self, message="think"):
        session = self.client.start(message, wait=None)["id"]
        self.assertEqual(self.client.session(session)["status"], "running")
        return session

    def hanging(self):
        """A session whose tool runs: (session, the tool's process id)."""
        session = self.client.start("hang", wait=None)["id"]
        path = self.place / "pid"
        return session, int(kit.wait_until(lambda: path.exists() and path.read_text(), "the tool"))

    def said(self, session):
        return [(e["role"], "".join(b.get("text", "") for b in e["content"])) for e in self.client.transcript(session)]

    def cancel(self, session, mode=None, wait=None):
        return self.client.post(f"/v1/sessions/{session}/cancel" + (f"?wait={wait}" if wait else ""),
                                {} if mode is None else {"mode": mode})


class Messages(MessageCase):
    def test_a_message_starts_a_run(self):
        session = self.client.start()["id"]
        answer = self.assert_status(self.say(session, "number"), 202)
        self.assertTrue({"message_id", "run_id", "seq"} <= set(answer.json))
        self.assertFalse(answer.get("queued"))
        self.client.wait_status(session, "idle")
        records = {r["kind"]: r for r in self.client.log(session)}
        self.assertEqual(records["message.user"]["message_id"], answer["message_id"])
        self.assertEqual((records["run.started"]["run_id"], records["run.started"]["seq"]),
                         (answer["run_id"], answer["seq"]))
        self.assertEqual(self.client.last_words(session), "answer 1")

    def test_content_may_be_blocks(self):
        session = self.client.start()["id"]
        self.assert_status(self.say(session, [{"type": "text", "text": "num"}, {"type": "text", "text": "number"}],
                                    wait="10s"), 200)
        self.assertEqual(self.client.last_words(session), "answer 1")

    @every([("empty", ""), ("no blocks", []), ("a number", 1), ("null", None), ("not a block", ["x"]),
            ("a tool call", [{"type": "tool_use", "id": "c", "name": "job", "input": {}}]),
            ("a tool result", [{"type": "tool_result", "tool_use_id": "c", "content": "x"}])])
    def test_malformed_content_is_refused(self, content):
        session = self.client.start()["id"]
        with self.nothing_changes(session):
            self.assert_problem(self.say(session, content), 400, "invalid_request")

    def test_while_waiting_a_message_takes_over(self):
        # S3-41 S3-49: supersede is the default
        session, pending = self.suspend("two")
        ids = [c["pending_id"] for c in self.client.session(session)["pending"]]
        first = self.client.session(session)["run"]["run_id"]
        answer = self.assert_status(self.say(session, "number"), 202)
        self.assertEqual(answer["superseded"], ids)
        self.assertNotEqual(answer["run_id"], first)
        self.client.wait_status(session, "idle")
        cancelled = [r for r in self.client.log(session) if r["kind"] == "run.cancelled"]
        self.assertEqual([(r["run_id"], r["reason"]) for r in cancelled], [(first, "superseded")])
        # The model never sees a tool call without a result (S2-65).
        states = [p["state"]["status"] for e in self.client.transcript(session) for p in e["parts"]]
        self.assertEqual(states, ["error", "error"])
        self.assertEqual(self.client.last_words(session), "answer 2")

    def test_while_waiting_it_may_be_rejected(self):
        # S2-22
        session, pending = self.suspend()
        with self.nothing_changes(session):
            self.assert_problem(self.say(session, "number", on_waiting="reject"), 409, "input_on_suspended_session")
        self.client.result(pending, "r", wait="10s")

    def test_while_waiting_it_may_queue(self):
        session, pending = self.suspend()
        answer = self.assert_status(self.say(session, "number", on_waiting="queue"), 202)
        self.assertIs(answer["queued"], True)
        self.assertFalse(answer.get("superseded"))
        self.assertEqual(self.client.session(session)["status"], "waiting")
        self.restart()
        self.assertEqual(self.client.session(session)["status"], "waiting")
        self.client.result(pending, "r")
        self.client.wait_kind(session, "run.completed", 2)
        self.assertEqual(self.said(session), [("user", "go"), ("assistant", ""), ("assistant", "r"),
                                              ("user", "number"), ("assistant", "answer 3")])

    def test_while_running_it_queues(self):
        session = self.running()
        answer = self.assert_status(self.say(session, "number one"), 202)
        self.assertIs(answer["queued"], True)
        self.client.wait_kind(session, "run.completed", 2)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.said(session), [("user", "think"), ("assistant", "thought"), ("user", "number one"),
                                              ("assistant", "answer 2")])

    def test_whoever_waits_for_a_queued_message_gets_the_answer_to_it(self):
        # api 1: the run's outcome; a queued message is read by a later run
        for restarted in (False, True):
            session = self.running("ponder")
            path = f"/v1/sessions/{session}/messages"
            if restarted:
                # The run that is under way dies, another one goes on, and a third reads the message.
                self.assert_status(self.client.post(path, {"content": "number one"}, headers=KEY), 202)
                self.restart()
            answer = self.client.post(path + "?wait=20s", {"content": "number one"}, headers=KEY if restarted else {})
            self.assert_status(answer, 200)
            self.assertIs(answer["queued"], True)
            self.assertNotEqual(answer["outcome"]["run_id"], answer["run_id"])
            self.assertRegex(answer["outcome"]["output_messages"][-1]["content"][0]["text"], "^answer [23]$")

    def test_whoever_waits_for_a_message_behind_a_wait_is_not_told_of_the_wait(self):
        session, pending = self.suspend()
        join = self.background(self.say, session, "number", wait="20s", on_waiting="queue")
        self.client.wait_kind(session, "message.user", 2)
        self.client.result(pending, "r")
        answer = self.assert_status(join(), 200)
        self.assertEqual(answer["outcome"]["output_messages"][-1]["content"][0]["text"], "answer 3")
        waiting, _ = self.suspend()
        late = self.assert_status(self.say(waiting, "number", wait="200ms", on_waiting="queue"), 202)
        self.assertIsNone(late.get("outcome"))

    def test_whoever_waits_behind_a_wait_that_is_given_up_is_told(self):
        session, _ = self.suspend()
        join = self.background(self.say, session, "number", wait="1m", on_waiting="queue")
        self.client.wait_kind(session, "message.user", 2)
        self.assert_status(self.say(session, "number two"), 202)  # supersedes, and both are read
        self.assertEqual(self.assert_status(join(), 200)["outcome"]["status"], "completed")

    def test_whoever_asks_again_after_a_kill_waits_though_runs_stand_in_line(self):
        setup = self.make_setup(limits={"concurrent_runs": 1})
        self.restart(setup)
        asked = []
        for n in range(3):
            key = {"Idempotency-Key": f"line-{n}"}
            session = self.client.post("/v1/sessions", {"message": "ponder"}, headers=key)["id"]
            path = f"/v1/sessions/{session}/messages"
            self.assert_status(self.client.post(path, {"content": "number"}, headers=key), 202)
            asked.append((key, path))
        self.restart()
        joins = []
        for key, path in asked:
            for where, body in (("/v1/sessions", {"message": "ponder"}), (path, {"content": "number"})):
                joins.append(self.background(self.client.post, where + "?wait=30s", body, headers=key))
        for join in joins:
            answer = self.assert_status(join(), 200)
            self.assertEqual(answer["outcome"]["status"], "completed", answer)

    def test_nobody_waits_for_a_message_that_nobody_is_about_to_read(self):
        session, pending = self.suspend()
        join = self.background(self.say, session, "number", wait="20s", on_waiting="queue")
        self.client.wait_kind(session, "message.user", 2)
        self.assert_status(self.client.delete(f"/v1/sessions/{session}"), 204)
        self.assert_problem(join(), 410, "session_gone")

    def test_queued_messages_are_all_shown_in_order(self):
        session = self.running()
        for text in ("number one", "number two", "number three"):
            self.assert_status(self.say(session, text), 202)
        shown = [e for e in self.client.transcript(session) if e.get("queued")]
        self.assertEqual(len(shown), 3)
        kit.wait_until(lambda: self.client.session(session)["status"] == "idle" and len(self.said(session)) > 4
                       and not [e for e in self.client.transcript(session) if e.get("queued")], "all to be answered")
        users = [text for role, text in self.said(session) if role == "user"]
        self.assertEqual(users, ["think", "number one", "number two", "number three"])
        self.assertEqual(self.said(session)[-1][0], "assistant")

    def test_while_running_it_may_be_rejected(self):
        session = self.running()
        before = len(self.client.log(session))
        self.assert_problem(self.say(session, "number", on_running="reject"), 409, "session_busy")
        self.client.wait_status(session, "idle")
        self.assertNotIn("number", str(self.said(session)))
        self.assertGreaterEqual(len(self.client.log(session)), before)

    @every([("on_waiting", {"on_waiting": "wait"}), ("on_running", {"on_running": "supersede"}),
            ("a number", {"on_waiting": 1}), ("unknown", {"role": "system"})])
    def test_unknown_options_are_refused(self, options):
        session, _ = self.suspend()
        with self.nothing_changes(session):
            self.assert_problem(self.say(session, "number", **options), 400, "invalid_request")

    def test_a_failed_run_says_why_and_the_next_message_works(self):
        session = self.client.start("nobody wrote this down")
        self.assertEqual(session["outcome"]["status"], "failed")
        self.assertIn("unscripted", str(session["outcome"]["error"]))
        view = self.client.session(session["id"])
        self.assertEqual((view["status"], view["state"], view["run"]["outcome"]), ("idle", "ERROR", "failed"))
        self.assertEqual(self.say(session["id"], "number", wait="10s")["outcome"]["status"], "completed")


class Cancelling(MessageCase):
    def test_discard_ends_a_wait_without_another_model_call(self):
        # design 7 Cancel, S3-48
        session, pending = self.suspend()
        answer = self.assert_status(self.cancel(session), 202)
        view = self.client.session(session)
        self.assertEqual((view["status"], view["state"], view["run"]["outcome"], view["last_seq"]),
                         ("idle", "CANCELLED", "cancelled", answer["seq"]))
        self.assertEqual(answer["run_id"], view["run"]["run_id"])
        self.assertEqual(self.said(session), [("user", "go"), ("assistant", "")])
        part = [p for e in self.client.transcript(session) for p in e["parts"]][0]
        self.assertEqual((part["state"]["status"], part["state"]["output"]), ("error", "Cancelled by user"))
        self.assert_problem(self.client.result(pending), 410, "not_waiting")
        self.assertEqual(self.say(session, "number", wait="10s")["outcome"]["status"], "completed")

    def test_acknowledge_lets_the_agent_answer_once(self):
        session, pending = self.suspend()
        answer = self.assert_status(self.cancel(session, "acknowledge", wait="10s"), 200)
        self.assertEqual(answer["outcome"]["status"], "completed")
        self.assertEqual(self.client.last_words(session), "Cancelled by user")
        resumed = [r["reason"] for r in self.client.log(session) if r["kind"] == "run.resumed"]
        self.assertEqual(resumed, ["cancelled"])

    def test_discard_stops_a_model_call(self):
        session = self.running("for ever")
        answer = self.assert_status(self.cancel(session, wait="10s"), 200)
        self.assertEqual(answer["outcome"]["status"], "cancelled")
        view = self.client.session(session)
        self.assertEqual((view["status"], view["run"]["outcome"]), ("idle", "cancelled"))
        self.assertEqual(self.say(session, "number", wait="10s")["outcome"]["status"], "completed")

    def test_discard_stops_a_tool(self):
        session, pid = self.hanging()
        self.assert_status(self.cancel(session), 202)
        self.client.wait_status(session, "idle")
        kit.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the tool's process to end")
        part = [p for e in self.client.transcript(session) for p in e["parts"]][0]
        self.assertEqual(part["state"]["status"], "error")

    def test_acknowledge_is_for_a_session_that_waits(self):
        # docs/http.md
        session, pid = self.hanging()
        with self.nothing_changes(session):
            self.assert_problem(self.cancel(session, "acknowledge"), 409, "session_busy")
        self.assertTrue(os.path.exists(f"/proc/{pid}"))

    def test_there_must_be_something_to_cancel(self):
        fresh = self.client.start()["id"]
        done = self.client.start("number")["id"]
        cancelled, _ = self.suspend()
        self.cancel(cancelled)
        for session in (fresh, done, cancelled):
            with self.nothing_changes(session):
                self.assert_problem(self.cancel(session), 409, "not_running")

    def test_another_mode_is_refused(self):
        session, _ = self.suspend()
        with self.nothing_changes(session):
            self.assert_problem(self.cancel(session, "kill"), 400, "invalid_request")

    def test_cancel_and_result_race_and_one_wins(self):
        # P3
        for _ in range(6):
            session, pending = self.suspend()
            joins = [self.background(self.client.result, pending, "r"), self.background(self.cancel, session)]
            result, cancel = [join() for join in joins]
            self.client.wait_status(session, "idle")
            kinds = self.client.kinds(session)
            if result.status == 200:
                self.assertEqual(kinds.count("pending.completed"), 1)
            else:
                self.assert_problem(result, 410, "not_waiting")
                self.assertEqual(cancel.status, 202)
            self.assertEqual(kinds.count("run.completed") + kinds.count("run.cancelled"), 1)


class Extending(MessageCase):
    def extend(self, session, **body):
        return self.client.post(f"/v1/sessions/{session}/extend", body)

    def test_calls_wait_and_token_move_together(self):
        # design 7 Time
        session, pending = self.suspend("two")
        at = later(3600)
        wait = self.assert_status(self.extend(session, deadline_at=at), 200).json
        for restarted in (False, True):
            if restarted:
                self.restart()
            view = self.client.session(session)
            self.assertEqual([c["expires_at"] for c in view["pending"]], [at, at])
            self.assertEqual(view["run"]["wait"], wait)
            self.assertGreater(wait["deadline_at"], at)
        token = self.client.post(f"/v1/sessions/{session}/resume-token")
        self.assertEqual(token["expires_at"], wait["deadline_at"])

    def test_seconds_do_too(self):
        session, pending = self.suspend()
        self.assert_status(self.extend(session, seconds=120), 200)
        expires = self.client.session(session)["pending"][0]["expires_at"]
        self.assertTrue(later(110) < expires < later(121), expires)

    def test_a_call_lives_longer_than_its_tool_said(self):
        session, pending = self.suspend("quick")
        self.assert_status(self.extend(session, seconds=60), 200)
        other, _ = self.suspend("quick")
        self.client.wait_status(other, "idle")  # that one's time is over
        self.assertEqual(self.client.session(session)["status"], "waiting")
        self.assert_status(self.client.result(pending, "in time", wait="10s"), 200)
        self.assertEqual(self.client.last_words(session), "in time")

    def test_it_may_be_sooner(self):
        session, pending = self.suspend()
        self.assert_status(self.extend(session, deadline_at=later(0.3)), 200)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "Tool execution timed out")

    @every([("neither", {}), ("both", {"seconds": 5, "deadline_at": later(60)}), ("zero", {"seconds": 0}),
            ("negative", {"seconds": -1}), ("a fraction", {"seconds": 1.5}), ("a text", {"seconds": "5"}),
            ("no time", {"deadline_at": "tomorrow"}), ("the past", {"deadline_at": "2001-01-01T00:00:00Z"}),
            ("too far", {"seconds": 10**12}), ("unknown", {"minutes": 5})])
    def test_malformed_deadlines_are_refused(self, body):
        session, _ = self.suspend()
        with self.nothing_changes(session):
            self.assert_problem(self.extend(session, **body), 400, "invalid_request")

    def test_a_timer_is_not_moved(self):
        session, _ = self.suspend("at three")
        with self.nothing_changes(session):
            self.assert_problem(self.extend(session, seconds=7200), 409, "no_deadline")

    def test_there_must_be_a_wait(self):
        session = self.client.start("number")["id"]
        with self.nothing_changes(session):
            self.assert_problem(self.extend(session, seconds=5), 409, "no_suspended_turn")
