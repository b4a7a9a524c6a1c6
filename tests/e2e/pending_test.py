"""Pending tool calls: results, errors and cancellations that arrive later, once, whatever dies in between."""

import re
import threading

import kit
from kit import calls, every, on_result, on_user, says

SCRIPT = [
    on_user("two", calls(("job", {"n": 1}, "call_a"), ("job", {"n": 2}, "call_b"))),
    on_user("mixed", calls(("job", {"n": 1}, "call_a"), ("note", {}, "call_b"))),
    on_user("quick", calls("quick")),
    on_user("strict", calls("strict")),
    on_user("slowly", calls("job_then_slow")),
    on_user("sync", calls(("note", {"text": "hello"}))),
    on_user("go", calls(("job", {"branch": "main", "config": {"A": "1"}}))),
    on_result("job_then_slow", says("slow: {{result}}", delay_ms=3000)),
    *[on_result(tool, says("{{result}}")) for tool in ("job", "quick", "strict", "note")],
    says("hello", repeat=True),
]

TOOLS = [
    {"name": "job", "kind": "external", "description": "Runs a job elsewhere"},
    {"name": "job_then_slow", "kind": "external"},
    {"name": "quick", "kind": "external", "timeout": "500ms"},
    {"name": "strict", "kind": "external",
     "result_schema": {"type": "object", "required": ["url"], "properties": {"url": {"type": "string"}}}},
    {"name": "note", "kind": "exec", "command": ["/bin/echo", "noted"]},
]


def setup(**sections):
    return kit.Setup(agents=[{"name": "helper", "script": SCRIPT, "tools": [t["name"] for t in TOOLS]}],
                     tools=TOOLS, **sections)


class PendingCase(kit.Case):
    setup = setup()

    def suspend(self, message="go", **fields):
        """A session that waits: (session, its open calls)."""
        session = self.client.start(message, **fields)
        self.assertEqual(session["outcome"]["status"], "suspended", session)
        return session, session["pending"]

    def suspend_one(self, message="go", **fields):
        session, pending = self.suspend(message, **fields)
        self.assertEqual(len(pending), 1)
        return session["id"], pending[0]["pending_id"]

    def counts(self, session_id, *kinds):
        log = self.client.kinds(session_id)
        return [log.count(kind) for kind in kinds]


