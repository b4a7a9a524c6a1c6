"""A process that dies in the middle of a run: what is recorded, what goes on, what is never done twice."""

import pathlib
import shutil
import tempfile

import kit
from kit import calls, every, on_result, on_user, says

WORK = "echo run >> {0}; until test -e {1}; do sleep 0.02; done; echo counted"
STUCK = ("counter", "safe", "reader", "asks")


def setup_of(folder, resume="active", **more):
    """Tools that write a line and then hang until the file `go` is there."""
    tools = []
    for name, extra in (("counter", {}), ("safe", {"idempotent": True}), ("reader", {"read_only": True}),
                        ("asks", {"on_unknown": "ask"})):
        command = ["/bin/sh", "-c", WORK.format(folder / name, folder / "go")]
        tools.append({"name": name, "kind": "exec", "command": command, **extra})
    fast = f"echo run >> {folder}/fast; echo quick"
    tools.append({"name": "fast", "kind": "exec", "command": ["/bin/sh", "-c", fast]})
    tools.append({"name": "job", "kind": "external"})
    script = [
        on_user("for ever", says("never", delay_ms=30000)),
        on_user("think", says("thought", delay_ms=500)),
        on_user("both", calls(("fast", {}, "call_f"), ("counter", {}, "call_c"))),
        *[on_user(f"use {name}", calls((name, {}, "call_1"))) for name in STUCK],
        on_user("wait", calls(("job", {}, "call_j"))),
        *[on_result(name, says("{{result}}")) for name in STUCK + ("fast", "job")],
        says("hello", repeat=True),
    ]
    names = [tool["name"] for tool in tools]
    return kit.Setup(
        agents=[{"name": "helper", "script": script, "tools": names},
                {"name": "careful", "script": script, "tools": names, "on_unknown": "ask"},
                {"name": "hasty", "script": [on_user("wait", calls("job")), says("never", delay_ms=30000, repeat=True)],
                 "tools": names, "time_limit": "200ms"}],
        tools=tools, recovery={"resume": resume}, **more)


class InterruptionCase(kit.Case):
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
        return setup_of(cls.place)

    def setUp(self):
        for path in self.place.iterdir():
            path.unlink()
        super().setUp()

    def tearDown(self):
        (self.place / "go").touch()  # lets orphans of a killed server end
        super().tearDown()

    def restart_with(self, resume, **more):
        return self.restart(setup_of(self.place, resume, **more))

    def runs(self, name):
        path = self.place / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def running(self, message, **fields):
        session = self.client.start(message, wait=None, **fields)["id"]
        self.assertEqual(self.client.session(session)["status"], "running")
        return session

    def records(self, session, kind):
        return [r for r in self.client.log(session) if r["kind"] == kind]


class TimeLimit(InterruptionCase):
    def failures(self, session):
        return [r["reason"] for r in self.client.log(session) if r["kind"] == "run.failed"]

    def test_a_turn_that_takes_too_long_has_failed(self):
        session = self.client.start("hello", agent="hasty")
        self.assertEqual((session["outcome"]["status"], session["outcome"]["error"]["code"]), ("failed", "time_limit"))
        self.assertEqual(self.failures(session["id"]), ["time_limit"])
        self.assertNotIn("run.interrupted", self.client.kinds(session["id"]))

    def test_so_has_one_that_takes_too_long_after_its_wait(self):
        # It would be driven again and again: the log says that a result was accepted and not applied.
        session = self.client.start("wait", agent="hasty")
        answer = self.client.result(session["pending"][0]["pending_id"], wait="10s")
        self.assertEqual((answer["outcome"]["status"], answer["outcome"]["error"]["code"]), ("failed", "time_limit"))
        self.assertEqual(self.failures(session["id"]), ["time_limit"])
        self.assertEqual(self.client.session(session["id"])["status"], "idle")


