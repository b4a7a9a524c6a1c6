"""Systems outside: how async http tools are started, and how their callbacks are believed."""

import json
import signal
import threading

import kit
from kit import calls, every, on_result, on_user, says, signature

SECRET = "canary-Z7qPw2-secret"
TOOLS = ("strict_job", "list_job", "late_job", "open_job", "signed_job", "pulled", "person", "quick_job",
         "brief_start", "told_job", "ask", "fetch", "not_there")


class CallbackCase(kit.Case):
    env = {"DEPLOY_SECRET": SECRET, "OTHER_SECRET": "other", "API_KEY": "canary-header-key"}

    @classmethod
    def make_setup(cls):
        url = cls.outside.url
        script = [on_user(tool, calls((tool, {"branch": "main"}))) for tool in TOOLS]
        script += [on_result(tool, says("{{result}}")) for tool in TOOLS]
        script.append(on_user("both", calls(("open_job", {}), ("fetch", {}))))
        return kit.Setup(
            agents=[{"name": "helper", "script": script, "tools": list(TOOLS)}],
            tools=[
                {"name": "strict_job", "kind": "http", "url": url + "/start", "async": True, "result_schema": {
                    "properties": {"url": {"pattern": "^https?://[a-z./]+$"}, "at": {"format": "date-time"}}}},
                {"name": "list_job", "kind": "http", "url": url + "/start", "async": True,
                 "result_schema": {"type": "array", "items": {"type": "string"}}},
                {"name": "late_job", "kind": "http", "url": url + "/start", "async": True, "timeout": "2s",
                 "webhook_url": url + "/late"},
                {"name": "open_job", "kind": "http", "url": url + "/start", "async": True,
                 "headers": {"X-Api-Key": "env:API_KEY"}},
                {"name": "signed_job", "kind": "http", "url": url + "/start", "async": True,
                 "callback_secret_env": "DEPLOY_SECRET"},
                {"name": "quick_job", "kind": "http", "url": url + "/start", "async": True, "timeout": "300ms",
                 "callback_secret_env": "DEPLOY_SECRET"},
                {"name": "brief_start", "kind": "http", "url": url + "/stuck", "async": True,
                 "start_timeout": "200ms"},
                {"name": "told_job", "kind": "http", "url": url + "/start", "async": True,
                 "webhook_url": url + "/told", "callback_secret_env": "DEPLOY_SECRET"},
                {"name": "pulled", "kind": "external"},
                {"name": "person", "kind": "external", "waits_for": "person"},
                {"name": "ask", "kind": "http", "url": url + "/ask", "timeout": "300ms"},
                {"name": "fetch", "kind": "http", "url": url + "/fetch", "method": "GET"},
                {"name": "not_there", "kind": "http", "url": "http://127.0.0.1:9/none", "async": True},
            ])

    def setUp(self):
        super().setUp()
        self.outside.received.clear()
        self.outside._answers.clear()
        self.stranger = self.server.client(None)

    def suspend(self, tool, **fields):
        session = self.client.start(f"use {tool}", **fields)
        self.assertEqual(session["outcome"]["status"], "suspended", session)
        return session["id"], session["pending"][0]["pending_id"]

    def webhook(self, body, sign=None, client=None, path="/async-tool/webhook"):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {} if sign is None else {"X-Webhook-Signature": sign}
        return (client or self.stranger).post(path, raw=raw, headers=headers)

    def words(self, session):
        self.client.wait_status(session, "idle")
        return self.client.last_words(session)


def result_body(pending, output="up"):
    return json.dumps({"pendingID": pending, "result": {"title": "T", "output": output, "metadata": {}}}).encode()