class Results(PendingCase):
    def test_a_result_after_kill_9_and_restart_goes_on_with_the_turn(self):
        # S0-01 S0-02 S0-04 S0-30 S0-33 S0-35 S0-56 S0-62 S0-81 S0-82
        session, pending = self.suspend_one()
        self.restart()
        view = self.client.session(session)
        self.assertEqual(view["status"], "waiting")
        self.assertEqual([call["pending_id"] for call in view["pending"]], [pending])
        answer = self.assert_status(self.client.result(pending, "https://preview.example"), 200)
        self.assertEqual(answer.json, {"success": True, "sessionID": session})
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "https://preview.example")
        self.assertEqual(self.counts(session, "run.started", "run.resumed", "run.completed", "run.interrupted"),
                         [1, 1, 1, 0])

    def test_a_result_with_wait_brings_the_outcome(self):
        session, pending = self.suspend_one()
        answer = self.assert_status(self.client.result(pending, "up", wait="10s"), 200)
        self.assertEqual(answer["outcome"]["status"], "completed")
        self.assertEqual(answer["sessionID"], session)

    def test_the_answer_does_not_wait_for_the_model(self):
        # S0-62: the caller's request is answered after the commit, the turn goes on in the background.
        session, pending = self.suspend_one("slowly")
        self.assert_status(self.client.result(pending), 200)
        self.assertEqual(self.client.session(session)["status"], "running")
        self.client.wait_status(session, "idle")

    @every([
        ("never existed", "pnd_" + "0" * 26 + "_" + "0" * 32),
        ("malformed", "nonsense"), ("empty", ""), ("path", "../../token"), ("control", "pnd_\n"),
        ("long", "pnd_" + "x" * 5000), ("another kind of id", "sess_01M7HQ21C9QP6R7N4FWP1951P6"),
    ])
    def test_an_unknown_id_is_404_at_every_door(self, bad):
        # S0-58
        def check(answer):
            self.assert_problem(answer, 404, "unknown_pending_id")
            self.assertEqual(answer["title"], "Unknown pending ID")
        check(self.client.result(bad))
        check(self.client.post("/async-tool/error", {"pendingID": bad, "error": "no"}))
        check(self.client.post("/async-tool/webhook", {"pendingID": bad, "error": "no"}))
        if re.fullmatch(r"[\w]+", bad) and len(bad) < 300:
            check(self.client.get(f"/async-tool/pending/{bad}"))
            check(self.client.delete(f"/async-tool/pending/{bad}"))
            check(self.client.post(f"/async-tool/webhook/{bad}", {"ok": True}))
            check(self.client.post(f"/v1/pending/{bad}/decision", {"decision": "approve"}))
            for verb in ("claim", "renew", "release"):
                check(self.client.post(f"/async-tool/pending/{bad}/{verb}", {"worker": "w"}))
            check(self.client.post(f"/async-tool/pending/{bad}/progress", {"progress": {"percent": 1}}))

    def test_an_id_with_the_right_session_and_a_wrong_secret_is_unknown(self):
        # S0-58 S0-84
        _, pending = self.suspend_one()
        wrong = pending[:-1] + ("0" if pending[-1] != "0" else "1")
        self.assert_problem(self.client.result(wrong), 404, "unknown_pending_id")

    def test_the_same_result_again_is_a_duplicate_and_starts_nothing(self):
        # S0-59, design 7 "Again"
        session, pending = self.suspend_one()
        self.assert_status(self.client.result(pending, "up", metadata={"n": 1}), 200)
        self.client.wait_status(session, "idle")
        with self.nothing_changes(session):
            again = self.assert_status(self.client.result(pending, "up", metadata={"n": 1}), 200)
            self.assertEqual(again.json, {"success": True, "sessionID": session, "duplicate": True})
        self.restart()
        with self.nothing_changes(session):
            self.assertIs(self.client.result(pending, "up", metadata={"n": 1})["duplicate"], True)
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hi"})
        with self.nothing_changes(session):  # for as long as the log exists
            self.assertIs(self.client.result(pending, "up", metadata={"n": 1})["duplicate"], True)

    def test_another_result_is_a_conflict_and_changes_nothing(self):
        # S0-59
        session, pending = self.suspend_one()
        self.client.result(pending, "first")
        self.client.wait_status(session, "idle")
        with self.nothing_changes(session):
            self.assert_problem(self.client.result(pending, "second"), 409, "conflicting_result")
            self.assert_problem(self.client.post("/async-tool/error", {"pendingID": pending, "error": "no"}),
                                409, "conflicting_result")
        self.assertEqual(self.client.last_words(session), "first")

    @every([
        ("absent metadata is {}", b'{"title":"t","output":"o"}', b'{"title":"t","output":"o","metadata":{}}', True),
        ("spacing", b'{"title":"t","output":"o"}', b' {\n"title" : "t",\t"output":"o" }', True),
        ("number text", b'{"title":"t","output":"o","metadata":{"n":1}}',
         b'{"title":"t","output":"o","metadata":{"n":1.0}}', False),
        ("other title", b'{"title":"t","output":"o"}', b'{"title":"T","output":"o"}', False),
        ("both spellings", b'{"title":"t","output":"o"}', b'{"content":"o","display":"t"}', True),
    ])
    def test_what_counts_as_the_same_payload(self, first, second, same):
        session, pending = self.suspend_one()
        head = b'{"pendingID":"' + pending.encode() + b'","result":'
        self.assert_status(self.client.post("/async-tool/result", raw=head + first + b"}"), 200)
        again = self.client.post("/async-tool/result", raw=head + second + b"}")
        if same:
            self.assertIs(self.assert_status(again, 200).get("duplicate"), True)
        else:
            self.assert_problem(again, 409, "conflicting_result")

    def test_numbers_of_a_result_keep_their_text(self):
        # W13: the bytes of outside JSON are kept
        session, pending = self.suspend_one()
        raw = ('{"pendingID":"%s","result":{"title":"t","output":"o","metadata":'
               '{"big":123456789012345678901234567890,"f":1.10,"e":1E2,"z":-0.0}}}' % pending).encode()
        self.assert_status(self.client.post("/async-tool/result", raw=raw), 200)
        self.client.wait_status(session, "idle")
        log = self.client.get(f"/v1/sessions/{session}/log", headers={"Accept": "application/x-ndjson"}).body
        self.assertIn(b'{"big":123456789012345678901234567890,"f":1.10,"e":1E2,"z":-0.0}', log)

    def test_an_error_goes_to_the_model_and_the_call_is_failed(self):
        # S0-31 S0-36 S0-19
        session, pending = self.suspend_one()
        answer = self.assert_status(
            self.client.post("/async-tool/error", {"pendingID": pending, "error": "the disk is full"}), 200)
        self.assertEqual(answer.json, {"success": True, "sessionID": session})
        self.client.wait_status(session, "idle")
        self.assertIn("the disk is full", self.client.last_words(session))
        call = self.client.get(f"/async-tool/pending/{pending}")["pending"]
        self.assertEqual((call["status"], call["error"]), ("failed", "the disk is full"))
        self.assertNotIn("result", call)
        with self.nothing_changes(session):
            again = self.client.post("/async-tool/error", {"pendingID": pending, "error": "the disk is full"})
            self.assertIs(self.assert_status(again, 200)["duplicate"], True)
            self.assert_problem(self.client.result(pending), 409, "conflicting_result")

    @every([("in order", 0, 1), ("the other way round", 1, 0)])
    def test_two_calls_resume_once_after_the_second_result(self, first, second):
        # S0-04 with several calls: the session goes on when none is open any more
        session, pending = self.suspend("two")
        ids = [call["pending_id"] for call in pending]
        self.assert_status(self.client.result(ids[first], f"r{first}"), 200)
        view = self.client.session(session["id"])
        self.assertEqual(view["status"], "waiting")
        self.assertEqual([call["pending_id"] for call in view["pending"]], [ids[second]])
        self.restart()
        self.assertEqual(self.client.session(session["id"])["status"], "waiting")
        self.assert_status(self.client.result(ids[second], f"r{second}"), 200)
        self.client.wait_status(session["id"], "idle")
        self.assertEqual(self.counts(session["id"], "run.resumed", "run.completed"), [1, 1])
        # Results keep the order of the calls, whatever order they came in.
        parts = [entry for entry in self.client.transcript(session["id"]) if entry["parts"]][0]["parts"]
        self.assertEqual([(p["call_id"], p["state"]["output"]) for p in parts], [("call_a", "r0"), ("call_b", "r1")])
        self.assertEqual(self.client.last_words(session["id"]), "r1")

    def test_equal_results_that_race_are_taken_once(self):
        # P3
        session, pending = self.suspend_one()
        answers = self.race(8, lambda n: self.client.result(pending, "same"))
        self.assertEqual([a.status for a in answers], [200] * 8)
        self.assertEqual(sum(1 for a in answers if not a.get("duplicate")), 1)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.counts(session, "pending.completed", "run.resumed", "run.completed"), [1, 1, 1])

    def test_different_settlements_that_race_have_one_winner(self):
        # P3
        session, pending = self.suspend_one()

        def settle(n):
            if n == 0:
                return self.client.delete(f"/async-tool/pending/{pending}")
            if n == 1:
                return self.client.post("/async-tool/error", {"pendingID": pending, "error": "e"})
            return self.client.result(pending, f"result {n}")
        answers = self.race(6, settle)
        self.assertEqual(sum(1 for a in answers if a.status == 200), 1, answers)
        self.assertTrue(all(a.status in (200, 409, 410) for a in answers), answers)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.counts(session, "run.resumed", "run.completed"), [1, 1])

    def race(self, count, function):
        start = threading.Barrier(count)

        def run(n):
            start.wait()
            return function(n)
        return [join() for join in [self.background(run, n) for n in range(count)]]

    def test_a_result_that_was_accepted_survives_kill_9_before_it_was_applied(self):
        # P4, lessons 2.0: re-drive completed but not applied calls, whatever the policy says
        session, pending = self.suspend_one("slowly")
        self.assert_status(self.client.result(pending, "precious"), 200)
        self.server.kill()
        self.server.setup = setup(recovery={"resume": "off"})
        self.server.start()
        self.client = self.server.client()
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "slow: precious")
        self.assertEqual(self.counts(session, "run.redriven", "run.resumed", "run.completed", "run.interrupted"),
                         [1, 1, 1, 0])
        self.assertIs(self.client.result(pending, "precious")["duplicate"], True)

    def test_a_tool_that_answers_at_once_takes_the_normal_way(self):
        # S0-03 S0-57
        session = self.client.start("sync")
        self.assertEqual(session["outcome"]["status"], "completed")
        self.assertEqual(self.client.last_words(session["id"]).strip(), "noted")
        self.assertNotIn("pending.created", self.client.kinds(session["id"]))

    def test_a_batch_drains_its_other_calls_before_it_waits(self):
        # S2-42 over HTTP
        session, pending = self.suspend("mixed")
        self.assertEqual([call["call_id"] for call in pending], ["call_a"])
        done = session["outcome"]["suspension"]["completed_tool_calls"]
        self.assertEqual([(call["id"], call["name"]) for call in done], [("call_b", "note")])
        self.client.result(pending[0]["pending_id"], "r", wait="10s")
        self.assertEqual(self.counts(session["id"], "tool.started", "tool.completed"), [1, 1])


