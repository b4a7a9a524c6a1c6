"""Real models: the server against providers on loopback, well-behaved and not. What a user sees of each."""

import base64
import json
import pathlib
import subprocess
import sys
import tempfile
from datetime import datetime

import kit
from kit import every, wait_until

sys.path.insert(0, str(kit.TREE / "testing"))
from fake_provider import KEY, FakeProvider, calls, events_of, fails, misbehave, replay, says  # noqa: E402

WIRE = kit.TREE / "tests/models/wire"
CLAUDE, CHAT, RESPONSES = "claude", "chat", "responses"
AGENTS = [("Messages", CLAUDE), ("Chat Completions", CHAT), ("Responses", RESPONSES)]
PIXEL = base64.b64encode(b"not really a picture").decode()


class Models(kit.Case):
    """Agents on a fake provider, one per API; `quick` ones have little patience."""

    env = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.fake = FakeProvider()
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="rouse-e2e-"))

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.fake.stop()

    @classmethod
    def agents(cls):
        common = {"system": "You are terse.", "tools": ["note", "job", "ask_user"], "retry_delay": "1ms"}
        quick = {"retries": 2, "idle_timeout": "300ms"}
        made = []
        for name, model, more in ((CLAUDE, "anthropic:claude-test", {"base_url": cls.fake.anthropic_url}),
                                  (CHAT, "openai:gpt-test", {"base_url": cls.fake.openai_url}),
                                  (RESPONSES, "openai:gpt-test", {"base_url": cls.fake.openai_url + "/",
                                                                  "api": "responses"})):
            made.append({"name": name, "model": model, **common, **more})
            made.append({"name": f"{name}-quick", "model": model, **common, **more, **quick})
            made.append({"name": f"{name}-whole", "model": model, **common, **more, "stream": False})
        return made

    @classmethod
    def make_setup(cls, **sections):
        notes = f"read line; echo \"$line\" >> {cls.place}/notes; echo noted; echo \"$line\""
        number = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
        return kit.Setup(
            agents=cls.agents(),
            tools=[{"name": "note", "kind": "exec", "description": "Takes a note", "parameters": number,
                    "command": ["/bin/sh", "-c", notes]},
                   {"name": "job", "kind": "external", "description": "A long job"}], **sections)

    def plan(self, *steps):
        """What the provider does from now on; nothing was noted yet."""
        (self.place / "notes").unlink(missing_ok=True)
        self.fake.plan(*steps)

    def notes(self):
        path = self.place / "notes"
        return path.read_text().splitlines() if path.exists() else []

    def records(self, session, kind):
        return [record for record in self.client.log(session["id"]) if record["kind"] == kind]

    def assert_one_answer(self, session, text):
        """The log has this answer once and nothing of what broke before it."""
        said = self.records(session, "message.assistant")
        self.assertEqual([block["text"] for record in said for block in record["content"]], [text])
        self.assertEqual(self.client.session(session["id"])["status"], "idle")

    def run_cli(self, *arguments, command="run"):
        command = [kit.BINARY, command, "--url", f"http://127.0.0.1:{self.server.port}",
                   "--token-file", str(self.server.data / "token"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env=self.server.environment(), timeout=60)

    # What the last request had in it, whatever its API.

    def conversation(self, request):
        """[(role, text | call | result)] of a request."""
        body = request.json
        found = []
        for item in body.get("messages") or body["input"]:
            role, content = item.get("role"), item.get("content")
            if item.get("type") == "function_call":
                found.append(("call", item["name"], json.loads(item["arguments"])))
            elif item.get("type") == "function_call_output":
                found.append(("result", item["output"]))
            elif role == "tool":
                found.append(("result", content))
            elif isinstance(content, str):
                found.append((role, content))
            for block in content if isinstance(content, list) else []:
                if block["type"] in ("text", "input_text"):
                    found.append((role, block["text"]))
                elif block["type"] == "tool_use":
                    found.append(("call", block["name"], block["input"]))
                elif block["type"] == "tool_result":
                    content = block["content"]
                    found.append(("result", content if isinstance(content, str) else content[0]["text"]))
                else:
                    found.append((role, block["type"]))
            for call in item.get("tool_calls") or []:
                function = call["function"]
                found.append(("call", function["name"], json.loads(function["arguments"])))
        return [one for one in found if one[0] != "system"]


class Conversations(Models):
    @every(AGENTS)
    def test_an_answer_is_streamed_and_stored(self, agent):
        self.plan(says("Grüße aus Zürich 🌤️, it is mild.", usage={"input": 31, "output": 9, "cache_read": 4}))
        session = self.client.start(agent=agent)
        stream = self.stream(f"/v1/sessions/{session['id']}/events")
        self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "Hello?"})
        stream.wait_for("run.completed")
        deltas = [event.data["text"] for event in list(stream.events) if event.kind == "delta"]
        self.assertEqual("".join(deltas), "Grüße aus Zürich 🌤️, it is mild.")
        self.assertGreater(len(deltas), 1)
        self.assert_one_answer(session, "Grüße aus Zürich 🌤️, it is mild.")
        said = self.records(session, "message.assistant")[0]
        self.assertEqual(said["stop_reason"], "end_turn")
        self.assertEqual(said["usage"], {"input_tokens": 31, "output_tokens": 9, "cache_read_tokens": 4})
        request, = self.fake.requests()
        self.assertEqual(self.conversation(request), [("user", "Hello?")])
        self.assertIn("You are terse.", json.dumps(request.json))
        self.assertEqual(request.json["stream"], True)

    @every(AGENTS)
    def test_an_answer_in_one_piece_is_the_same(self, agent):
        self.plan(calls(("note", {"n": 1}), text="On it."), says("Noted."))
        session = self.client.start("Note 1", agent=f"{agent}-whole")
        self.assertEqual(session["outcome"]["status"], "completed", session)
        self.assertEqual(self.client.last_words(session["id"]), "Noted.")
        self.assertNotIn("stream", self.fake.requests()[0].json)
        self.assertEqual(self.notes(), ['{"n":1}'])

    @every(AGENTS)
    def test_parallel_calls_run_and_their_results_come_back_in_order(self, agent):
        self.plan(calls(("note", {"n": 1}), ("note", {"n": "x"}), ("note", {"n": 3}), text="Three notes."),
                       says("All done."))
        session = self.client.start("Note 1 to 3", agent=agent)
        self.assertEqual(session["outcome"]["status"], "completed", session)
        self.assertCountEqual(self.notes(), ['{"n":1}', '{"n":3}'])
        first, second = self.fake.requests()
        self.assertEqual([tool.get("name") or tool["function"]["name"] for tool in first.json["tools"]],
                         ["note", "job", "ask_user"])
        conversation = self.conversation(second)
        self.assertEqual(conversation[:5], [("user", "Note 1 to 3"), ("assistant", "Three notes."),
                                            ("call", "note", {"n": 1}), ("call", "note", {"n": "x"}),
                                            ("call", "note", {"n": 3})])
        results = [text for kind, text in conversation[5:]]
        self.assertEqual(len(results), 3)
        self.assertIn('{"n":1}', results[0])
        self.assertIn("does not fit the tool's parameters", results[1])
        self.assertIn('{"n":3}', results[2])

    @every(AGENTS)
    def test_it_suspends_is_killed_and_resumes(self, agent):
        self.plan(calls(("job", {"size": 1.10}), ("note", {"n": 7}), text="Starting.", thinking="A job, then."),
                       says("The job says 42."))
        session = self.client.start("Run the job", agent=agent)
        self.assertEqual(session["outcome"]["status"], "suspended", session)
        self.assertEqual(self.notes(), ['{"n":7}'])
        client = self.restart()
        waiting = client.session(session["id"])
        self.assertEqual(waiting["status"], "waiting")
        self.assertEqual(len(self.fake.requests()), 1)
        answer = client.result(waiting["pending"][0]["pending_id"], output="42", wait="10s")
        self.assertEqual(answer["outcome"]["status"], "completed", answer)
        self.assertEqual(client.last_words(session["id"]), "The job says 42.")
        self.assertEqual(self.notes(), ['{"n":7}'])
        second = self.fake.requests()[1]
        self.assertIn(("result", "42"), self.conversation(second))
        self.assertIn("1.1", second.raw.decode())
        if agent == CLAUDE:
            block = second.json["messages"][1]["content"][0]
            self.assertEqual(block, {"type": "thinking", "thinking": "A job, then.", "signature": "sig+/=AAAAAAAA"})
        if agent == RESPONSES:
            self.assertEqual(second.json["input"][1], {
                "id": "rs_1", "type": "reasoning", "encrypted_content": "gAAAA+/=",
                "summary": [{"type": "summary_text", "text": "A job, then."}]})

    @every(AGENTS)
    def test_killed_in_the_middle_of_an_answer_it_asks_again(self, agent):
        self.plan(misbehave(says("Never seen whole."), "stall"), says("Here I am again."))
        session = self.client.start("Hello", agent=agent, wait=None)
        wait_until(self.fake.requests, "the first request")
        client = self.restart()
        wait_until(lambda: client.session(session["id"])["status"] == "idle", "the answer")
        self.assert_one_answer(session, "Here I am again.")
        self.assertEqual(len(self.fake.requests()), 2)

    @every(AGENTS)
    def test_cancelling_closes_the_stream_at_once(self, agent):
        self.plan(misbehave(says("Never seen whole."), "stall"))
        session = self.client.start("Hello", agent=agent, wait=None)
        request = wait_until(self.fake.requests, "the request")[0]
        self.assert_status(self.client.post(f"/v1/sessions/{session['id']}/cancel"), 202)
        self.assertTrue(request.left.wait(kit.PATIENCE), "the stream stayed open")
        self.assertEqual(self.client.session(session["id"])["status"], "idle")
        self.assertEqual(self.records(session, "message.assistant"), [])

    @every(AGENTS)
    def test_images_reach_the_model(self, agent):
        self.plan(says("A pixel."))
        content = [{"type": "text", "text": "What is this?"},
                   {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}]
        session = self.client.start(content, agent=agent)
        self.assertEqual(session["outcome"]["status"], "completed", session)
        sent = json.dumps(self.fake.requests()[0].json)
        self.assertIn(PIXEL if agent == CLAUDE else f"data:image/png;base64,{PIXEL}", sent)

    @every(AGENTS)
    def test_a_refusal_is_an_answer(self, agent):
        self.plan(says("", refusal="I cannot help with that."))
        session = self.client.start("Do something bad", agent=agent)
        self.assertEqual(session["outcome"]["status"], "completed", session)
        said, = self.records(session, "message.assistant")
        self.assertEqual(said["stop_reason"], "refusal")
        self.assertEqual(said["content"][0]["text"], "I cannot help with that.")

    def test_connections_are_used_again(self):
        self.plan(calls(("note", {"n": 1})), calls(("note", {"n": 2})), says("Done."))
        before = self.fake.connections
        self.client.start("Note", agent=CLAUDE)
        self.assertEqual(len(self.fake.requests()), 3)
        self.assertEqual(self.fake.connections - before, 1)

    def test_headers_are_those_of_the_configuration(self):
        setup = kit.Setup(agents=[{
            "name": "helper", "model": "anthropic:claude-test", "base_url": self.fake.anthropic_url,
            "api_key_env": "MY_KEY", "anthropic_version": "2023-06-01", "anthropic_beta": ["one-1", "two-2"],
            "headers": {"x-team": "env:TEAM"}, "temperature": 0.25, "max_tokens": 77,
            "request": {"metadata": {"user_id": "u1"}, "thinking": {"type": "enabled", "budget_tokens": 1024}}}])
        server = self.add_server(setup, env={"MY_KEY": KEY, "TEAM": "blue"})
        self.plan(says("Hi."))
        server.client().start("Hello")
        request, = self.fake.requests()
        for name, value in {"x-api-key": KEY, "anthropic-version": "2023-06-01", "anthropic-beta": "one-1,two-2",
                            "x-team": "blue", "content-type": "application/json"}.items():
            self.assertEqual(request.headers[name], value)
        self.assertEqual({key: request.json[key] for key in ("model", "max_tokens", "temperature", "metadata")},
                         {"model": "claude-test", "max_tokens": 77, "temperature": 0.25, "metadata": {"user_id": "u1"}})

    def test_proxies_come_from_the_environment(self):
        setup = kit.Setup(agents=[{"name": "far", "model": "openai:m", "base_url": "http://model.invalid/v1"}])
        server = self.add_server(setup, env={"http_proxy": f"http://127.0.0.1:{self.fake.port}"})
        self.plan(says("Through the proxy."))
        session = server.client().start("Hello")
        self.assertEqual(server.client().last_words(session["id"]), "Through the proxy.")
        self.assertEqual(self.fake.requests()[0].path, "http://model.invalid/v1/chat/completions")

    @every([("a text", "anthropic/text-stream"), ("tools", "anthropic/unknown-events-stream"),
            ("chat", "openai-chat/compat-quirks-stream"), ("responses", "openai-responses/text-stream")])
    def test_recorded_answers_are_understood(self, name):
        agent = {"anthropic": CLAUDE, "openai-chat": CHAT, "openai-responses": RESPONSES}[name.split("/")[0]]
        self.plan(replay(WIRE / name, chunk=3), says("Done."))
        session = self.client.start("Go", agent=agent)
        self.assertEqual(session["outcome"]["status"], "completed", session)
        expected = json.loads((WIRE / name / "expected.json").read_text())["result"]
        said = self.records(session, "message.assistant")[0]
        self.assertEqual("".join(block.get("text", "") for block in said["content"]), expected["text"])