class SignedWebhooks(CallbackCase):
    @every([("plain hex", ""), ("with its prefix", "sha256=")])
    def test_a_right_signature_is_believed_without_a_bearer(self, prefix):
        # S0-40 S0-41 S0-42 S0-43 S0-85
        session, pending = self.suspend("signed_job")
        body = result_body(pending)
        answer = self.webhook(body, prefix + signature(SECRET, body))
        self.assertEqual(self.assert_status(answer, 200).json, {"success": True, "sessionID": session})
        self.assertEqual(self.words(session), "up")

    def test_an_error_by_webhook(self):
        # S0-43
        session, pending = self.suspend("signed_job")
        body = json.dumps({"pendingID": pending, "error": "it broke"}).encode()
        self.assert_status(self.webhook(body, signature(SECRET, body)), 200)
        self.assertIn("it broke", self.words(session))
        self.assertEqual(self.client.get(f"/async-tool/pending/{pending}")["pending"]["status"], "failed")

    @every([
        ("odd spacing", '  {\r\n\t"result" : { "output":"ü\\u00fc☃\\ud83d\\ude00😀","title"\n:"" } ,'
                        ' "pendingID": "%s"}  ', "üü☃😀😀"),
        ("escaped slashes", '{"pendingID":"%s","result":{"title":"t","output":"a\\/b\\u0041"}}', "a/bA"),
        ("another order", '{"result":{"metadata":{},"output":"x","title":"t"},"pendingID":"%s"}', "x"),
    ])
    def test_the_raw_bytes_are_signed(self, text, output):
        # S0-42, T9: unusual JSON spacing and Unicode
        session, pending = self.suspend("signed_job")
        body = (text % pending).encode()
        self.assert_status(self.webhook(body, signature(SECRET, body)), 200)
        self.assertEqual(self.words(session), output)

    def test_the_signature_of_the_same_json_written_otherwise_is_wrong(self):
        # T9
        session, pending = self.suspend("signed_job")
        body = json.dumps({"pendingID": pending, "result": {"title": "t", "output": "ü"}},
                          indent=1, ensure_ascii=False).encode()
        again = json.dumps(json.loads(body)).encode()
        with self.nothing_changes(session):
            self.assert_problem(self.webhook(body, signature(SECRET, again)), 401, "bad_signature")

    def test_wrong_signatures_are_refused_and_change_nothing(self):
        # S0-85 T9
        session, pending = self.suspend("signed_job")
        body = result_body(pending)
        right = signature(SECRET, body)
        wrong = {
            "another secret": signature("other", body), "empty secret": signature("", body),
            "no hex": "z" * 64, "short": right[:-1], "first half": right[:32], "long": right + "0",
            "doubled": right + right, "another name": "sha1=" + right, "prefix only": "sha256=",
            "twice the prefix": "sha256=sha256=" + right, "of other bytes": signature(SECRET, body + b" "),
            "list": right + "," + right, "one digit": ("0" if right[0] != "0" else "1") + right[1:],
        }
        with self.nothing_changes(session):
            for name, sign in wrong.items():
                with self.subTest(name):
                    self.assert_problem(self.webhook(body, sign), 401, "bad_signature")
        self.assert_status(self.webhook(body, right), 200)

    def test_a_body_with_any_byte_changed_is_refused(self):
        # T9: flip every bit of the body
        session, pending = self.suspend("signed_job")
        body = result_body(pending)
        sign = signature(SECRET, body)
        first = body.index(b'"result"')
        with self.nothing_changes(session):
            for at in range(first, len(body), 3):
                changed = body[:at] + bytes([body[at] ^ 1]) + body[at + 1:]
                answer = self.webhook(changed, sign)
                self.assertIn(answer.status, (400, 401, 404, 429), (at, answer))

    @every([("no header", None), ("an empty header", ""), ("blank", " ")])
    def test_leaving_the_signature_out_is_refused(self, sign):
        # T9, lessons 2.0: the header must not be optional
        session, pending = self.suspend("signed_job")
        with self.nothing_changes(session):
            self.assert_problem(self.webhook(result_body(pending), sign), 401, "missing_signature")

    def test_all_doors_ask_for_the_signature(self):
        # S0-85: result, error and plain webhook too
        session, pending = self.suspend("signed_job")
        error = json.dumps({"pendingID": pending, "error": "e"}).encode()
        progress = json.dumps({"pendingID": pending, "progress": {"percent": 1}}).encode()
        with self.nothing_changes(session):
            for path, body in (("/async-tool/result", result_body(pending)), ("/async-tool/error", error),
                               ("/async-tool/webhook", progress), (f"/async-tool/webhook/{pending}", b"{}")):
                with self.subTest(path):
                    self.assert_problem(self.webhook(body, None, path=path), 401, "missing_signature")
                    self.assert_problem(self.webhook(body, "0" * 64, path=path), 401, "bad_signature")
        body = result_body(pending)
        self.assert_status(self.webhook(body, signature(SECRET, body), path="/async-tool/result"), 200)

    def test_before_the_signature_holds_nothing_else_is_read(self):
        # design 13
        session, pending = self.suspend("signed_job")
        body = b'{"pendingID":"%s","result":17,"nonsense":true}' % pending.encode()
        self.assert_problem(self.webhook(body, "0" * 64), 401, "bad_signature")
        self.assert_problem(self.webhook(body, signature(SECRET, body)), 400, "invalid_request")

    def test_a_bearer_does_instead_of_a_signature(self):
        session, pending = self.suspend("signed_job")
        self.assert_problem(self.webhook(result_body(pending), client=self.token("read")), 403, "forbidden")
        self.assert_status(self.webhook(result_body(pending), client=self.token("submit")), 200)

    def test_a_webhook_sent_twice_is_a_duplicate(self):
        # T10
        session, pending = self.suspend("signed_job")
        body = result_body(pending)
        self.assert_status(self.webhook(body, signature(SECRET, body)), 200)
        self.words(session)
        with self.nothing_changes(session):
            again = self.assert_status(self.webhook(body, signature(SECRET, body)), 200)
            self.assertIs(again["duplicate"], True)
        self.restart()
        self.stranger = self.server.client(None)
        self.assertIs(self.webhook(body, signature(SECRET, body))["duplicate"], True)

    def test_a_webhook_after_expiry_is_not_waiting(self):
        # T10
        session, pending = self.suspend("quick_job")
        self.assertEqual(self.words(session), "Tool execution timed out")
        body = result_body(pending)
        self.assert_problem(self.webhook(body, signature(SECRET, body)), 410, "not_waiting")

    def test_progress_is_recorded_and_the_call_waits_on(self):
        session, pending = self.suspend("signed_job")
        body = json.dumps({"pendingID": pending, "progress": {"percent": 40, "message": "linking"}}).encode()
        self.assert_status(self.webhook(body, signature(SECRET, body)), 200)
        view = self.client.session(session)
        self.assertEqual(view["status"], "waiting")
        self.assertEqual(view["pending"][0]["progress"], {"percent": 40, "message": "linking"})
        call = self.client.get(f"/async-tool/pending/{pending}")["pending"]
        self.assertEqual((call["status"], call["progress"]), ("waiting", {"percent": 40, "message": "linking"}))
        for bad in ({"percent": 101}, {"percent": -1}, {"percent": "x"}, {"message": 1}, {"more": 1}):
            body = json.dumps({"pendingID": pending, "progress": bad}).encode()
            self.assert_problem(self.webhook(body, signature(SECRET, body)), 400, "invalid_request")
        body = result_body(pending)
        self.assert_status(self.webhook(body, signature(SECRET, body)), 200)

    def test_the_secret_is_nowhere_to_be_seen(self):
        # S0-21 P12
        session, pending = self.suspend("signed_job")
        stream = self.stream(f"/v1/sessions/{session}/events?from_seq=1")
        stream.wait_for("run.waiting")
        pages = [self.client.get(path).body.decode() for path in (
            f"/v1/sessions/{session}", f"/v1/sessions/{session}/log", f"/v1/sessions/{session}/messages",
            f"/v1/sessions/{session}/explain", f"/v1/sessions/{session}/status", "/async-tool/pending",
            f"/async-tool/pending/{pending}", "/async-tool/tools", "/v1/tools", "/v1/agents", "/v1/waits", "/metrics",
            "/openapi.json", "/v1/sessions", "/v1/webhooks/dead", "/async-tool/recovery/status")]
        pages += [json.dumps(event.data) for event in stream.events]
        pages.append(self.webhook(result_body(pending), "0" * 64).body.decode())
        pages += [json.dumps(r.json) for r in self.outside.requests("/start")]
        self.assertEqual(self.server.stop(), 0)
        pages.append(self.server.stderr())
        pages += [path.read_bytes().decode(errors="replace") for path in self.server.data.rglob("*") if path.is_file()]
        for page in pages:
            self.assertNotIn(SECRET, page)
            self.assertNotIn("canary-header-key", page)