class Interruptions(InterruptionCase):
    def test_a_kill_in_the_middle_of_a_model_call_is_one_interruption(self):
        # S3-34 S3-35 S3-36 S3-37 S3-38 S3-61 S3-66 S3-68 S3-73
        session = self.running("think")
        run = self.client.session(session)["run"]["run_id"]
        self.restart_with("off")
        view = self.client.session(session)
        self.assertEqual((view["status"], view["state"], view["activity"]),
                         ("interrupted_startup", "ERROR", {"type": "idle"}))
        self.assertEqual(view["run"]["outcome"], "interrupted")
        interruption = view["recovery"]["interruption"]
        at = interruption.pop("at")
        self.assertEqual(interruption, {"run_id": run, "reason": "process_restart", "while": "running",
                                        "exhausted": False})
        found = self.records(session, "run.interrupted")
        self.assertEqual([(r["run_id"], r["reason"], r["ts"]) for r in found], [(run, "process_restart", at)])
        self.assertEqual([r["status"] for r in self.records(session, "status.derived")], ["interrupted_startup"])
        self.assertEqual(self.client.get("/async-tool/recovery/status")["interrupted"], 1)
        before = self.client.log(session)
        for _ in range(2):  # a second start adds nothing
            self.restart_with("off")
            self.assertEqual(self.client.log(session), before)
            self.assertEqual(self.client.session(session)["status"], "interrupted_startup")
            self.assertEqual(self.client.get("/async-tool/recovery/status")["interrupted"], 0)
        self.assertIn(session, [s["id"] for s in self.client.get("/v1/sessions?status=interrupted_startup")["items"]])

    def test_the_metrics_count_it_at_the_boot_that_found_it(self):
        # S3-77
        self.running("think")
        for interrupted in (1, 0):
            self.restart_with("off")
            metrics = self.client.get("/metrics").body.decode().splitlines()
            self.assertIn(f'rouse_recovery_sessions_total{{action="interrupted"}} {interrupted}', metrics)

    def test_the_stream_tells_of_the_interruption(self):
        # S3-67 S3-73
        session = self.running("think")
        stream = self.stream(f"/v1/sessions/{session}/events?from_seq=1")
        stream.wait_for("run.started")
        self.restart_with("off")
        again = self.stream(f"/v1/sessions/{session}/events", last_event_id=stream.last_id())
        again.wait_for("run.interrupted")
        again.wait_for("status.derived")
        status = again.wait_for("status")[-1].data
        self.assertEqual(status["status"], "interrupted_startup")
        self.assertEqual(stream.seqs() + again.seqs(), list(range(1, self.client.session(session)["last_seq"] + 1)))

    def test_continue_goes_on_in_a_new_run(self):
        session = self.running("think")
        first = self.client.session(session)["run"]["run_id"]
        self.restart_with("off")
        answer = self.assert_status(self.client.post(f"/v1/sessions/{session}/continue"), 202)
        self.assertNotEqual(answer["run_id"], first)
        started = self.records(session, "run.started")
        self.assertEqual([(r["run_id"], r.get("continues")) for r in started],
                         [(first, None), (answer["run_id"], first)])
        self.assertEqual(answer["seq"], started[-1]["seq"])
        view = self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "thought")
        self.assertIsNone(view["recovery"]["interruption"])
        self.assertEqual(len(self.records(session, "message.user")), 1)
        with self.nothing_changes(session):
            self.assert_problem(self.client.post(f"/v1/sessions/{session}/continue"), 409, "not_interrupted")

    def test_continue_with_wait_brings_the_outcome(self):
        session = self.running("think")
        self.restart_with("off")
        answer = self.assert_status(self.client.post(f"/v1/sessions/{session}/continue?wait=10s"), 200)
        self.assertEqual(answer["outcome"]["status"], "completed")

    @every([("new", None), ("waiting", "wait"), ("idle", "hello")])
    def test_only_interrupted_sessions_continue(self, message):
        session = self.client.start(message)["id"]
        with self.nothing_changes(session):
            self.assert_problem(self.client.post(f"/v1/sessions/{session}/continue"), 409, "not_interrupted")

    def test_active_runs_go_on_by_themselves(self):
        # design 8: the default
        session = self.running("think")
        first = self.client.session(session)["run"]["run_id"]
        self.restart()
        view = self.client.wait_status(session, "idle")
        self.assertEqual(view["run"]["outcome"], "completed")
        self.assertEqual(self.client.last_words(session), "thought")
        self.assertEqual([r.get("continues") for r in self.records(session, "run.started")], [None, first])
        self.assertEqual(len(self.records(session, "run.interrupted")), 1)

    def test_those_of_earlier_boots_go_on_with_all_only(self):
        session = self.running("think")
        self.restart_with("off")
        self.client.start("hello")  # a whole turn of another session: recovery is over
        with self.nothing_changes(session):
            self.restart_with("active")
            self.client.start("hello")
            self.assertEqual(self.client.session(session)["status"], "interrupted_startup")
        self.restart_with("all")
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "thought")

    def test_attempts_are_bounded(self):
        # design 8: three interruptions in a row without a completed model step
        session = self.running("for ever")
        for attempt in range(1, 4):
            self.restart()
            interruptions = self.records(session, "run.interrupted")
            self.assertEqual(len(interruptions), attempt)
            if attempt < 3:
                self.client.wait_status(session, "running")
        view = self.client.session(session)
        self.assertEqual(view["status"], "interrupted_startup")
        self.assertIs(view["recovery"]["interruption"]["exhausted"], True)
        with self.nothing_changes(session):
            self.restart_with("all")
            self.client.start("hello")
            self.assertEqual(self.client.session(session)["status"], "interrupted_startup")
        # A person may insist.
        self.assert_status(self.client.post(f"/v1/sessions/{session}/continue"), 202)
        self.assertEqual(self.client.session(session)["status"], "running")
        self.client.post(f"/v1/sessions/{session}/cancel")

    def test_a_new_message_starts_anew(self):
        session = self.running("think")
        self.restart_with("off")
        answer = self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hello"})
        self.assertEqual(self.assert_status(answer, 200)["outcome"]["status"], "completed")
        view = self.client.session(session)
        self.assertEqual((view["status"], view["recovery"]["interruption"]), ("idle", None))
        self.assertEqual([r.get("continues") for r in self.records(session, "run.started")], [None, None])

    def test_what_was_queued_comes_after_what_goes_on(self):
        session = self.running("think")
        queued = self.client.post(f"/v1/sessions/{session}/messages", {"content": "hello"})
        self.assertIs(self.assert_status(queued, 202)["queued"], True)
        self.restart()
        kit.wait_until(lambda: len(self.records(session, "run.completed")) == 2, "both runs")
        said = ["".join(b.get("text", "") for b in e["content"])
                for e in self.client.transcript(session) if e["role"] == "assistant"]
        self.assertEqual(said, ["thought", "hello"])

    def test_a_run_that_a_person_cancelled_is_never_resumed(self):
        # design 8
        session = self.running("for ever")
        self.assert_status(self.client.post(f"/v1/sessions/{session}/cancel"), 202)
        self.restart_with("all")
        self.client.start("hello")
        view = self.client.session(session)
        self.assertEqual((view["status"], view["run"]["outcome"]), ("idle", "cancelled"))
        self.assertEqual(self.records(session, "run.interrupted"), [])

    def test_a_waiting_session_is_no_interruption(self):
        # S0-82 S3-61: parked runs stay parked, over any number of restarts
        session = self.client.start("wait")
        before = self.client.log(session["id"])
        for resume in ("active", "all", "off"):
            self.restart_with(resume)
            self.assertEqual(self.client.session(session["id"])["status"], "waiting")
            self.assertEqual(self.client.log(session["id"]), before)
        self.client.result(session["pending"][0]["pending_id"], "r", wait="10s")
        self.assertEqual(self.client.last_words(session["id"]), "r")

    def test_many_runs_go_on_within_the_limit(self):
        # design 7 Load: accepted work beyond the limit queues, at boot too
        sessions = [self.client.start("think", wait=None)["id"] for _ in range(12)]
        self.restart_with("active", limits={"concurrent_runs": 4})
        for session in sessions:
            self.client.wait_status(session, "idle")
            self.assertEqual(self.client.last_words(session), "thought")
            self.assertEqual(len(self.records(session, "run.completed")), 1)

    def test_a_clean_shutdown_is_marked_and_goes_on(self):
        # design 8 and 12: what a clean shutdown ended
        self.server.setup = setup_of(self.place, "active", limits={"shutdown_time": "100ms"})
        self.server.restart()
        self.client = self.server.client()
        session = self.running("think")
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        self.client = self.server.client()
        self.client.wait_status(session, "idle")
        self.assertEqual([r["reason"] for r in self.records(session, "run.interrupted")], ["process_exit"])
        self.assertEqual(self.client.last_words(session), "thought")


