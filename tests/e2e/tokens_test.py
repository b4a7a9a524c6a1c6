"""Resume tokens: one secret for one wait, used at most once."""

import json
import threading

import kit
from kit import calls, every, on_result, on_user, says

SCRIPT = [
    on_user("two", calls(("job", {"n": 1}, "call_a"), ("job", {"n": 2}, "call_b"))),
    on_user("chain", calls(("job", {"n": 1}, "call_one"))),
    on_user("quick", calls(("quick", {}, "call_q"))),
    on_user("strict", calls(("strict", {}, "call_s"))),
    on_user("go", calls(("job", {}, "call_a"))),
    on_user("ask me", calls(("ask_user", {"question": "well?", "type": "confirm"}))),
    on_result("job", says("{{result}}")), on_result("quick", says("{{result}}")),
    on_result("strict", says("{{result}}")),
    says("hello", repeat=True),
]


class TokenCase(kit.Case):
    setup = kit.Setup(
        agents=[{"name": "helper", "script": SCRIPT, "tools": ["job", "quick", "strict", "ask_user"]}],
        tools=[{"name": "job", "kind": "external"}, {"name": "quick", "kind": "external", "timeout": "300ms"},
               {"name": "strict", "kind": "external", "result_schema": {"type": "object"}}])

    def suspend(self, message="go", **fields):
        """(session id, token) of a session that waits."""
        session = self.client.start(message, **fields)
        self.assertEqual(session["outcome"]["status"], "suspended", session)
        return session["id"], session["outcome"]["suspension"]["resume_token"]

    def resume(self, session, token, results=None, wait=None, client=None, **more):
        body = {}
        if token is not None:
            body["token"] = token
        if results is not None:
            body["results"] = {call: value if isinstance(value, dict) else {"content": value}
                               for call, value in results.items()}
        return (client or self.client).post(f"/v1/sessions/{session}/resume" + (f"?wait={wait}" if wait else ""),
                                            {**body, **more})

    def records(self, session, prefix):
        return [r for r in self.client.log(session) if r["kind"].startswith(prefix)]


class Minting(TokenCase):
    def test_a_wait_mints_a_token_that_is_shown_once_and_stored_hashed(self):
        # S3-42 S3-43
        session, token = self.suspend()
        self.assertRegex(token, r"^rt_[0-9A-Z]{26}\.[0-9A-Za-z_-]{43,}$")  # 32 random bytes at least
        token_id, secret = token.split(".", 1)
        wait = self.client.session(session)["run"]["wait"]
        self.assertEqual(wait["resume_token_id"], token_id)
        minted = self.records(session, "token.")
        self.assertEqual([r["kind"] for r in minted], ["token.minted"])
        self.assertEqual((minted[0]["token_id"], minted[0]["wait_id"], minted[0]["wait_kind"]),
                         (token_id, wait["wait_id"], wait["kind"]))
        self.assertEqual(minted[0]["run_id"], self.client.session(session)["run"]["run_id"])
        self.assertEqual(minted[0]["expires_at"], wait["deadline_at"])
        pages = [self.client.get(path).body.decode() for path in (
            f"/v1/sessions/{session}", f"/v1/sessions/{session}/log", f"/v1/sessions/{session}/explain",
            f"/v1/sessions/{session}/messages", "/v1/waits", "/v1/sessions", "/async-tool/pending")]
        self.assertEqual(self.server.stop(), 0)
        index = json.loads((self.server.data / f"sessions/{session}.tokens.json").read_text())  # S3-26
        self.assertIn(token_id, json.dumps(index))
        pages += [path.read_bytes().decode(errors="replace") for path in self.server.data.rglob("*")
                  if path.is_file() and path.name != "token"]
        pages.append(self.server.stderr())
        for page in pages:
            self.assertNotIn(secret, page)

    def test_the_wait_says_how_long(self):
        # S3-42, design 7: the latest call's timeout and an hour
        session, _ = self.suspend()
        view = self.client.session(session)
        call, wait = view["pending"][0], view["run"]["wait"]
        self.assertEqual(wait["kind"], "external")
        self.assertGreater(wait["deadline_at"], call["expires_at"])

    def test_a_message_with_wait_shows_the_token_too(self):
        session = self.client.start("hello")["id"]
        answer = self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "go"})
        token = self.assert_status(answer, 200)["outcome"]["suspension"]["resume_token"]
        self.assert_status(self.resume(session, token, {"call_a": "r"}), 202)

    def test_who_may_not_answer_for_a_person_does_not_get_the_token_that_does(self):
        # api 1: answers for a person take operate
        outcome = self.token("submit").start("ask me")["outcome"]
        self.assertEqual(outcome["status"], "suspended")
        self.assertNotIn("resume_token", outcome["suspension"])
        self.assertIn("resume_token", self.token("operate").start("ask me")["outcome"]["suspension"])

    def test_a_replayed_answer_does_not_show_the_secret(self):
        # design 7 Tokens: never in a replayed answer
        headers = {"Idempotency-Key": "mint-once"}
        first = self.client.post("/v1/sessions?wait=10s", {"message": "go"}, headers=headers)
        secret = first["outcome"]["suspension"]["resume_token"].split(".")[1]
        again = self.client.post("/v1/sessions?wait=10s", {"message": "go"}, headers=headers)
        self.assertEqual(again.headers["Idempotency-Replayed"], "true")
        self.assertEqual(again["id"], first["id"])
        self.assertNotIn(secret, again.body.decode())