class Refusals(PendingCase):
    def test_cancel_goes_on_with_an_error_and_a_late_result_is_not_waiting(self):
        # S0-39 S0-59
        session, pending = self.suspend_one()
        answer = self.assert_status(self.client.delete(f"/async-tool/pending/{pending}"), 200)
        self.assertEqual(answer.json, {"success": True, "sessionID": session})
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "Cancelled by user")
        call = self.client.get(f"/async-tool/pending/{pending}")["pending"]
        self.assertEqual((call["status"], call["error"]), ("cancelled", "Cancelled by user"))
        with self.nothing_changes(session):
            late = self.assert_problem(self.client.result(pending), 410, "not_waiting")
            self.assertEqual((late["title"], late["pendingStatus"]), ("Not waiting", "cancelled"))
            again = self.assert_status(self.client.delete(f"/async-tool/pending/{pending}"), 200)
            self.assertIs(again["duplicate"], True)

    def test_a_finished_call_cannot_be_cancelled(self):
        session, pending = self.suspend_one()
        self.client.result(pending, wait="10s")
        with self.nothing_changes(session):
            answer = self.client.delete(f"/async-tool/pending/{pending}")
            self.assert_problem(answer, 410, "not_waiting")
            self.assertEqual(answer["pendingStatus"], "completed")

    @every([("in the same turn", False), ("turns later", True)])
    def test_a_settled_call_is_not_waiting_at_any_door(self, later):
        session, pending = self.suspend_one()
        self.client.result(pending, wait="10s")
        if later:
            self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hi"})
        with self.nothing_changes(session):
            for verb, body in (("claim", {"worker": "w"}), ("release", {"worker": "w"}),
                               ("progress", {"progress": {"percent": 1}})):
                with self.subTest(verb):
                    answer = self.client.post(f"/async-tool/pending/{pending}/{verb}", body)
                    self.assert_problem(answer, 410, "not_waiting")

    def test_a_late_worker_is_told_what_became_of_the_call(self):
        # api 3: not_waiting, with the current pendingStatus
        _, pending = self.suspend_one()
        self.client.result(pending, wait="10s")
        for verb, body in (("claim", {"worker": "w"}), ("release", {"worker": "w"}),
                           ("progress", {"progress": {"percent": 1}})):
            answer = self.client.post(f"/async-tool/pending/{pending}/{verb}", body)
            self.assertEqual(answer.get("pendingStatus"), "completed", verb)

    def test_a_result_after_a_new_message_took_over_is_not_waiting(self):
        # S0-59 S3-41
        session, pending = self.suspend_one()
        answer = self.assert_status(self.client.post(f"/v1/sessions/{session}/messages", {"content": "hi"}), 202)
        self.assertEqual(answer["superseded"], [pending])
        late = self.assert_problem(self.client.result(pending), 410, "not_waiting")
        self.assertEqual(late["pendingStatus"], "cancelled")

    def test_the_calls_of_a_deleted_session_are_gone(self):
        # S0-86
        session, pending = self.suspend_one()
        self.assert_status(self.client.delete(f"/v1/sessions/{session}"), 204)
        for restarted in (False, True):
            if restarted:
                self.restart()
            self.assert_problem(self.client.result(pending), 410, "session_gone")
            self.assert_problem(self.client.post("/async-tool/error", {"pendingID": pending, "error": "e"}),
                                410, "session_gone")
            self.assert_problem(self.client.delete(f"/async-tool/pending/{pending}"), 410, "session_gone")
            self.assert_problem(self.client.get(f"/async-tool/pending/{pending}"), 410, "session_gone")
            listed = self.client.get("/async-tool/pending")["pending"]
            self.assertNotIn(pending, [call["id"] for call in listed])

    def test_a_result_that_does_not_fit_leaves_the_call_waiting(self):
        # S0-28
        session, pending = self.suspend_one("strict")
        with self.nothing_changes(session):
            self.assert_problem(self.client.result(pending, '{"url": 1}'), 400, "result_validation_failed")
            self.assert_problem(self.client.result(pending, "no JSON"), 400, "result_validation_failed")
            self.assert_problem(self.client.post(f"/v1/sessions/{session}/resume", {
                "results": {self.client.session(session)["pending"][0]["call_id"]: {"content": "{}"}}}),
                400, "result_validation_failed")
        self.assertEqual(self.client.get(f"/async-tool/pending/{pending}")["pending"]["status"], "waiting")
        self.assert_status(self.client.result(pending, '{"url": "https://x.example"}'), 200)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), '{"url": "https://x.example"}')

    def test_an_error_need_not_fit_the_result_schema(self):
        session, pending = self.suspend_one("strict")
        self.assert_status(self.client.post("/async-tool/error", {"pendingID": pending, "error": "e"}), 200)
        self.client.wait_status(session, "idle")

    @every([
        ("no result", {}), ("result is a string", {"result": "x"}), ("no output", {"result": {"title": "t"}}),
        ("output is a number", {"result": {"title": "t", "output": 1}}),
        ("metadata is a list", {"result": {"title": "t", "output": "o", "metadata": []}}),
        ("unknown field", {"result": {"title": "t", "output": "o", "status": "completed"}}),
        ("status beside it", {"result": {"title": "t", "output": "o"}, "status": "completed"}),
    ])
    def test_a_malformed_result_is_refused_and_the_call_waits(self, more):
        # S0-18 T8
        session, pending = self.suspend_one()
        with self.nothing_changes(session):
            answer = self.client.post("/async-tool/result", {"pendingID": pending, **more})
            self.assert_problem(answer, 400, "invalid_request")
            self.assertTrue(answer["field"].startswith("/"), answer)