class StandingInLine(InterruptionCase):
    fresh = True

    @classmethod
    def make_setup(cls):
        return setup_of(cls.place, limits={"concurrent_runs": 1})

    def test_a_run_that_nobody_had_time_for_is_not_given_up(self):
        # design 8: three interruptions in a row, of what was tried
        stuck = self.running("for ever")
        others = [self.client.start("think", wait=None)["id"] for _ in range(2)]
        for _ in range(3):
            self.client.wait_status(stuck, "running")  # the oldest first
            self.restart()
        self.assertIs(self.client.session(stuck)["recovery"]["interruption"]["exhausted"], True)
        for session in others:
            self.client.wait_status(session, "idle")
            self.assertEqual(self.client.last_words(session), "thought")
            self.assertEqual(len(self.records(session, "run.interrupted")), 1)
        kit.wait_until(lambda: self.server.events("boot.continued"), "the boot to be through")


class KeysOfCalls(kit.Case):
    """What an http tool's server tells a repeated call from another one by."""

    @classmethod
    def make_setup(cls):
        tool = {"name": "order", "kind": "http", "url": cls.outside.url + "/order"}
        script = [on_user("please", calls(("order", {}, "call_1"))), on_result("order", says("ordered"))]
        return kit.Setup(agents=[{"name": "helper", "script": script, "tools": ["order"]}], tools=[tool])

    def test_a_call_with_the_id_of_an_earlier_one_has_another_key(self):
        session = self.client.start("one, please")["id"]
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "another, please"})
        first, another = [r.headers["Idempotency-Key"] for r in self.outside.requests("/order")]
        self.assertNotEqual(first, another)


