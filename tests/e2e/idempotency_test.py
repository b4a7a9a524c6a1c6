"""Idempotency keys: the first answer again, also after a crash."""

import kit
from kit import calls, every, on_result, on_user, says


class IdempotencyCase(kit.Case):
    setup = kit.Setup(
        agents=[{"name": "helper", "tools": ["job"], "script": [
            on_user("go", calls(("job", {}, "call_j"))), on_user("think", says("thought", delay_ms=600)),
            on_user("hello", says("hello")), on_result("job", says("{{result}}"))]}],
        tools=[{"name": "job", "kind": "external"}])

    def setUp(self):
        super().setUp()
        self.key = self._testMethodName

    def post(self, path, body=None, key=None, client=None, **more):
        return (client or self.client).post(path, body or {}, headers={"Idempotency-Key": key or self.key}, **more)

    def assert_replayed(self, again, first):
        self.assertEqual(again.status, first.status, again)
        self.assertEqual(again.headers["Idempotency-Replayed"], "true")
        self.assertIsNone(first.headers["Idempotency-Replayed"])

    def count(self, task):
        return len(self.client.get(f"/v1/sessions?task_id={task}")["items"])


class Replays(IdempotencyCase):
    def test_a_session_is_made_once(self):
        first = self.assert_status(self.post("/v1/sessions", {"task_id": self.key}), 201)
        again = self.post("/v1/sessions", {"task_id": self.key})
        self.assert_replayed(again, first)
        self.assertEqual(again["id"], first["id"])
        self.assertEqual(again.headers["Location"], first.headers["Location"])
        self.restart()
        after = self.post("/v1/sessions", {"task_id": self.key})
        self.assert_replayed(after, first)
        self.assertEqual((after["id"], self.count(self.key)), (first["id"], 1))

    def test_the_first_answer_comes_again_whole(self):
        # api 1: gives the first answer again
        first = self.post("/v1/sessions", {"title": "T"})
        self.assertEqual(self.post("/v1/sessions", {"title": "T"}).json, first.json)
        session = first["id"]
        fork = self.post(f"/v1/sessions/{session}/fork", {})
        self.assertEqual(self.post(f"/v1/sessions/{session}/fork", {}).json, fork.json)

    def test_a_message_is_sent_once(self):
        session = self.client.start()["id"]
        path = f"/v1/sessions/{session}/messages"
        first = self.assert_status(self.post(path, {"content": "hello"}), 202)
        for restarted in (False, True):
            if restarted:
                self.client.wait_status(session, "idle")
                self.restart()
            again = self.post(path, {"content": "hello"})
            self.assert_replayed(again, first)
            self.assertEqual(again.json, first.json)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.kinds(session).count("message.user"), 1)

    def test_every_change_of_a_session(self):
        session = self.client.start("go")
        path = f"/v1/sessions/{session['id']}"
        for verb, body in (("extend", {"seconds": 900}), ("resume", {"results": {"call_j": {"content": "r"}}}),
                           ("compact", {"summary": "s"}), ("fork", {"title": "F"}),
                           ("messages", {"content": "go"}), ("cancel", {})):
            if verb == "compact":
                self.client.wait_status(session["id"], "idle")
            if verb == "cancel":
                self.client.wait_status(session["id"], "waiting")
            with self.subTest(verb):
                first = self.post(f"{path}/{verb}", body)
                self.assertLess(first.status, 300, first)
                before = self.client.log(session["id"])
                again = self.post(f"{path}/{verb}", body)
                self.assert_replayed(again, first)
                self.assertEqual(self.client.log(session["id"])[:len(before)], before)
        kinds = self.client.kinds(session["id"])
        self.assertEqual([kinds.count(k) for k in ("session.compacted", "run.cancelled", "message.user")], [1, 1, 2])
        self.assertEqual(len([s for s in self.client.get("/v1/sessions?limit=500")["items"] if s["title"] == "F"]), 1)

    def test_a_result(self):
        session = self.client.start("go")
        body = {"pendingID": session["pending"][0]["pending_id"], "result": {"title": "t", "output": "o"}}
        first = self.assert_status(self.post("/async-tool/result", body), 200)
        again = self.post("/async-tool/result", body)
        self.assert_replayed(again, first)
        self.assertEqual(again.json, first.json)

    def test_a_task_is_made_once(self):
        # api 1: on any POST
        first = self.assert_status(self.post("/v1/tasks", {"id": self.key}), 201)
        self.assert_replayed(self.post("/v1/tasks", {"id": self.key}), first)

    def test_the_outcome_comes_again(self):
        # api 1: gives the first answer again
        message = f"/v1/sessions/{self.client.start()['id']}/messages?wait=10s"
        waiting = self.client.start("go")["pending"][0]["pending_id"]
        for path, body in (("/v1/sessions?wait=10s", {"message": "hello"}), (message, {"content": "hello"}),
                           ("/async-tool/result?wait=10s", {"pendingID": waiting, "result": {"title": "", "output": "o"}})):
            with self.subTest(path):
                one, again = self.post(path, body), self.post(path, body)
                self.assert_status(one, 200)
                self.assertEqual((again.status, again.headers["Idempotency-Replayed"]), (200, "true"), again)
                for key in ("run_id", "status"):
                    self.assertEqual(again["outcome"][key], one["outcome"][key])
                self.assertEqual(again["outcome"]["output_messages"][-1], one["outcome"]["output_messages"][-1])

    def test_the_resume_token_is_not_shown_twice(self):
        # design: the secret is shown once, never in a replayed answer
        first = self.post("/v1/sessions?wait=10s", {"message": "go"})
        self.assertIn("resume_token", first["outcome"]["suspension"])
        again = self.post("/v1/sessions?wait=10s", {"message": "go"})
        self.assert_replayed(again, first)
        self.assertEqual(again["outcome"]["status"], "suspended")
        self.assertEqual([call["pending_id"] for call in again["outcome"]["suspension"]["pending_tool_calls"]],
                         [call["pending_id"] for call in first["outcome"]["suspension"]["pending_tool_calls"]])
        self.assertNotIn(first["outcome"]["suspension"]["resume_token"], again.body.decode())

    def test_a_retry_waits_for_a_run_that_is_under_way(self):
        session = self.client.start()["id"]
        path = f"/v1/sessions/{session}/messages"
        first = self.assert_status(self.post(path, {"content": "think"}), 202)
        again = self.assert_status(self.post(path + "?wait=10s", {"content": "think"}), 200)
        self.assertEqual(again.headers["Idempotency-Replayed"], "true")
        self.assertEqual((again["outcome"]["run_id"], again["outcome"]["status"]), (first["run_id"], "completed"))
        self.assertEqual(again["message_id"], first["message_id"])

    def test_a_session_that_was_deleted_since(self):
        first = self.post("/v1/sessions", {"task_id": self.key})
        path = f"/v1/sessions/{first['id']}/messages"
        said = self.post(path, {"content": "hello"})
        self.client.wait_status(first["id"], "idle")
        self.client.delete(f"/v1/sessions/{first['id']}")
        for where, body in (("/v1/sessions", {"task_id": self.key}), (path + "?wait=10s", {"content": "hello"})):
            again = self.assert_problem(self.post(where, body), 410, "session_gone")
            self.assertIsNone(again.headers["Idempotency-Replayed"])  # no first answer was a refusal
        again = self.post(path, {"content": "hello"})
        self.assert_replayed(again, said)
        self.assertEqual((again.json, self.count(self.key)), (said.json, 0))

    def test_reading_has_no_keys(self):
        for _ in range(2):
            answer = self.client.get("/v1/sessions", headers={"Idempotency-Key": self.key})
            self.assertIsNone(answer.headers["Idempotency-Replayed"])