class Expiry(PendingCase):
    def test_a_call_expires_by_its_timer_and_the_agent_goes_on(self):
        # S0-34 S0-65 S0-79 S0-80 S0-88 S3-74
        session, pending = self.suspend_one("quick")
        view = self.client.wait_status(session, "idle")
        self.assertEqual(view["run"]["outcome"], "completed")
        self.assertEqual(self.client.last_words(session), "Tool execution timed out")
        call = self.client.get(f"/async-tool/pending/{pending}")["pending"]
        self.assertEqual((call["status"], call["error"]), ("expired", "Tool execution timed out"))
        with self.nothing_changes(session):
            late = self.assert_problem(self.client.result(pending), 410, "not_waiting")
            self.assertEqual(late["pendingStatus"], "expired")
        resumed = [r for r in self.client.log(session) if r["kind"] == "run.resumed"]
        self.assertEqual([r["reason"] for r in resumed], ["expired"])

    def test_a_call_that_expired_while_the_server_was_down_is_closed_at_boot(self):
        # S0-34 S0-64 S0-65
        session, pending = self.suspend_one("quick")
        expires = self.client.get(f"/async-tool/pending/{pending}")["pending"]["timeout"]
        self.server.kill()
        kit.wait_until(lambda: kit.now_ms() > expires, "the call's time to pass")
        self.server.start()
        self.client = self.server.client()
        # Repaired before the port opened: nobody ever sees it waiting.
        self.assertNotEqual(self.client.session(session)["status"], "waiting")
        self.assertEqual(self.client.get(f"/async-tool/pending/{pending}")["pending"]["status"], "expired")
        self.assertEqual(self.client.get("/async-tool/recovery/status")["expired"], 1)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "Tool execution timed out")
        self.assertEqual(self.counts(session, "pending.expired", "run.resumed", "run.completed", "run.interrupted"),
                         [1, 1, 1, 0])

    def test_a_claimed_call_expires_too(self):
        # design 7: processing expires too
        session, pending = self.suspend_one("quick")
        self.assert_status(self.client.post(f"/async-tool/pending/{pending}/claim",
                                            {"worker": "w", "leaseMs": 60000}), 200)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.get(f"/async-tool/pending/{pending}")["pending"]["status"], "expired")

    def test_a_timeout_is_24_hours_unless_the_tool_says_otherwise(self):
        # S0-14 S0-79
        before = kit.now_ms()
        _, pending = self.suspend_one()
        day = 24 * 60 * 60 * 1000
        timeout = self.client.get(f"/async-tool/pending/{pending}")["pending"]["timeout"]
        self.assertTrue(before + day <= timeout <= kit.now_ms() + day, timeout)


