"""?wait=: the outcome of the run in the answer, as soon as it ends or parks."""

import json
import socket

import kit
from kit import calls, every, on_result, on_user, says

USAGE = {"input_tokens": 10, "output_tokens": 3}


class Outcomes(kit.Case):
    fresh = True  # sockets are counted

    setup = kit.Setup(
        agents=[{"name": "helper", "tools": ["job", "note"], "script": [
            on_user("two", calls(("job", {"n": 1}, "call_a"), ("job", {"n": 2}, "call_b"), usage=USAGE)),
            on_user("mixed", calls(("job", {}, "call_a"), ("note", {}, "call_n"))),
            on_user("go", calls(("job", {"k": 1.50}, "call_a"), usage=USAGE, say="On it.")),
            on_user("for ever", says("never", delay_ms=30000)),
            on_user("overloaded", {"error": {"status": 400}}),
            on_user("hello", says("hello", usage=USAGE)),
            on_result("job", says("{{result}}", usage=USAGE))]}],
        tools=[{"name": "job", "kind": "external", "description": "Does a job"},
               {"name": "note", "kind": "exec", "command": ["/bin/echo", "noted"]}])

    def test_completed(self):
        # api 2: the outcome of a run
        answer = self.assert_status(self.client.post("/v1/sessions?wait=10s", {"message": "hello"}), 200)
        outcome = answer["outcome"]
        self.assertEqual((outcome["run_id"], outcome["status"]), (answer["run_id"], "completed"))
        self.assertEqual(outcome["output_messages"],
                         [{"role": "assistant", "content": [{"type": "text", "text": "hello"}]}])
        self.assertEqual(outcome["usage"], USAGE)
        self.assertNotIn("suspension", outcome)
        self.assertEqual(answer["status"], "idle")

    def test_suspended(self):
        # S2-37 S2-119 S2-120
        answer = self.assert_status(self.client.post("/v1/sessions?wait=10s", {"message": "go"}), 200)
        outcome = answer["outcome"]
        self.assertEqual(outcome["status"], "suspended")
        suspension = outcome["suspension"]
        call = suspension["pending_tool_calls"][0]
        self.assertEqual((call["id"], call["name"], call["input"], call["reason"], call["pending_id"]),
                         ("call_a", "job", {"k": 1.5}, "input_required", answer["pending"][0]["pending_id"]))
        self.assertEqual(suspension["completed_tool_calls"], [])
        self.assertEqual([m["role"] for m in suspension["turn_messages"]], ["user", "assistant"])
        self.assertEqual((suspension["version"], suspension["usage"]), (1, USAGE))
        self.assertEqual([m["role"] for m in outcome["output_messages"]], ["assistant"])

    def test_a_duplicate_has_the_outcome_of_the_first(self):
        # api 2: suspension is present on resumed outcomes that completed
        pending = self.client.start("go")["pending"][0]["pending_id"]
        first, again = (self.client.result(pending, "r", wait="10s").json for _ in range(2))
        self.assertEqual(first["outcome"]["suspension"]["pending_tool_calls"], [])
        self.assertEqual([m["role"] for m in again["outcome"]["output_messages"]], ["user", "assistant"])
        for part in ("output_messages", "status", "usage"):
            self.assertEqual(again["outcome"][part], first["outcome"][part], part)
        turn = [outcome["outcome"]["suspension"]["turn_messages"] for outcome in (first, again)]
        self.assertEqual(turn[1], turn[0])

    def test_a_suspended_call_has_all_its_fields(self):
        # S2-10
        answer = self.client.post("/v1/sessions?wait=10s", {"message": "go"})
        call = answer["outcome"]["suspension"]["pending_tool_calls"][0]
        self.assertLessEqual({"id", "name", "input", "prompt", "metadata", "reason", "pending_id"}, set(call))

    def test_suspended_with_a_finished_sibling(self):
        # S2-08 S2-44
        outcome = self.client.start("mixed")["outcome"]
        done = outcome["suspension"]["completed_tool_calls"]
        self.assertEqual([(c["id"], c["name"], c["input"]) for c in done], [("call_n", "note", {})])
        self.assertEqual(done[0]["result"]["content"].strip(), "noted")

    def test_resumed_and_completed(self):
        # S2-39
        session = self.client.start("go")
        answer = self.client.post(f"/v1/sessions/{session['id']}/resume?wait=10s",
                                  {"results": {"call_a": {"content": "r"}}})
        outcome = self.assert_status(answer, 200)["outcome"]
        self.assertEqual((outcome["status"], answer["remaining"]), ("completed", []))
        suspension = outcome["suspension"]
        self.assertEqual(suspension["pending_tool_calls"], [])
        self.assertEqual([m["role"] for m in suspension["turn_messages"]], ["user", "assistant", "user", "assistant"])
        self.assertNotIn("resume_token", suspension)

    def test_usage_adds_up_over_the_suspension(self):
        # lessons 2.2: usage paid before the suspension was lost
        session = self.client.start("go")
        self.restart()
        self.client.result(session["pending"][0]["pending_id"], "r", wait="10s")
        self.assertEqual(self.client.session(session["id"])["usage"], {"input_tokens": 20, "output_tokens": 6})
        self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "hello"})
        self.assertEqual(self.client.session(session["id"])["usage"], {"input_tokens": 30, "output_tokens": 9})

    def test_a_partial_result_is_suspended_still(self):
        session = self.client.start("two")
        pending = {c["call_id"]: c["pending_id"] for c in session["pending"]}
        answer = self.assert_status(self.client.result(pending["call_a"], "1", wait="10s"), 200)
        self.assertEqual(answer["outcome"]["status"], "suspended")
        left = answer["outcome"]["suspension"]["pending_tool_calls"]
        self.assertEqual([c["id"] for c in left], ["call_b"])
        answer = self.assert_status(self.client.result(pending["call_b"], "2", wait="10s"), 200)
        self.assertEqual(answer["outcome"]["status"], "completed")

    def test_failed(self):
        answer = self.assert_status(self.client.post("/v1/sessions?wait=10s", {"message": "overloaded"}), 200)
        outcome = answer["outcome"]
        self.assertEqual(outcome["status"], "failed")
        self.assertTrue(outcome["error"])

    def test_cancelled_by_somebody_else(self):
        session = self.client.start()["id"]
        join = self.background(self.client.post, f"/v1/sessions/{session}/messages?wait=30s", {"content": "for ever"})
        self.client.wait_status(session, "running")
        self.client.post(f"/v1/sessions/{session}/cancel")
        self.assertEqual(self.assert_status(join(), 200)["outcome"]["status"], "cancelled")

    def test_the_time_is_over(self):
        answer = self.assert_status(self.client.post("/v1/sessions?wait=100ms", {"message": "for ever"}), 202)
        self.assertNotIn("outcome", answer.json)
        view = self.client.session(answer["id"])
        self.assertEqual((view["status"], view["run"]["run_id"]), ("running", answer["run_id"]))

    def test_whoever_hangs_up_is_not_waited_for(self):
        # With the same key they may ask again, and a server full of such connections takes others.
        body = json.dumps({"message": "for ever"}).encode()
        headers = (f"POST /v1/sessions?wait=5m HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: mine\r\n"
                   f"Authorization: Bearer {self.client.token}\r\nContent-Type: application/json\r\n"
                   f"Content-Length: {len(body)}\r\n\r\n").encode()
        before = self.server.sockets()
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=kit.PATIENCE)
        connection.sendall(headers + body)
        running = lambda: [s for s in self.client.get("/v1/sessions")["items"] if s["status"] == "running"]
        session, = kit.wait_until(running, "the run to begin")
        connection.close()
        kit.wait_until(lambda: self.server.sockets() <= before, "the connection to be let go")
        again = self.client.post("/v1/sessions?wait=100ms", {"message": "for ever"}, headers={"Idempotency-Key": "mine"})
        self.assertEqual((self.assert_status(again, 202)["id"], again["status"]), (session["id"], "running"))

    def test_no_waiting_is_202(self):
        session = self.client.start()["id"]
        answer = self.client.post(f"/v1/sessions/{session}/messages", {"content": "hello"})
        self.assertNotIn("outcome", self.assert_status(answer, 202).json)

    def test_error_with_wait(self):
        session = self.client.start("go")
        answer = self.client.post("/async-tool/error?wait=10s",
                                  {"pendingID": session["pending"][0]["pending_id"], "error": "e"})
        self.assertEqual(self.assert_status(answer, 200)["outcome"]["status"], "completed")

    def test_a_duplicate_with_wait_shows_the_outcome_again(self):
        session = self.client.start("go")
        pending = session["pending"][0]["pending_id"]
        first = self.client.result(pending, "r", wait="10s")
        again = self.assert_status(self.client.result(pending, "r", wait="10s"), 200)
        self.assertEqual((again["duplicate"], again["outcome"]["status"]), (True, first["outcome"]["status"]))

    def test_a_session_without_a_message_has_nothing_to_wait_for(self):
        self.assert_status(self.client.post("/v1/sessions?wait=1s", {}), 201)

    @every([("no unit", "5"), ("another unit", "5h"), ("too long", "6m"), ("too long", "301s"), ("negative", "-1s"),
            ("a fraction", "1.5s"), ("empty", ""), ("text", "soon"), ("huge", "9" * 30 + "s")])
    def test_malformed_times_are_refused_and_nothing_is_done(self, wait):
        before = self.client.get("/v1/sessions")["items"]
        answer = self.client.post(f"/v1/sessions?wait={wait}", {"message": "hello"})
        self.assert_problem(answer, 400, "invalid_request")
        self.assertEqual(self.client.get("/v1/sessions")["items"], before)

    def test_shutdown_answers_who_waits(self):
        # What was accepted is durable: the caller is told, or finds it after the restart.
        session = self.client.start()["id"]
        join = self.background(self.client.post, f"/v1/sessions/{session}/messages?wait=30s", {"content": "for ever"})
        self.client.wait_status(session, "running")
        self.assertEqual(self.server.stop(), 0)
        try:
            self.assertIn(join().status, (200, 202, 503))
        except OSError:
            pass