class Refusals(IdempotencyCase):
    def test_another_body_under_the_same_key(self):
        # T31
        self.post("/v1/sessions", {"task_id": self.key, "title": "one"})
        for restarted in (False, True):
            if restarted:
                self.restart()
            answer = self.post("/v1/sessions", {"task_id": self.key, "title": "two"})
            self.assert_problem(answer, 422, "idempotency_key_reused")
        self.assertEqual(self.count(self.key), 1)

    def test_the_first_is_still_under_way(self):
        session = self.client.start()["id"]
        path = f"/v1/sessions/{session}/messages?wait=10s"
        join = self.background(self.post, path, {"content": "think"})
        self.client.wait_status(session, "running")
        self.assert_problem(self.post(path, {"content": "think"}), 409, "idempotency_in_progress")
        self.assertEqual(join()["outcome"]["status"], "completed")
        self.assertEqual(self.post(path, {"content": "think"}).headers["Idempotency-Replayed"], "true")
        self.assertEqual(self.client.kinds(session).count("message.user"), 1)

    def test_refusals_are_not_remembered(self):
        session = self.client.start("go")
        path = f"/v1/sessions/{session['id']}/messages"
        body = {"content": "hello", "on_waiting": "reject"}
        self.assert_problem(self.post(path, body), 409, "input_on_suspended_session")
        self.client.result(session["pending"][0]["pending_id"], wait="10s")
        self.assert_status(self.post(path, body), 202)

    def test_a_key_is_a_principals_own(self):
        # T31: scoped to principal and route
        one, two = self.token("submit"), self.token("submit")
        first = self.post("/v1/sessions", {"title": "x"}, client=one)
        other = self.post("/v1/sessions", {"title": "x"}, client=two)
        self.assertEqual(other.status, 201)
        self.assertNotEqual(first["id"], other["id"])

    def test_a_key_is_of_one_route(self):
        first = self.client.start()["id"]
        other = self.client.start()["id"]
        for session in (first, other):
            answer = self.post(f"/v1/sessions/{session}/messages", {"content": "hello"})
            self.assertIsNone(answer.headers["Idempotency-Replayed"])

    @every([("too long", "k" * 256), ("far too long", "k" * 5000)])
    def test_a_key_has_a_limit(self, key):
        self.assert_problem(self.post("/v1/sessions", {}, key=key), 400, "invalid_request")

    def test_kill_9_at_any_time_makes_one_session(self):
        for round_ in range(6):
            task = f"{self.key}-{round_}"[-60:]
            join = self.background(self.post, "/v1/sessions", {"task_id": task, "message": "hello"}, key=task)
            if round_ % 2:
                kit.wait_until(lambda: self.count(task), "the session")
            self.server.kill()
            try:
                join()
            except OSError:
                pass
            self.server.start()
            self.client = self.server.client()
            answer = self.post("/v1/sessions", {"task_id": task, "message": "hello"}, key=task)
            self.assertEqual(answer.status, 201, answer)
            self.assertEqual(self.count(task), 1)
            self.client.wait_status(answer["id"], "idle")