class ShortDefault(PendingCase):
    setup = setup(limits={"call_timeout": "300ms"})

    def test_the_default_of_the_configuration_counts(self):
        # S0-79
        session, _ = self.suspend_one("go")
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "Tool execution timed out")


class Processing(PendingCase):
    def test_a_claimed_call_goes_back_to_waiting_at_boot(self):
        # S0-83
        session, pending = self.suspend_one()
        claimed = self.assert_status(self.client.post(f"/async-tool/pending/{pending}/claim",
                                                      {"worker": "w", "leaseMs": 3600000}), 200)
        self.assertEqual(claimed["pending"]["status"], "processing")
        self.restart()
        call = self.client.get(f"/async-tool/pending/{pending}")["pending"]
        self.assertEqual(call["status"], "waiting")
        self.assertNotIn("worker", call)
        self.assert_status(self.client.post(f"/async-tool/pending/{pending}/claim", {"worker": "other"}), 200)
        self.assert_status(self.client.result(pending, wait="10s"), 200)

    def test_a_result_from_somebody_else_than_the_holder_is_accepted(self):
        session, pending = self.suspend_one()
        self.client.post(f"/async-tool/pending/{pending}/claim", {"worker": "w"})
        self.assert_status(self.client.result(pending, "from another"), 200)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "from another")