class BarePendingIds(CallbackCase):
    def test_the_bare_id_settles_a_call_that_was_handed_out(self):
        # design 7 "Who may settle"
        for path, body in (("/async-tool/result", {"result": {"title": "t", "output": "o"}}),
                           ("/async-tool/error", {"error": "e"}),
                           ("/async-tool/webhook", {"result": {"title": "t", "output": "o"}})):
            with self.subTest(path):
                session, pending = self.suspend("open_job")
                self.assert_status(self.stranger.post(path, {"pendingID": pending, **body}), 200)
                self.client.wait_status(session, "idle")

    def test_whoever_has_one_id_learns_nothing_of_what_follows(self):
        # design 7: the bare id settles its own call
        session, pending = self.suspend("open_job", metadata={"secret": "hidden"})
        answer = self.assert_status(self.stranger.post("/async-tool/result?wait=10s", {
            "pendingID": pending, "result": {"title": "t", "output": "o"}}), 200)
        self.assertEqual(answer["outcome"]["status"], "completed")
        self.assertEqual(answer["outcome"]["output_messages"], [])
        self.assertNotIn("suspension", answer["outcome"])
        self.assertEqual(self.client.last_words(session), "o")

    @every([("letters", {"url": "https://" + "a" * 300_000}, 200),
            ("digits", {"at": "2026-11-18T05:00:00." + "7" * 300_000 + "Z"}, 200),
            ("others", {"url": "https://" + "a" * 300_000 + "!"}, 400)])
    def test_a_long_text_meets_a_pattern(self, output, status):
        # P6 P10 T14
        _, pending = self.suspend("strict_job")
        answer = self.stranger.post("/async-tool/result", {
            "pendingID": pending, "result": {"title": "t", "output": json.dumps(output)}})
        self.assert_status(answer, status)
        self.assert_status(self.client.get("/readyz"), 200)

    def test_a_result_may_be_a_list(self):
        session, pending = self.suspend("list_job")
        self.assert_problem(self.client.result(pending, '{"a": 1}'), 400, "result_validation_failed")
        self.assert_status(self.client.result(pending, '["a"]'), 200)
        self.assertEqual(self.words(session), '["a"]')

    @every([("a worker's", "pulled", "submit"), ("a person's", "person", "operate")])
    def test_a_call_that_was_not_handed_out_needs_a_bearer(self, tool, scope):
        session, pending = self.suspend(tool)
        body = {"pendingID": pending, "result": {"title": "t", "output": "o"}}
        weaker = {"submit": "read", "operate": "submit"}[scope]
        with self.nothing_changes(session):
            for path in ("/async-tool/result", "/async-tool/webhook"):
                self.assert_problem(self.stranger.post(path, body), 401, "unauthorized")
            self.assert_problem(self.stranger.post(f"/async-tool/webhook/{pending}", {}), 401, "unauthorized")
            self.assert_problem(self.token(weaker).post("/async-tool/result", body), 403, "forbidden")
            self.assert_problem(self.token(weaker).post("/async-tool/error", {"pendingID": pending, "error": "e"}),
                                403, "forbidden")
        self.assert_status(self.token(scope).post("/async-tool/result", body), 200)

    @every([("object", b'{"state": "ok",  "n": 1.50}', '{"state":"ok","n":1.50}'), ("list", b"[1,2]", "[1,2]"),
            ("number", b"17", "17"), ("text", b'"done"', None)])
    def test_a_plain_webhook_takes_any_json_as_the_output(self, body, output):
        # api 3
        session, pending = self.suspend("open_job")
        answer = self.stranger.post(f"/async-tool/webhook/{pending}", raw=body,
                                    headers={"Content-Type": "application/json"})
        self.assert_status(answer, 200)
        words = self.words(session)
        if output is None:
            self.assertIn(words, ("done", '"done"'))
        else:
            self.assertEqual(words, output)

    @every([("not JSON", b"a=b&c=d"), ("empty", b""), ("infinite", b"1e400"), ("too deep", b"[" * 100 + b"]" * 100)])
    def test_a_plain_webhook_that_is_not_json_is_refused(self, body):
        session, pending = self.suspend("open_job")
        with self.nothing_changes(session):
            answer = self.stranger.post(f"/async-tool/webhook/{pending}", raw=body)
            self.assert_problem(answer, 400, "invalid_request")

    def test_a_plain_webhook_of_a_call_with_a_secret_is_signed(self):
        session, pending = self.suspend("signed_job")
        path = f"/async-tool/webhook/{pending}"
        self.assert_problem(self.webhook(b'{"a": 1}', None, path=path), 401, "missing_signature")
        self.assert_status(self.webhook(b'{"a": 1}', signature(SECRET, b'{"a": 1}'), path=path), 200)
        self.assertEqual(self.words(session), '{"a":1}')

    def test_ids_are_masked_for_those_who_only_read(self):
        # design 7: a token with read alone sees ids masked
        session, pending = self.suspend("open_job")
        reader = self.token("read")
        stream = self.stream(f"/v1/sessions/{session}/events?from_seq=1", client=reader)
        stream.wait_for("run.waiting")
        pages = [reader.get(path).body.decode() for path in (
            f"/v1/sessions/{session}", f"/v1/sessions/{session}/log", f"/v1/sessions/{session}/messages",
            f"/v1/sessions/{session}/explain", "/async-tool/pending", "/v1/waits", "/v1/sessions")]
        lines = reader.get(f"/v1/sessions/{session}/log", headers={"Accept": "application/x-ndjson"})
        pages.append(lines.body.decode())
        pages += [json.dumps(event.data) for event in stream.events]
        for page in pages:
            self.assertNotIn(pending, page)

    def test_ids_are_masked_in_the_status_too(self):
        session, pending = self.suspend("open_job", task_id="masked")
        for path in (f"/v1/sessions/{session}/status", f"/v1/tasks/masked/sessions/{session}/status"):
            answer = self.assert_status(self.token("read").get(path), 200)
            self.assertNotIn(pending, answer.body.decode())

    def test_strangers_have_keys_of_their_own(self):
        # T31: two systems that number their requests
        for wrong in ({}, {"wrong": 1}):
            sessions = [self.suspend("open_job") for _ in range(2)]
            for session, pending in sessions:
                for replayed in (None, "true"):
                    body = {"pendingID": pending, "result": {"title": "t", "output": "o"}, **wrong}
                    answer = self.stranger.post("/async-tool/result", body, headers={"Idempotency-Key": "1"})
                    self.assertEqual(answer.status, 400 if wrong else 200, answer)
                    self.assertEqual(answer.headers["Idempotency-Replayed"], None if wrong else replayed)
                self.client.wait_status(session, "waiting" if wrong else "idle")

    def test_refused_submissions_without_a_bearer_are_limited(self):
        # S0-87
        session, pending = self.suspend("open_job")
        unknown = {"pendingID": "pnd_" + "0" * 26 + "_" + "0" * 32, "error": "e"}
        codes = [self.stranger.post("/async-tool/error", unknown).status for _ in range(70)]
        self.assertEqual(codes[:60], [404] * 60)
        last = self.stranger.post("/async-tool/error", unknown)
        self.assert_problem(last, 429, "rate_limited")
        self.assertGreater(int(last.headers["Retry-After"]), 0)
        # Those with a bearer are not limited, whatever others at that address did.
        self.assert_problem(self.client.post("/async-tool/error", unknown), 404, "unknown_pending_id")
        self.assert_status(self.client.result(pending), 200)