class Trouble(Models):
    """Providers that fail, and what becomes of the run."""

    # S0-77
    @every([(f"{api} {status}", agent, status) for api, agent in AGENTS for status in (408, 409, 429, 500, 503, 529)])
    def test_what_may_work_later_is_asked_again(self, agent, status):
        self.plan(fails(status, "Please be patient", {"retry-after-ms": "1"}), says("Better now."))
        session = self.client.start("Hello", agent=agent)
        self.assert_one_answer(session, "Better now.")
        retrying, = self.records(session, "run.retrying")
        self.assertEqual(retrying["attempt"], 2)
        self.assertIn(f"{status} ", retrying["message"])
        self.assertIn("Please be patient", retrying["message"])
        self.assertIn("next", retrying)

    # S0-77
    def test_a_storm_of_429_is_sat_out_and_everybody_sees_it(self):
        storm = [fails(429, "Slow down", {"retry-after": "0"}) for _ in range(5)]
        self.plan(*storm, misbehave(says("The storm is over."), "hold"))
        session = self.client.start(agent=CHAT)
        stream = self.stream(f"/v1/sessions/{session['id']}/events")
        self.client.post(f"/v1/sessions/{session['id']}/messages", {"content": "Hello"})
        events = stream.wait_for("run.retrying", 5)
        self.assertEqual([event.data["attempt"] for event in events], [2, 3, 4, 5, 6])
        activity = self.client.session(session["id"])["activity"]
        self.assertEqual(activity["type"], "retry")
        self.assertEqual(activity["attempt"], 6)
        self.assertIn("Slow down", activity["message"])
        self.assertIsInstance(activity["next"], int)
        self.fake.open_gate()
        stream.wait_for("run.completed")
        self.assert_one_answer(session, "The storm is over.")

    def test_retry_after_is_honoured(self):
        self.plan(fails(429, "Later", {"retry-after": "3600"}))
        session = self.client.start("Hello", agent=CLAUDE)
        self.assertEqual(session["outcome"]["status"], "failed")
        self.assertIn("3600 s", session["outcome"]["error"]["message"])
        self.assertEqual(len(self.fake.requests()), 1)
        self.plan(fails(429, "Soon", {"retry-after": "120"}), says("never"))
        session = self.client.start("Hello", agent=CLAUDE, wait=None)
        retrying = wait_until(lambda: self.records(session, "run.retrying"), "the retry")[0]
        wait = datetime.fromisoformat(retrying["next"]) - datetime.fromisoformat(retrying["ts"])
        self.assertEqual(round(wait.total_seconds()), 120)
        self.assertEqual(len(self.fake.requests()), 1)
        self.client.post(f"/v1/sessions/{session['id']}/cancel")  # the next process would ask again

    @every(AGENTS)
    def test_patience_has_an_end(self, agent):
        self.plan(fails(529, "Overloaded"))
        session = self.client.start("Hello", agent=f"{agent}-quick")
        self.assertEqual(session["outcome"]["status"], "failed")
        self.assertEqual(len(self.fake.requests()), 3)
        failed, = self.records(session, "run.failed")
        self.assertEqual(failed["reason"], "model_unavailable")
        self.assertIn("Overloaded (asked 3 times)", failed["error"])

    @every([(f"{api} {fault}", agent, fault, reason) for api, agent in AGENTS for fault, reason in (
        ("reset", "broke off"), ("truncate", "broke off"), ("eof", "ended without"), ("garbage", "broke off"),
        ("hold", "no byte moved"), ("stall", "no byte moved"), ("html", "no JSON"))])
    def test_a_broken_answer_is_asked_for_again_and_leaves_nothing(self, agent, fault, reason):
        self.plan(misbehave(says("Half an answer that is never whole"), fault), says("A whole answer."))
        session = self.client.start("Hello", agent=f"{agent}-quick")
        self.assert_one_answer(session, "A whole answer.")
        retrying, = self.records(session, "run.retrying")
        self.assertIn(reason, retrying["message"])
        self.assertNotIn("Half", json.dumps(self.client.log(session["id"])))

    @every(AGENTS)
    def test_a_provider_that_hangs_up_is_asked_again(self, agent):
        # On a kept connection the first time goes unnoticed: whoever kept it may have closed it for being idle.
        self.plan(misbehave(says("x"), "hang_up"), misbehave(says("x"), "hang_up"), says("A whole answer."))
        session = self.client.start("Hello", agent=f"{agent}-quick")
        self.assert_one_answer(session, "A whole answer.")
        self.assertIn(len(self.records(session, "run.retrying")), (1, 2))

    @every([("Messages", CLAUDE, "/v1/messages", 0), ("Chat Completions", CHAT, "/v1/chat/completions", 2),
            ("Responses", RESPONSES, "/v1/responses", 0)])
    def test_wherever_a_stream_ends_early_nothing_of_it_runs_or_stays(self, agent, path, behind_the_end):
        # Chat Completions is whole with its finish_reason: usage and [DONE] may be missing.
        whole = events_of(path, calls(("note", {"n": 1}), text="Now."))
        for cut in range(whole - behind_the_end):
            self.plan(misbehave(calls(("note", {"n": 1}), text="Now."), "eof", cut), says("Nothing ran."))
            session = self.client.start("Note 1", agent=f"{agent}-quick")
            self.assertEqual(self.notes(), [], cut)
            self.assertEqual(len(self.records(session, "run.retrying")), 1, cut)
            self.assert_one_answer(session, "Nothing ran.")

    def test_events_that_come_twice_do_no_harm(self):
        for agent, path in ((CLAUDE, "/v1/messages"), (RESPONSES, "/v1/responses")):
            step = calls(("note", {"n": 1}, "c1"))
            for index in range(events_of(path, step)):
                self.plan(misbehave(calls(("note", {"n": 1}, "c1")), "duplicate", index), step, step, says("Done."))
                session = self.client.start("Note 1", agent=agent)
                self.assertEqual(session["outcome"]["status"], "completed", (agent, index, session["outcome"]))
                for line in self.notes():  # never half an input, never a doubled one
                    self.assertEqual(line, '{"n":1}', (agent, index))
                if agent == RESPONSES:  # its events are numbered
                    self.assertEqual(self.records(session, "run.retrying"), [], index)

    def test_a_connection_that_breaks_behind_the_end_has_lost_nothing(self):
        self.plan(misbehave(says("Whole."), "linger"), says("never asked"))
        session = self.client.start("Hello", agent=f"{CLAUDE}-quick")
        self.assert_one_answer(session, "Whole.")
        self.assertEqual(len(self.fake.requests()), 1)

    @every([(f"{api} {status}", agent, status, reason) for api, agent in AGENTS for status, reason in (
        (400, "model_refused"), (403, "model_denied"), (404, "model_refused"), (413, "model_refused"))])
    def test_what_retrying_cannot_mend_fails_at_once_in_the_providers_words(self, agent, status, reason):
        self.plan(fails(status, "tools.0.name: what a name"))
        session = self.client.start("Hello", agent=agent)
        self.assertEqual(session["outcome"]["status"], "failed")
        failed, = self.records(session, "run.failed")
        self.assertEqual(failed["reason"], reason)
        self.assertIn(f"{status} ", failed["error"])
        self.assertIn("tools.0.name: what a name", failed["error"])
        self.assertEqual(len(self.fake.requests()), 1)
        self.assertEqual(self.records(session, "run.retrying"), [])

    @every([("Anthropic", CLAUDE, {"type": "error", "error": {
                "type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
            ("OpenAI", CHAT, {"error": {"message": "Your input exceeds the context window of this model.",
                                        "type": "invalid_request_error", "code": "context_length_exceeded"}})])
    def test_a_context_that_is_too_long_says_so(self, agent, body):
        self.plan(fails(400, body=body))
        session = self.client.start("Hello", agent=agent)
        self.assertEqual(session["outcome"]["error"]["code"], "context_too_long")
        self.assertEqual(len(self.fake.requests()), 1)

    def test_a_quota_that_is_used_up_is_not_asked_again(self):
        self.plan(replay(WIRE / "openai-chat/error-429-quota"), says("never"))
        session = self.client.start("Hello", agent=CHAT)
        self.assertEqual(session["outcome"]["error"]["code"], "model_denied")
        self.assertEqual(len(self.fake.requests()), 1)

    @every(AGENTS)
    def test_a_wrong_key_fails_and_is_never_written_down(self, agent):
        secret = "sk-wrong-canary-91c0"
        server = self.add_server(self.make_setup(), env={"ANTHROPIC_API_KEY": secret, "OPENAI_API_KEY": secret},
                                 arguments=["--log-level", "debug"])
        session = server.client().start("Hello", agent=agent)
        self.assertEqual(session["outcome"]["status"], "failed")
        self.assertEqual(session["outcome"]["error"]["code"], "model_denied")
        self.assertIn("***", session["outcome"]["error"]["message"])
        server.stop()
        written = [path for path in server.folder.rglob("*")
                   if path.is_file() and secret.encode() in path.read_bytes()]
        self.assertEqual(written, [])

    @every(AGENTS)
    def test_a_call_that_the_token_limit_cut_is_not_run(self, agent):
        self.plan(calls(("note", {"n": 1}), ("note", {"n": 2}), stop="max_tokens", cut_input='{"n": 2'),
                       says("I will be brief."))
        session = self.client.start("Note", agent=agent)
        self.assertEqual(session["outcome"]["status"], "completed", session)
        self.assertEqual(self.notes(), [])
        self.assertEqual(self.records(session, "message.assistant")[0]["stop_reason"], "max_tokens")
        self.assertEqual(self.fake.requests()[1].raw.decode().count("Not run: the message ended"), 2)

    def test_a_model_that_is_always_cut_ends_the_run(self):
        self.plan(calls(("note", {"n": 2}), stop="max_tokens", cut_input='{"n": 2'))
        session = self.client.start("Note", agent=CHAT)
        self.assertEqual(session["outcome"]["error"]["code"], "answers_cut")
        self.assertEqual(len(self.fake.requests()), 3)
        self.assertEqual(self.notes(), [])

    def test_arguments_that_are_no_json_are_an_error_for_the_model(self):
        self.plan(calls(("note", {}), cut_input="{n: 2}"), says("I see."))
        session = self.client.start("Note", agent=CHAT)
        self.assertEqual(session["outcome"]["status"], "completed", session)
        self.assertEqual(self.notes(), [])
        again = self.fake.requests()[1].json["messages"][2]["tool_calls"][0]["function"]["arguments"]
        self.assertEqual(again, "{n: 2}")


class Repairs(Models):
    """What goes out is what the provider takes; the log says what was changed."""

    def changes(self, session):
        return [change for record in self.records(session, "context.repaired") for change in record["changes"]]

    @every(AGENTS)
    def test_an_answer_without_words_is_not_sent_back(self, agent):
        self.plan(says(""), says("Now I speak."))
        session = self.client.start("Say nothing", agent=agent)
        self.assertEqual(session["outcome"]["status"], "completed", session)
        self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "And now?"})
        self.assertEqual(self.client.last_words(session["id"]), "Now I speak.")
        self.assertIn("message 2: it was empty and was left out", self.changes(session))
        self.assertEqual(self.conversation(self.fake.requests()[1]), [("user", "Say nothing"), ("user", "And now?")])

    def test_a_message_that_nobody_answered_is_joined_with_the_next(self):
        self.plan(fails(400, "no"), says("Both."))
        session = self.client.start("One", agent=CLAUDE)
        self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "Two"})
        messages = self.fake.requests()[1].json["messages"]
        self.assertEqual([message["role"] for message in messages], ["user"])
        self.assertEqual([block["text"] for block in messages[0]["content"]], ["One", "Two"])
        self.assertEqual(self.changes(session), ["message 2: it was joined with the one before it, of the same role"])

    def test_another_provider_gets_no_thinking_of_the_first(self):
        agents = [dict(agent, name="helper") for agent in self.agents() if agent["name"] in (CLAUDE, CHAT)]
        tools = self.make_setup().tools
        server = self.add_server(kit.Setup(agents=[agents[0]], tools=tools))
        self.plan(calls(("job", {}), thinking="Secret thoughts."), says("Done."))
        session = server.client().start("Go")
        server.restart(kit.Setup(agents=[agents[1]], tools=tools))
        self.client = server.client()
        pending = self.client.session(session["id"])["pending"][0]["pending_id"]
        self.client.result(pending, output="42", wait="10s")
        self.assertEqual(self.client.last_words(session["id"]), "Done.")
        self.assertEqual(self.changes(session),
                         ["message 2: a thinking block was left out: this provider does not know it"])
        last = self.fake.requests()[1]
        self.assertEqual(last.path, "/v1/chat/completions")
        self.assertNotIn("Secret", last.raw.decode())

    def test_the_log_stays_as_it_was(self):
        self.plan(says(""), says("Hi."))
        session = self.client.start("Say nothing", agent=CLAUDE)
        before = self.client.log(session["id"])
        self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "And now?"})
        self.assertEqual(self.client.log(session["id"])[:len(before)], before)