class Shapes(PendingCase):
    def test_the_record_of_a_waiting_call(self):
        # S0-05 S0-06 S0-07 S0-08 S0-09 S0-10 S0-11 S0-14 S0-15 S0-20 S0-38 S0-84 S0-92
        session, pending = self.suspend_one(title="shape")
        call = self.assert_status(self.client.get(f"/async-tool/pending/{pending}"), 200)["pending"]
        log = self.client.log(session)
        asked = [r for r in log if r["kind"] == "message.assistant"][0]
        self.assertEqual(call["id"], pending)
        self.assertRegex(pending, r"^pnd_[0-9A-Z]{26}_[0-9A-Za-z]{32}$")  # 20 random bytes
        self.assertEqual(call["sessionID"], session)
        self.assertEqual(call["messageID"], asked["message_id"])
        self.assertEqual(call["callID"], asked["content"][-1]["id"])
        self.assertEqual(call["tool"], "job")
        self.assertEqual(call["input"], {"branch": "main", "config": {"A": "1"}})
        self.assertEqual(call["status"], "waiting")
        self.assertTrue(call["partID"])
        parts = [part for entry in self.client.transcript(session) for part in entry["parts"]]
        self.assertEqual(call["partID"], parts[0]["part_id"])
        self.assertTrue(abs(call["time"]["created"] - kit.now_ms()) < 60000)
        self.assertNotIn("completed", call["time"])
        self.assertNotIn("result", call)
        self.assertNotIn("error", call)

    def test_the_record_of_a_completed_call(self):
        # S0-16 S0-17 S0-18 S0-60 S0-90
        session, pending = self.suspend_one()
        self.client.post(f"/async-tool/pending/{pending}/claim", {"worker": "w"})
        result = {"title": "Deployment Complete", "output": "up", "metadata": {"url": "https://x", "deploymentID": "d"}}
        self.client.post("/async-tool/result?wait=10s", {"pendingID": pending, "result": result})
        call = self.client.get(f"/async-tool/pending/{pending}")["pending"]
        self.assertEqual((call["status"], call["result"]), ("completed", result))
        times = call["time"]
        self.assertTrue(times["created"] <= times["started"] <= times["completed"], times)
        self.assertNotIn("error", call)

    def test_a_v1_session_shows_its_pending_calls(self):
        session, pending = self.suspend_one()
        call = self.client.session(session)["pending"][0]
        self.assertEqual(set(call), {
            "pending_id", "call_id", "tool", "input", "input_digest", "status", "waits_for", "prompt", "metadata",
            "reason", "created_at", "expires_at", "progress", "worker", "external_ref"})
        self.assertEqual((call["pending_id"], call["tool"], call["status"], call["waits_for"]),
                         (pending, "job", "waiting", "external"))
        self.assertEqual(call["input"], {"branch": "main", "config": {"A": "1"}})

    def test_the_tool_part_waits_and_then_completes(self):
        # S0-55 S0-61
        session, pending = self.suspend_one()

        def part():
            parts = [p for entry in self.client.transcript(session) for p in entry["parts"]]
            self.assertEqual(len(parts), 1)
            return parts[0]
        waiting = part()
        self.assertEqual((waiting["type"], waiting["tool"]), ("tool", "job"))
        state = waiting["state"]
        self.assertEqual((state["status"], state["pending_id"]), ("waiting_async", pending))
        self.assertEqual(state["input"], {"branch": "main", "config": {"A": "1"}})
        self.assertEqual(set(state["time"]), {"start"})
        self.client.result(pending, "out", title="Title", metadata={"k": 1}, wait="10s")
        done = part()
        self.assertEqual({k: v for k, v in done.items() if k != "state"},
                         {k: v for k, v in waiting.items() if k != "state"})
        state = done["state"]
        self.assertEqual((state["status"], state["output"], state["title"], state["metadata"]),
                         ("completed", "out", "Title", {"k": 1}))
        self.assertEqual(state["input"], waiting["state"]["input"])
        self.assertEqual(state["time"]["start"], waiting["state"]["time"]["start"])
        self.assertGreaterEqual(state["time"]["end"], state["time"]["start"])

    def test_a_failed_call_is_an_error_part(self):
        session, pending = self.suspend_one()
        self.client.post("/async-tool/error?wait=10s", {"pendingID": pending, "error": "broken"})
        part = [p for entry in self.client.transcript(session) for p in entry["parts"]][0]
        self.assertEqual(part["state"]["status"], "error")
        self.assertIn("broken", part["state"]["output"])

    def test_the_activity_of_a_waiting_session(self):
        # S0-66 S0-75 S0-76 S0-78
        session, pending = self.suspend_one()
        created = self.client.get(f"/async-tool/pending/{pending}")["pending"]
        activity = self.client.session(session)["activity"]
        self.assertEqual(activity, {"type": "waiting_async", "pendingID": pending, "tool": "job",
                                    "since": created["time"]["created"], "timeout": created["timeout"]})
        self.restart()
        self.assertEqual(self.client.session(session)["activity"], activity)
        self.client.result(pending, wait="10s")
        self.assertEqual(self.client.session(session)["activity"], {"type": "idle"})

    def test_async_tools_are_listed_with_their_schemas(self):
        # S0-23
        tools = {tool["id"]: tool for tool in self.client.get("/async-tool/tools")["tools"]}
        self.assertTrue({"job", "quick", "strict"} <= set(tools))
        self.assertNotIn("note", tools)
        self.assertEqual(tools["job"]["description"], "Runs a job elsewhere")
        self.assertIsInstance(tools["job"]["parameters"], dict)