class ChangedTools(CallbackCase):
    """What counts is what was agreed when the call was made, whatever the configuration says now."""

    def reload(self, change):
        setup = type(self).make_setup()
        setup.tools = [tool for tool in map(change, setup.tools) if tool]
        names = [tool["name"] for tool in setup.tools]
        setup.agents = [{**agent, "tools": names} for agent in setup.agents]
        setup.write(self.server.folder)
        self.server.signal(signal.SIGHUP)
        kit.wait_until(lambda: self.server.events("config.reloaded"), "the new configuration")

    def test_a_secret_that_was_dropped_still_protects_its_calls(self):
        # api 1: unless the call has a webhook secret
        session, pending = self.suspend("signed_job")
        self.reload(lambda tool: {k: v for k, v in tool.items() if k != "callback_secret_env"})
        body = result_body(pending)
        with self.nothing_changes(session):
            self.assert_problem(self.webhook(body), 401, "missing_signature")
        self.assert_status(self.webhook(body, signature(SECRET, body)), 200)

    def test_a_tool_that_was_removed_leaves_its_calls_their_callbacks(self):
        session, pending = self.suspend("signed_job")
        _, other = self.suspend("open_job")
        self.reload(lambda tool: None if tool["name"] in ("signed_job", "open_job") else tool)
        body = result_body(pending)
        self.assert_status(self.webhook(body, signature(SECRET, body)), 200)
        self.assertEqual(self.words(session), "up")
        self.assert_status(self.webhook(result_body(other)), 200)

    def test_whoever_works_for_a_call_hears_that_it_expired_while_nobody_was_there(self):
        _, pending = self.suspend("late_job")
        expires = self.client.get(f"/async-tool/pending/{pending}")["pending"]["timeout"]
        self.server.kill()
        self.assertEqual(self.outside.requests("/late"), [])
        kit.wait_until(lambda: kit.now_ms() > expires, "its time to be over")
        self.server.start()
        self.client = self.server.client()
        told = self.outside.wait_for("/late")[0]
        self.assertEqual((told.json["type"], told.json["data"]["pendingID"]), ("pending.expired", pending))