class InLine(kit.Case):
    """Runs that wait for a place."""

    fresh = True
    setup = kit.Setup(
        agents=[{"name": "helper", "script": [
            on_user("for ever", says("never", delay_ms=30000)), on_user("think", says("thought", delay_ms=300)),
            on_user("hello", says("hello"))]}],
        limits={"concurrent_runs": 1})

    def queued(self):
        metrics = self.client.get("/metrics").body.decode().splitlines()
        return next(int(line.split()[1]) for line in metrics if line.startswith("rouse_runs_queued "))

    def test_one_that_is_cancelled_in_line_is_told_at_once(self):
        working = self.client.start("for ever", wait=None)["id"]
        waiting = [self.client.start("hello", wait=None)["id"] for _ in range(3)]
        self.assertEqual(self.queued(), 3)
        answer = self.client.post(f"/v1/sessions/{waiting[0]}/cancel?wait=10s", {})
        self.assertEqual(self.assert_status(answer, 200)["outcome"]["status"], "cancelled")
        self.assert_status(self.client.delete(f"/v1/sessions/{waiting[1]}"), 204)
        self.assertEqual(self.queued(), 1)
        self.client.post(f"/v1/sessions/{working}/cancel?wait=10s", {})
        self.client.wait_kind(waiting[2], "run.completed")

    def test_one_that_died_and_goes_on_in_line_is_told_of_its_end(self):
        # api 1: the first answer again, with the outcome as it is by then
        body, keys = {"message": "think"}, [f"key {n}" for n in range(3)]
        for key in keys:
            self.client.post("/v1/sessions", body, headers={"Idempotency-Key": key})
        self.restart()
        for key in keys:
            again = self.client.post("/v1/sessions?wait=10s", body, headers={"Idempotency-Key": key})
            self.assert_status(again, 200)