class Using(TokenCase):
    def test_the_right_token_resumes_and_is_consumed_once(self):
        # S3-44 S3-45 S3-46 S3-63
        session, token = self.suspend()
        answer = self.assert_status(self.resume(session, token, {"call_a": "done"}), 202)
        self.assertEqual(answer["remaining"], [])
        self.assertEqual(answer["run_id"], self.client.session(session)["run"]["run_id"])
        self.assertNotIn("duplicate", {k: v for k, v in answer.json.items() if v})
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "done")
        self.assertEqual([r["kind"] for r in self.records(session, "token.")], ["token.minted", "token.consumed"])
        log = self.client.kinds(session)
        # One commit: the result, the token and the run.
        at = log.index("pending.completed")
        self.assertEqual(log[at:at + 3], ["pending.completed", "token.consumed", "run.resumed"])
        self.assertEqual(answer["seq"], at + 3)

    def test_a_resume_after_kill_9_and_restart(self):
        # S3-46 over a boot
        session, token = self.suspend()
        self.restart()
        outcome = self.assert_status(self.resume(session, token, {"call_a": "done"}, wait="10s"), 200)["outcome"]
        self.assertEqual(outcome["status"], "completed")
        self.assertNotIn("resume_token", outcome.get("suspension", {}))

    def test_the_outside_shape_of_a_result_is_taken_too(self):
        # api 2: S0's {title, output, metadata} wherever a tool result is
        session, token = self.suspend()
        self.assert_status(self.resume(session, token, {"call_a": {"title": "T", "output": "o", "metadata": {"k": 1}}},
                                       wait="10s"), 200)
        part = [p for e in self.client.transcript(session) for p in e["parts"]][0]
        self.assertEqual((part["state"]["title"], part["state"]["output"], part["state"]["metadata"]),
                         ("T", "o", {"k": 1}))

    def test_blocks_and_errors_as_results(self):
        session, token = self.suspend("two")
        self.assert_status(self.resume(session, token, {
            "call_a": {"content": [{"type": "text", "text": "block"}]},
            "call_b": {"content": "it failed", "is_error": True}}, wait="10s"), 200)
        parts = [p for e in self.client.transcript(session) for p in e["parts"]]
        self.assertEqual([p["state"]["status"] for p in parts], ["completed", "error"])

    def test_the_same_results_again_are_a_duplicate(self):
        # S3-63
        session, token = self.suspend("two")
        results = {"call_a": "1", "call_b": "2"}
        self.assert_status(self.resume(session, token, results), 202)
        self.client.wait_status(session, "idle")
        for restarted in (False, True):
            if restarted:
                self.restart()
            with self.nothing_changes(session):
                again = self.assert_status(self.resume(session, token, dict(reversed(results.items()))), 202)
                self.assertIs(again["duplicate"], True)
                self.assert_problem(self.resume(session, token, {"call_a": "1", "call_b": "other"}),
                                    409, "conflicting_result")
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hi"})
        with self.nothing_changes(session):  # turns later, still
            self.assertIs(self.assert_status(self.resume(session, token, results), 202)["duplicate"], True)
            self.assert_problem(self.resume(session, token, {"call_a": "x", "call_b": "2"}), 409, "conflicting_result")

    @every([("waits by now", "go"), ("had no wait", "hello")])
    def test_a_duplicate_names_the_run_that_was_resumed(self, next_message):
        # S3-63: the second call's answer is that of the first
        session, token = self.suspend()
        first = self.assert_status(self.resume(session, token, {"call_a": "r"}, wait="10s"), 200)
        second = self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": next_message})
        self.assertNotEqual(second["run_id"], first["run_id"])
        again = self.assert_status(self.resume(session, token, {"call_a": "r"}, wait="10s"), 200)
        self.assertIs(again["duplicate"], True)
        for key in ("run_id", "seq", "remaining"):
            self.assertEqual(again[key], first[key], key)
        self.assertEqual((again["outcome"]["run_id"], again["outcome"]["status"]), (first["run_id"], "completed"))

    def test_equal_resumes_that_race_are_taken_once(self):
        # S3-63 P3 T6
        session, token = self.suspend()
        answers = self.race([lambda: self.resume(session, token, {"call_a": "same"})] * 8)
        self.assertEqual([a.status for a in answers], [202] * 8, answers)
        self.assertEqual(sum(1 for a in answers if not a.get("duplicate")), 1)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.kinds(session).count("token.consumed"), 1)
        self.assertEqual(self.client.kinds(session).count("run.completed"), 1)

    def test_both_doors_race_and_one_wins(self):
        # design 7 "Two doors, one lock"
        session, token = self.suspend()
        pending = self.client.session(session)["pending"][0]["pending_id"]
        answers = self.race([lambda: self.resume(session, token, {"call_a": {"title": "t", "output": "door one"}}),
                             lambda: self.client.result(pending, "door two", title="t")])
        self.assertIn(sorted(a.status for a in answers)[1], (409, 410), answers)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.kinds(session).count("run.resumed"), 1)

    def race(self, functions):
        start = threading.Barrier(len(functions))

        def run(function):
            start.wait()
            return function()
        return [join() for join in [self.background(run, function) for function in functions]]

    def test_a_call_settled_by_the_other_door(self):
        # api 2: equal passes, different 409
        session, token = self.suspend()
        pending = self.client.session(session)["pending"][0]["pending_id"]
        self.client.result(pending, "out", title="t", wait="10s")
        with self.nothing_changes(session):
            equal = self.resume(session, token, {"call_a": {"title": "t", "output": "out"}})
            self.assertIs(self.assert_status(equal, 202)["duplicate"], True)
        session, token = self.suspend("two")
        first = [c for c in self.client.session(session)["pending"] if c["call_id"] == "call_a"][0]["pending_id"]
        self.client.result(first, "one", title="")
        with self.nothing_changes(session):
            self.assert_problem(self.resume(session, token, {"call_a": "other", "call_b": "two"}),
                                409, "conflicting_result")
        both = self.resume(session, token, {"call_a": {"title": "", "output": "one"}, "call_b": "two"})
        self.assertEqual(self.assert_status(both, 202)["remaining"], [])

    def test_partial_results_keep_the_wait_and_its_token(self):
        # S2-46 S3-46, design 6
        session, token = self.suspend("two")
        wait = self.client.session(session)["run"]["wait"]
        answer = self.assert_status(self.resume(session, token, {"call_b": "2"}), 202)
        self.assertEqual(answer["remaining"], ["call_a"])
        view = self.client.session(session)
        self.assertEqual((view["status"], view["run"]["wait"]), ("waiting", wait))
        self.restart()
        with self.nothing_changes(session):
            again = self.assert_status(self.resume(session, token, {"call_b": "2"}), 202)
            self.assertEqual((again["duplicate"], again["remaining"]), (True, ["call_a"]))
            self.assert_problem(self.resume(session, token, {"call_b": "3"}), 409, "conflicting_result")
        self.assertEqual(self.assert_status(self.resume(session, token, {"call_a": "1"}), 202)["remaining"], [])
        self.client.wait_status(session, "idle")
        self.assertEqual([r["kind"] for r in self.records(session, "token.")], ["token.minted", "token.consumed"])

    def test_one_unknown_call_refuses_all_of_them(self):
        # S2-24 S2-55
        session, token = self.suspend("two")
        with self.nothing_changes(session):
            self.assert_problem(self.resume(session, token, {"call_a": "1", "call_z": "2"}),
                                409, "unknown_pending_tool_call")
        self.assert_status(self.resume(session, token, {"call_a": "1", "call_b": "2"}), 202)

    def test_a_result_that_does_not_fit_burns_nothing(self):
        # design 6: a resume that fails before its commit burns nothing
        session, token = self.suspend("strict")
        with self.nothing_changes(session):
            self.assert_problem(self.resume(session, token, {"call_s": "[1]"}), 400, "result_validation_failed")
        self.assert_status(self.resume(session, token, {"call_s": "{}"}), 202)