class StartingJobs(CallbackCase):
    def test_what_an_async_tool_is_sent(self):
        # S0-13 S0-24 S0-25 S0-26 S0-27 S0-29 S0-50 S0-51 S0-52 S0-53 S0-89 S0-91
        self.outside.on("/start", {"externalRef": "job-17", "estimatedDuration": 300000, "output": "Job 17 started"})
        session, pending = self.suspend("signed_job")
        request = self.outside.requests("/start")[0]
        call = self.client.get(f"/async-tool/pending/{pending}")["pending"]
        self.assertEqual(request.json, {
            "pendingID": pending, "callID": call["callID"], "sessionID": session, "tool": "signed_job",
            "input": {"branch": "main"}, "callbackURL": f"http://127.0.0.1:{self.server.port}/async-tool/webhook",
            "webhookSecretName": "DEPLOY_SECRET"})
        self.assertEqual(request.method, "POST")
        self.assertEqual(request.headers["Idempotency-Key"], pending)
        self.assertEqual(request.headers["Content-Type"], "application/json")
        self.assertEqual(call["externalRef"], "job-17")
        self.assertEqual(self.client.session(session)["pending"][0]["external_ref"], "job-17")
        self.assertEqual(self.client.session(session)["pending"][0]["prompt"], "Job 17 started")
        self.restart()
        self.assertEqual(self.client.get(f"/async-tool/pending/{pending}")["pending"]["externalRef"], "job-17")

    def test_what_it_answered_is_kept_while_another_call_works(self):
        # design 6: each step is reported, so that a crash in between shows
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.outside.on("/fetch", lambda request: (gate.wait(60), (200, {}))[1])

        def start(request):
            kit.wait_until(lambda: self.outside.requests("/fetch"), "the other call to be at work")
            return {"externalRef": "job-77"}
        self.outside.on("/start", start)
        session = self.client.start("both", wait=None)["id"]
        self.client.wait_kind(session, "pending.waiting")
        self.restart()
        call = self.client.session(session)["pending"][0]
        self.assertEqual(call["external_ref"], "job-77")

    def test_headers_may_hold_secrets_of_the_environment(self):
        self.suspend("open_job")
        self.assertEqual(self.outside.requests("/start")[0].headers["X-Api-Key"], "canary-header-key")

    def test_a_callback_that_comes_before_the_tool_has_answered_is_taken(self):
        # S0-54 S0-81: the id exists before the tool runs
        answers = []

        def start(request):
            answers.append(self.stranger.post("/async-tool/webhook", {
                "pendingID": request.json["pendingID"], "result": {"title": "t", "output": "fast"}}))
            return {"externalRef": "late"}
        self.outside.on("/start", start)
        session = self.client.start("use open_job")
        self.assert_status(answers[0], 200)
        self.assertEqual(self.words(session["id"]), "fast")
        log = self.client.kinds(session["id"])
        self.assertEqual([log.count(k) for k in ("pending.created", "pending.completed", "run.completed")], [1, 1, 1])
        self.assertLessEqual(log.count("run.waiting"), 1)
        self.assertEqual(log.count("run.waiting"), log.count("run.resumed"))

    @every([("fails", (500, {"error": "no"})), ("breaks", kit.Broken())])
    def test_a_callback_beats_what_the_start_says_afterwards(self, ending):
        def start(request):
            self.stranger.post("/async-tool/webhook", {
                "pendingID": request.json["pendingID"], "result": {"title": "t", "output": "fast"}})
            if isinstance(ending, Exception):
                raise ending
            return ending
        self.outside.on("/start", start)
        session = self.client.start("use open_job")
        self.assertEqual(self.words(session["id"]), "fast")

    @every([("4xx", (404, {"error": "no such branch"}), "404"), ("5xx", (503, {"error": "busy"}), "503"),
            ("redirect", (302, {}), "302")])
    def test_a_start_that_is_refused_is_an_error_to_the_model(self, answer, word):
        # api 6
        self.outside.on("/start", answer)
        session = self.client.start("use open_job")
        self.assertEqual(session["outcome"]["status"], "completed")
        self.assertIn(word, self.client.last_words(session["id"]))
        self.assertEqual(session["pending"], [])
        self.assertEqual(self.client.get(f"/async-tool/pending?sessionID={session['id']}")["count"], 0)
        self.assertNotIn("run.waiting", self.client.kinds(session["id"]))
        self.assertEqual(len(self.outside.requests("/start")), 1)
        self.outside.received.clear()

    def test_a_start_that_reaches_nobody_is_an_error_to_the_model(self):
        session = self.client.start("use not_there")
        self.assertEqual(session["outcome"]["status"], "completed")
        part = [p for e in self.client.transcript(session["id"]) for p in e["parts"]][0]
        self.assertEqual(part["state"]["status"], "error")

    @every([("broken", "open_job"), ("too slow", "brief_start")])
    def test_a_start_that_broke_after_it_was_sent_stays_waiting(self, tool):
        # api 6: explain says "start not confirmed"
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.outside.on("/start", kit.Broken())
        self.outside.on("/stuck", lambda request: gate.wait(10) and {})
        session, pending = self.suspend(tool)
        explained = self.client.get(f"/v1/sessions/{session}/explain").body.decode()
        self.assertIn("start not confirmed", explained)
        self.assertEqual(len(self.outside.requests()), 1, "it is not sent again")
        self.assert_status(self.stranger.post("/async-tool/webhook", {
            "pendingID": pending, "result": {"title": "t", "output": "came"}}), 200)
        self.assertEqual(self.words(session), "came")
        gate.set()
        self.outside.received.clear()

    def test_a_start_that_the_crash_cut_off_is_waited_for(self):
        # design 8: an async call that was started and not settled is never "unknown"
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.outside.on("/start", lambda request: gate.wait(10) and {})
        session = self.client.start("use open_job", wait=None)["id"]
        pending = self.outside.wait_for("/start")[0].json["pendingID"]
        self.restart()
        self.stranger = self.server.client(None)
        view = self.client.wait_status(session, "waiting")
        self.assertEqual([call["pending_id"] for call in view["pending"]], [pending])
        self.assertEqual(len(self.outside.requests("/start")), 1, "it is not started again")
        self.assertNotIn("run.interrupted", self.client.kinds(session))
        self.assert_status(self.stranger.post("/async-tool/webhook", {
            "pendingID": pending, "result": {"title": "t", "output": "after all"}}), 200)
        self.assertEqual(self.words(session), "after all")

    def test_explain_says_that_a_crash_cut_the_start_off(self):
        # api 6: broken after the request was sent
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.outside.on("/start", lambda request: gate.wait(10) and {})
        session = self.client.start("use open_job", wait=None)["id"]
        self.outside.wait_for("/start")
        self.restart()
        self.client.wait_status(session, "waiting")
        self.assertIn("start not confirmed", self.client.get(f"/v1/sessions/{session}/explain").body.decode())

    def test_a_callback_while_the_server_was_told_to_stop_is_not_lost_or_refused_for_good(self):
        session, pending = self.suspend("open_job")
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        self.client, self.stranger = self.server.client(), self.server.client(None)
        self.assert_status(self.stranger.post("/async-tool/webhook", {
            "pendingID": pending, "result": {"title": "t", "output": "later"}}), 200)
        self.assertEqual(self.words(session), "later")

    def test_a_call_knows_the_url_that_is_told(self):
        # S0-12
        session, pending = self.suspend("told_job")
        call = self.client.get(f"/async-tool/pending/{pending}")["pending"]
        self.assertEqual(call["webhookURL"], self.outside.url + "/told")

    def test_the_other_system_is_told_when_somebody_else_ends_its_call(self):
        # S0-12, design 7 webhookURL
        session, pending = self.suspend("told_job")
        self.client.delete(f"/async-tool/pending/{pending}")
        told = self.outside.wait_for("/told", patience=1)[0]
        self.assertIn(pending, told.body.decode())