class ToolsThatMayHaveRun(InterruptionCase):
    def cut(self, name, message=None, **fields):
        """Kills the server while a tool runs, lets what is left of it end, and restarts."""
        session = self.client.start(message or f"use {name}", wait=None, **fields)["id"]
        kit.wait_until(lambda: self.runs(name) == 1, "the tool to start")
        self.server.kill()
        (self.place / "go").touch()
        self.server.start()
        self.client = self.server.client()
        return session

    def test_a_tool_is_not_run_twice_by_default(self):
        # P8, design 8: the error result "interrupted, outcome unknown"
        session = self.cut("counter")
        self.client.wait_status(session, "idle")
        self.assertEqual(self.runs("counter"), 1)
        self.assertIn("outcome unknown", self.client.last_words(session))
        self.assertEqual(len(self.records(session, "tool.started")), 1)
        part = [p for e in self.client.transcript(session) for p in e["parts"]][0]
        self.assertEqual(part["state"]["status"], "error")

    @every([("idempotent", "safe"), ("read only", "reader")])
    def test_a_tool_that_says_so_is_run_again(self, name):
        (self.place / "go").unlink(missing_ok=True)
        session = self.cut(name)
        self.client.wait_status(session, "idle")
        self.assertEqual(self.runs(name), 2)
        self.assertEqual(self.client.last_words(session).strip(), "counted")

    def test_a_person_is_asked_if_the_tool_wants_that(self):
        session = self.cut("asks")
        view = self.client.wait_status(session, "waiting")
        self.assertEqual(self.runs("asks"), 1)
        self.assertEqual(view["run"]["wait"]["kind"], "person")
        call = view["pending"][0]
        self.assertEqual((call["tool"], call["waits_for"]), ("asks", "person"))
        self.restart()
        self.assertEqual(self.client.session(session)["status"], "waiting")
        self.assert_problem(self.token("submit").result(call["pending_id"], "x"), 403, "forbidden")
        self.assert_status(self.client.result(call["pending_id"], "it did run", wait="10s"), 200)
        self.assertEqual(self.client.last_words(session), "it did run")
        self.assertEqual(self.runs("asks"), 1)

    def test_the_agent_may_want_that_for_its_tools(self):
        # docs/configuration.md: agents.on_unknown, for tools that do not say it themselves
        session = self.cut("counter", agent="careful")
        self.client.wait_kind(session, "run.started", 2)
        view = kit.wait_until(lambda: (v := self.client.session(session))["status"] in ("waiting", "idle") and v)
        self.assertEqual(view["status"], "waiting")
        self.assertEqual(view["run"]["wait"]["kind"], "person")
        self.assertEqual(self.runs("counter"), 1)

    def test_calls_that_had_ended_are_not_repeated(self):
        # design 8: from the last durable step
        session = self.client.start("both", wait=None)["id"]
        kit.wait_until(lambda: self.runs("counter") == 1, "the slow tool to start")
        self.client.wait_kind(session, "tool.completed")
        self.server.kill()
        (self.place / "go").touch()
        self.server.start()
        self.client = self.server.client()
        self.client.wait_status(session, "idle")
        self.assertEqual((self.runs("fast"), self.runs("counter")), (1, 1))
        parts = {p["call_id"]: p["state"] for e in self.client.transcript(session) for p in e["parts"]}
        self.assertEqual((parts["call_f"]["status"], parts["call_f"]["output"].strip()), ("completed", "quick"))
        self.assertEqual(parts["call_c"]["status"], "error")

    def test_no_tool_runs_when_nobody_lets_it_go_on(self):
        session = self.client.start("use safe", wait=None)["id"]
        kit.wait_until(lambda: self.runs("safe") == 1, "the tool to start")
        self.server.kill()
        (self.place / "go").touch()
        self.server.setup = setup_of(self.place, "off")
        self.server.start()
        self.client = self.server.client()
        self.client.start("hello")
        self.assertEqual((self.client.session(session)["status"], self.runs("safe")), ("interrupted_startup", 1))
        answer = self.client.post(f"/v1/sessions/{session}/continue?wait=10s")
        self.assertEqual(answer["outcome"]["status"], "completed")
        self.assertEqual(self.runs("safe"), 2)

    def test_a_new_message_closes_what_was_open(self):
        # S2-65: the model never sees a tool call without a result
        session = self.client.start("use counter", wait=None)["id"]
        kit.wait_until(lambda: self.runs("counter") == 1, "the tool to start")
        self.server.kill()
        (self.place / "go").touch()
        self.server.setup = setup_of(self.place, "off")
        self.server.start()
        self.client = self.server.client()
        self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "say hello"})
        parts = [p for e in self.client.transcript(session) for p in e["parts"]]
        self.assertEqual([p["state"]["status"] for p in parts], ["error"])
        self.assertEqual(self.runs("counter"), 1)