class Lists(PendingCase):
    def test_open_calls_are_listed_and_filtered(self):
        # S0-37
        one, first = self.suspend_one()
        two, second = self.suspend_one("strict")
        done, third = self.suspend_one()
        self.client.result(third, wait="10s")

        def ids(query=""):
            answer = self.assert_status(self.client.get("/async-tool/pending" + query), 200)
            self.assertEqual(answer["count"], len(answer["pending"]))
            self.assertIn("next_cursor", answer.json)
            return {call["id"] for call in answer["pending"]}
        self.assertTrue({first, second} <= ids())
        self.assertNotIn(third, ids())
        self.assertEqual(ids(f"?sessionID={one}"), {first})
        self.assertEqual(ids(f"?sessionID={two}&tool=strict"), {second})
        self.assertEqual(ids(f"?sessionID={two}&tool=job"), set())
        self.assertEqual(ids(f"?sessionID={one}&status=waiting"), {first})
        self.client.post(f"/async-tool/pending/{first}/claim", {"worker": "w"})
        self.assertEqual(ids(f"?sessionID={one}&status=waiting"), set())
        self.assertEqual(ids(f"?sessionID={one}&status=processing"), {first})
        self.assertEqual(ids(f"?sessionID={one}"), {first})
        self.assert_problem(self.client.get("/async-tool/pending?status=lost"), 400, "invalid_request")

    def test_settled_calls_are_found_by_status(self):
        # api 3: those waiting or processing by default, the others by status=
        session, pending = self.suspend_one()
        self.client.result(pending, wait="10s")
        found = self.client.get(f"/async-tool/pending?sessionID={session}&status=completed")["pending"]
        self.assertEqual([call["id"] for call in found], [pending])

    def test_pages_cover_all_calls_once(self):
        made = {self.suspend_one()[1] for _ in range(5)}
        seen, cursor = [], ""
        while cursor is not None:
            page = self.client.get("/async-tool/pending?limit=2" + (f"&cursor={cursor}" if cursor else "")).json
            self.assertLessEqual(len(page["pending"]), 2)
            seen += [call["id"] for call in page["pending"]]
            cursor = page["next_cursor"]
        self.assertEqual(len(seen), len(set(seen)))
        self.assertTrue(made <= set(seen))

    def test_a_cursor_settles_nothing(self):
        # design 7: a token with read alone sees ids masked
        made = {self.suspend_one()[1] for _ in range(2)}
        cursor = self.token("read").get("/async-tool/pending?limit=1")["next_cursor"]
        self.assertNotIn(cursor, made)
        self.assert_problem(self.client.result(cursor), 404, "unknown_pending_id")

    @every([("word", "nonsense"), ("a session", "sess_0123456789ABCDEFGHJKMNPQRS"), ("empty", "")])
    def test_a_foreign_cursor_is_refused(self, cursor):
        self.assert_problem(self.client.get(f"/async-tool/pending?cursor={cursor}"), 400, "invalid_request")

    @every([("zero", "0"), ("negative", "-1"), ("too many", "1001"), ("text", "x")])
    def test_a_limit_out_of_range_is_refused(self, limit):
        self.assert_problem(self.client.get(f"/async-tool/pending?limit={limit}"), 400, "invalid_request")