class Budgets(Models):
    """Over budget is a question, not an error."""

    @classmethod
    def agents(cls):
        base = super().agents()
        return [dict(base[0], name="thrifty", run_tokens=100), dict(base[3], name="poor", session_tokens=100),
                dict(base[0], name="free")]

    def note_for_ever(self, tokens):
        self.plan(calls(("note", {"n": 1}), usage={"input": tokens - 10, "output": 10}))

    def test_a_run_over_its_budget_waits_for_a_person_and_goes_on(self):
        self.note_for_ever(60)
        session = self.client.start("Go", agent="thrifty")
        self.assertEqual(session["outcome"]["status"], "suspended", session)
        self.assertEqual(session["status"], "waiting")
        self.assertEqual(len(self.fake.requests()), 2)
        wait = session["run"]["wait"]
        self.assertEqual(wait["kind"], "user_input")
        self.assertIn("120 tokens; its budget is 100", wait["prompt"])
        waits = [one for one in self.client.get("/v1/waits?kind=user_input")["items"]
                 if one["session_id"] == session["id"]]
        self.assertEqual([one["prompt"] for one in waits], [wait["prompt"]])
        self.assertIn("its budget is 100", self.client.get(f"/v1/sessions/{session['id']}/explain")["reason"])
        refused = self.client.post(f"/v1/sessions/{session['id']}/resume", {"results": {"c1": {"content": "x"}}})
        self.assert_problem(refused, 409, "resume_required")
        self.assertIn("send it a message", refused["detail"])
        client = self.restart()
        self.assertEqual(client.session(session["id"])["status"], "waiting")
        self.plan(says("I was nearly done.", usage={"input": 50, "output": 10}))
        answer = client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "Go on."})
        self.assertEqual(answer["outcome"]["status"], "completed", answer)
        conversation = self.conversation(self.fake.requests()[0])
        self.assertEqual(conversation[-2:], [("result", conversation[-2][1]), ("user", "Go on.")])
        self.assertEqual(len(self.records(session, "run.started")), 1)
        self.assertEqual(self.records(session, "run.resumed")[0]["reason"], "input")

    def test_a_budget_is_lifted_by_a_resume_with_input_and_the_right_token(self):
        self.note_for_ever(60)
        session = self.client.start("Go", agent="thrifty")
        token = session["outcome"]["suspension"]["resume_token"]
        resume = f"/v1/sessions/{session['id']}/resume"
        wrong = token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB")
        self.assert_problem(self.client.post(resume, {"token": wrong, "input": "Go on."}), 401, "invalid_token")
        both = {"token": token, "input": "Go on.", "results": {"c1": {"content": "x"}}}
        self.assert_problem(self.client.post(resume, both), 409, "resume_required")
        self.plan(says("I was nearly done.", usage={"input": 50, "output": 10}))
        answer = self.client.post(f"{resume}?wait=10s", {"token": token, "input": "Go on."})
        self.assertEqual((answer["outcome"]["status"], answer["remaining"]), ("completed", []), answer)
        self.assertEqual(self.records(session, "run.resumed")[0]["reason"], "input")
        self.assertEqual(len(self.records(session, "run.started")), 1)
        again = self.client.post(resume, {"token": token, "input": "Go on."})
        self.assert_problem(again, 410, "token_consumed")
        self.assert_problem(self.client.post(resume, {"input": "And?"}), 409, "no_suspended_turn")

    def test_what_a_person_lets_go_on_waits_again_when_it_has_used_as_much_again(self):
        self.note_for_ever(60)
        session = self.client.start("Go", agent="thrifty")
        for asked in (4, 6):
            answer = self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "Go on."})
            self.assertEqual(answer["outcome"]["status"], "suspended", answer)
            self.assertEqual(len(self.fake.requests()), asked)

    def test_a_session_over_its_budget_waits_in_its_next_run(self):
        self.plan(says("Expensive.", usage={"input": 90, "output": 20}))
        session = self.client.start("One", agent="poor")
        self.assertEqual(session["outcome"]["status"], "completed")
        answer = self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "Two"})
        self.assertEqual(answer["outcome"]["status"], "suspended", answer)
        self.assertEqual(len(self.fake.requests()), 1)
        self.assertIn("This session has used 110 tokens; its budget is 100",
                      self.client.session(session["id"])["run"]["wait"]["prompt"])
        answer = self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "Please do"})
        self.assertEqual(answer["outcome"]["status"], "completed", answer)
        said = self.conversation(self.fake.requests()[1])
        self.assertEqual(said[-2:], [("user", "Two"), ("user", "Please do")])

    def test_the_command_line_says_why_it_waits_and_how_to_go_on(self):
        self.note_for_ever(110)
        done = self.run_cli("--agent", "thrifty", "Go")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("This run has used 110 tokens; its budget is 100", done.stdout)
        self.assertRegex(done.stdout, r"rouse run 'go on' --session sess_\w+")
        listed = self.run_cli(command="waits")
        self.assertIn("its budget is 100", listed.stdout)

    def test_a_run_over_budget_can_be_cancelled(self):
        for mode in ("discard", "acknowledge"):  # it has nothing to say any more
            self.note_for_ever(110)
            session = self.client.start("Go", agent="thrifty")
            self.assert_status(self.client.post(f"/v1/sessions/{session['id']}/cancel", {"mode": mode}), 202)
            self.assertEqual(self.client.session(session["id"])["status"], "idle")

    def test_without_a_budget_nothing_waits(self):
        self.plan(calls(("note", {"n": 1}), usage={"input": 10**9, "output": 10**9}), says("Done."))
        session = self.client.start("Go", agent="free")
        self.assertEqual(session["outcome"]["status"], "completed")