class SyncHttpTools(CallbackCase):
    def test_the_input_is_the_body_and_the_answer_the_result(self):
        self.outside.on("/ask", {"title": "T", "output": "forty-two", "metadata": {"a": 1}})
        session = self.client.start("use ask")
        self.assertEqual(self.client.last_words(session["id"]), "forty-two")
        request = self.outside.requests("/ask")[0]
        self.assertEqual((request.method, request.json), ("POST", {"branch": "main"}))
        part = [p for e in self.client.transcript(session["id"]) for p in e["parts"]][0]
        self.assertEqual((part["state"]["title"], part["state"]["metadata"]), ("T", {"a": 1}))

    def test_a_get_has_its_input_in_the_query(self):
        self.outside.on("/fetch", (200, b"plain text"))
        session = self.client.start("use fetch")
        self.assertEqual(self.client.last_words(session["id"]), "plain text")
        self.assertEqual(self.outside.requests("/fetch")[0].path, "/fetch?branch=main")

    def test_failures_are_errors_to_the_model(self):
        gate = threading.Event()
        self.addCleanup(gate.set)
        for name, answer in (("status", (500, b"oops")), ("broken", kit.Broken()),
                             ("slow", lambda request: gate.wait(5) and {})):
            with self.subTest(name):
                self.outside.on("/ask", answer)
                session = self.client.start("use ask")
                self.assertEqual(session["outcome"]["status"], "completed")
                part = [p for e in self.client.transcript(session["id"]) for p in e["parts"]][0]
                self.assertEqual(part["state"]["status"], "error")