class Refusing(TokenCase):
    def test_wrong_foreign_and_unknown_tokens_look_the_same(self):
        # S3-44 T5: the two can't be told apart
        session, token = self.suspend()
        _, foreign = self.suspend()
        token_id, secret = token.split(".")
        wrong = {
            "wrong secret": token_id + "." + ("A" if secret[0] != "A" else "B") + secret[1:],
            "short secret": token[:-1], "foreign": foreign,
            "foreign id, own secret": foreign.split(".")[0] + "." + secret,
            "own id, foreign secret": token_id + "." + foreign.split(".")[1],
            "unknown": "rt_" + "0" * 26 + "." + secret,
        }
        answers = {}
        with self.nothing_changes(session):
            for name, text in wrong.items():
                answer = self.assert_problem(self.resume(session, text, {"call_a": "x"}), 401, "invalid_token")
                answers[name] = {k: v for k, v in answer.json.items() if k != "request_id"}
        self.assertEqual(len({json.dumps(a, sort_keys=True) for a in answers.values()}), 1, answers)
        self.assert_status(self.resume(session, token, {"call_a": "x"}), 202)

    @every([("empty", ""), ("no dot", "rt_abc"), ("no secret", "rt_" + "0" * 26 + "."), ("spaces", " "),
            ("an API token", "rk_x.y"), ("long", "rt_" + "x" * 10000), ("control", "rt_\n.x")])
    def test_a_malformed_token_is_invalid(self, text):
        session, _ = self.suspend()
        with self.nothing_changes(session):
            self.assert_problem(self.resume(session, text, {"call_a": "x"}), 401, "invalid_token")

    def test_who_may_do_without_a_token(self):
        # api 2: token may be absent with scope operate
        session, token = self.suspend()
        with self.nothing_changes(session):
            self.assert_problem(self.resume(session, None, {"call_a": "x"}, client=self.token("submit")),
                                400, "token_required")
            self.assert_problem(self.resume(session, token, {"call_a": "x"}, client=self.token("read")),
                                403, "forbidden")
        self.assert_status(self.resume(session, None, {"call_a": "x"}, client=self.token("operate")), 202)
        session, token = self.suspend()
        self.assert_status(self.resume(session, token, {"call_a": "x"}, client=self.token("submit")), 202)

    @every([("no results", None), ("empty results", {})])
    def test_results_are_needed(self, results):
        # S2-21 S2-56
        session, token = self.suspend()
        with self.nothing_changes(session):
            self.assert_problem(self.resume(session, token, results), 409, "resume_required")

    def test_a_call_that_is_answered_twice_at_once_is_not_answered(self):
        session, token = self.suspend()
        raw = f'{{"token": "{token}", "results": {{"call_a": {{"content": "x"}}, "call_a": {{"content": "y"}}}}}}'
        with self.nothing_changes(session):
            answer = self.client.request("POST", f"/v1/sessions/{session}/resume", raw=raw)
            self.assert_problem(answer, 400, "invalid_request")

    def test_nothing_is_suspended(self):
        # S2-23
        session = self.client.start("hello")["id"]
        with self.nothing_changes(session):
            self.assert_problem(self.resume(session, None, {"call_a": "x"}), 409, "no_suspended_turn")
            self.assert_problem(self.client.post(f"/v1/sessions/{session}/resume-token"), 409, "no_suspended_turn")

    def test_input_is_not_results(self):
        # S2-22
        session, token = self.suspend()
        with self.nothing_changes(session):
            self.assert_problem(self.resume(session, token, None, input="hello"), 409, "input_on_suspended_session")

    def test_a_rotated_token_is_revoked_and_the_new_one_works(self):
        # S3-47 S3-51
        session, old = self.suspend()
        wait = self.client.session(session)["run"]["wait"]
        answer = self.assert_status(self.client.post(f"/v1/sessions/{session}/resume-token"), 200)
        self.assertEqual(set(answer.json), {"token", "token_id", "expires_at"})
        new = answer["token"]
        self.assertEqual(new.split(".")[0], answer["token_id"])
        self.assertEqual(answer["expires_at"], wait["deadline_at"])
        after = self.client.session(session)["run"]["wait"]
        self.assertEqual(after, {**wait, "resume_token_id": answer["token_id"]})
        for restarted in (False, True):
            if restarted:
                self.restart()
            with self.nothing_changes(session):
                self.assert_problem(self.resume(session, old, {"call_a": "x"}), 410, "token_revoked")
        self.assert_status(self.resume(session, new, {"call_a": "x"}), 202)
        self.client.wait_status(session, "idle")
        self.assertEqual([r["kind"] for r in self.records(session, "token.")],
                         ["token.minted", "token.revoked", "token.minted", "token.consumed"])

    def test_a_rotation_is_not_replayed(self):
        # the secret is shown once
        session, _ = self.suspend()
        headers = {"Idempotency-Key": "rotate"}
        first = self.client.post(f"/v1/sessions/{session}/resume-token", headers=headers)
        again = self.client.post(f"/v1/sessions/{session}/resume-token", headers=headers)
        self.assertNotIn(first["token"], again.body.decode())

    def test_rotation_needs_operate(self):
        session, _ = self.suspend()
        self.assert_problem(self.token("submit").post(f"/v1/sessions/{session}/resume-token"), 403, "forbidden")

    @every([("cancel", "cancel", {}), ("supersede", "messages", {"content": "hello"})])
    def test_what_ends_the_run_revokes_the_token(self, verb, body):
        # S3-41 S3-48 S3-49 S3-51
        session, token = self.suspend()
        self.assert_status(self.client.post(f"/v1/sessions/{session}/{verb}", body), 202)
        self.client.wait_status(session, "idle")
        for restarted in (False, True):
            if restarted:
                self.restart()
            with self.nothing_changes(session):
                self.assert_problem(self.resume(session, token, {"call_a": "x"}), 410, "token_revoked")
        revoked = self.records(session, "token.revoked")
        self.assertEqual(len(revoked), 1)
        self.assertTrue(revoked[0]["reason"])

    def test_a_token_of_an_earlier_wait_does_not_open_a_later_one(self):
        # S3-44: scoped to session, run and wait
        session, first = self.suspend()
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "go"})  # supersedes, waits again
        self.assertEqual(self.client.session(session)["status"], "waiting")
        with self.nothing_changes(session):
            self.assert_problem(self.resume(session, first, {"call_a": "x"}), 410, "token_revoked")

    def test_acknowledged_cancel_consumes_it(self):
        session, token = self.suspend()
        self.assert_status(self.client.post(f"/v1/sessions/{session}/cancel", {"mode": "acknowledge"}), 202)
        self.client.wait_status(session, "idle")
        self.assert_problem(self.resume(session, token, {"call_a": "x"}), 410, "token_consumed")

    def test_expiry_consumes_it(self):
        # S3-39 S3-47 S3-62 S3-74: stale-token rejection
        session, token = self.suspend("quick")
        self.client.wait_status(session, "idle")
        consumed = self.records(session, "token.consumed")
        self.assertEqual([r["reason"] for r in consumed], ["expired"])
        with self.nothing_changes(session):
            self.assert_problem(self.resume(session, token, {"call_q": "x"}), 410, "token_consumed")

    def test_a_deleted_session_takes_no_token(self):
        session, token = self.suspend()
        self.client.delete(f"/v1/sessions/{session}")
        self.assert_problem(self.resume(session, token, {"call_a": "x"}), 410, "session_gone")

    def test_a_resume_by_the_pending_id_leaves_no_usable_token(self):
        session, token = self.suspend()
        pending = self.client.session(session)["pending"][0]["pending_id"]
        self.client.result(pending, "by id", wait="10s")
        with self.nothing_changes(session):
            self.assertIn(self.resume(session, token, {"call_a": "by token"}).status, (409, 410))

    def test_another_result_than_the_one_by_the_other_door_is_a_conflict(self):
        # api 2: a result for a call already settled by the other door: equal passes, different 409
        session, token = self.suspend()
        pending = self.client.session(session)["pending"][0]["pending_id"]
        self.client.result(pending, "by id", wait="10s")
        self.assert_problem(self.resume(session, token, {"call_a": "by token"}), 409, "conflicting_result")

    @every([
        ("results is a list", {"results": []}), ("a result is a number", {"results": {"call_a": 1}}),
        ("token is a number", {"token": 1, "results": {"call_a": {"content": "x"}}}),
        ("unknown field", {"results": {"call_a": {"content": "x"}}, "scope": "admin"}),
        ("result without content", {"results": {"call_a": {"display": "x"}}}),
    ])
    def test_malformed_bodies_are_refused(self, body):
        session, _ = self.suspend()
        with self.nothing_changes(session):
            self.assert_problem(self.client.post(f"/v1/sessions/{session}/resume", body), 400, "invalid_request")