class Choosing(Models):
    """Sessions that name their model themselves."""

    @classmethod
    def make_setup(cls, **sections):
        script = [kit.says("scripted", repeat=True)]
        agents = [{"name": "plain", "script": script, "tools": ["note"]}]
        return kit.Setup(agents=agents, tools=super().make_setup().tools,
                         anthropic={"base_url": cls.fake.anthropic_url}, openai={"base_url": cls.fake.openai_url},
                         **sections)

    @every([("Anthropic", "anthropic:claude-x", "/v1/messages"), ("OpenAI", "openai:gpt:x", "/v1/chat/completions")])
    def test_rouse_run_with_a_model_holds_a_conversation_with_tools(self, model, path):
        self.plan(calls(("note", {"n": 5}), text="Noting."), says("Noted 5."))
        done = self.run_cli("--model", model, "Note 5, please")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "Noting.\nNoted 5.\n")
        self.assertEqual(self.notes(), ['{"n":5}'])
        self.assertEqual({request.path for request in self.fake.requests()}, {path})
        self.assertEqual(self.fake.requests()[0].json["model"], model.split(":", 1)[1])

    def test_a_chosen_model_stays_over_restarts(self):
        self.plan(says("One."), says("Two."))
        session = self.client.start("Hello", provider={"type": "anthropic", "model": "claude-x"})
        self.assertEqual(session["provider"], {"type": "anthropic", "model": "claude-x", "chosen": True})
        client = self.restart()
        client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "And?"})
        self.assertEqual(client.last_words(session["id"]), "Two.")
        self.assertEqual(client.start("Hello")["provider"]["type"], "scripted")

    def test_the_command_line_shows_a_retry_and_the_answer_once(self):
        self.plan(misbehave(says("Half an answer"), "eof"), says("A whole answer."))
        done = self.run_cli("--model", "anthropic:claude-x", "Hello")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith("A whole answer.\n"), done.stdout)
        self.assertEqual(done.stdout.count("A whole"), 1, done.stdout)
        self.assertIn("the model is asked again: attempt 2", done.stderr)

    @every([("scripted", {"type": "scripted", "model": "/etc/passwd"}), ("unknown", {"type": "x", "model": "y"}),
            ("no model", {"type": "openai"}), ("no type", {"model": "gpt"})])
    def test_only_models_of_providers_can_be_named(self, provider):
        answer = self.client.post("/v1/sessions", {"provider": provider})
        self.assert_problem(answer, 400, "invalid_request")
        self.assertIn("a session can name a model", answer["detail"])

    def test_without_a_key_an_agent_does_not_start_and_a_session_is_refused(self):
        setup = kit.Setup(agents=[{"name": "helper", "model": "anthropic:claude-x"}])
        server = self.add_server(setup, env={"ANTHROPIC_API_KEY": ""}, start=False)
        with self.assertRaises(AssertionError) as caught:
            server.start()
        self.assertIn("agent helper: there is no key: set ANTHROPIC_API_KEY", str(caught.exception))
        server = self.add_server(None, env={"OPENAI_API_KEY": ""})
        answer = server.client().post("/v1/sessions", {"provider": {"type": "openai", "model": "gpt-x"}})
        self.assert_problem(answer, 400, "invalid_request")
        self.assertIn("OPENAI_API_KEY", answer["detail"])


NODE = kit.TREE / "tests/models/node"
NPM = [("Messages", "anthropic"), ("Chat Completions", "chat"), ("Responses", "responses")]


def node(script, *arguments, given=None):
    """Runs a script of tests/models/node; scripts/bootstrap test has installed what it needs."""
    done = subprocess.run(["node", str(NODE / script), *arguments], input=given, capture_output=True, text=True)
    if done.stderr:
        raise AssertionError(done.stderr)
    return done


class Faithful(Models):
    """The fake is what the providers' own clients take for a provider; our requests are what they document."""

    def read_by_client(self, api, mode, key=KEY):
        url = self.fake.anthropic_url if api == "anthropic" else self.fake.openai_url
        return json.loads(node("clients.mjs", api, url, mode, key).stdout)

    @every([(f"{name} {mode}", api, mode) for name, api in NPM for mode in ("stream", "whole")])
    def test_the_official_clients_read_the_fake(self, api, mode):
        thinking = "" if api == "chat" else "Let me see."
        self.plan(calls(("note", {"n": 1, "ü": "\"x\""}), ("note", {}), text="Grüße 🌤️.", thinking=thinking,
                             usage={"input": 30, "output": 12}))
        self.assertEqual(self.read_by_client(api, mode), {
            "text": "Grüße 🌤️.", "thinking": thinking, "calls": [["note", {"n": 1, "ü": "\"x\""}], ["note", {}]],
            "stop": "tool_use", "input": 30, "output": 12})

    @every(NPM)
    def test_the_official_clients_see_its_errors(self, api):
        for status, name in ((400, "BadRequestError"), (403, "PermissionDeniedError"), (429, "RateLimitError"),
                             (500, "InternalServerError")):
            self.plan(fails(status, "no"))
            self.assertEqual(self.read_by_client(api, "stream"), {"error": {"name": name, "status": status}})
        self.plan(says("never"))
        self.assertEqual(self.read_by_client(api, "stream", "sk-wrong")["error"]["status"], 401)

    def test_what_we_send_is_what_the_providers_document(self):
        content = [{"type": "text", "text": "Look"},
                   {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}]
        bodies = []
        for api, agent in (("anthropic", CLAUDE), ("chat", CHAT), ("responses", RESPONSES)):
            for name in (agent, f"{agent}-whole"):
                self.plan(calls(("note", {"n": 1}), ("note", {"n": "x"}), ("job", {}), text="Now.",
                                     thinking="Hm."), says(""), says("Done."))
                session = self.client.start(content, agent=name)
                pending = session["pending"][0]["pending_id"]
                self.client.post("/v1/sessions/%s/resume?wait=10s" % session["id"], {"results": {
                    session["pending"][0]["call_id"]: {"content": content}}})
                self.assertTrue(pending)
                self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "And?"})
                bodies += [{"api": api, "body": request.json} for request in self.fake.requests()]
        self.assertEqual(len(bodies), 18)
        done = node("check_requests.mjs", given=json.dumps(bodies))
        self.assertEqual(done.stdout, "")
        broken = [{"api": one["api"], "body": {**one["body"], "modle": "x"}} for one in bodies[::6]]
        self.assertEqual(node("check_requests.mjs", given=json.dumps(broken)).stdout.count("does not exist"), 3)
