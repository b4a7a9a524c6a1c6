"""Calls that take longer than their turn waits for them (detach_after), and programs that start jobs."""

import json
import pathlib
import shutil
import tempfile

import kit
from kit import calls, on_result, on_user, says

SLOW = "echo run >> {0}/{1}; until test -e {0}/go; do sleep 0.02; done; echo finished"
START = 'cat > {0}/told; printenv ROUSE_PENDING_ID ROUSE_CALLBACK_URL > {0}/env; echo \'{1}\'; exit {2}'
STARTED = {"externalRef": "job-7", "estimatedDuration": 9000, "output": "Queued as job-7"}
NAMES = ("slow", "asks", "again", "checked", "brief", "failing", "job", "broken_job", "stuck_job")


class DetachCase(kit.Case):
    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="rouse-e2e-"))
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.place, ignore_errors=True)

    @classmethod
    def make_setup(cls):
        def program(name, command, **more):
            return {"name": name, "kind": "exec", "command": ["/bin/sh", "-c", command], **more}

        slow = [program(name, SLOW.format(cls.place, name), detach_after="100ms", **more) for name, more in (
            ("slow", {}), ("asks", {"on_unknown": "ask"}), ("brief", {"timeout": "400ms"}),
            ("again", {"idempotent": True, "on_unknown": "ask"}),
            ("checked", {"result_schema": {"type": "object"}}))]
        failing = f"until test -e {cls.place}/go; do sleep 0.02; done; echo no such branch >&2; exit 3"
        start = START.format(cls.place, json.dumps(STARTED), 0)
        tools = slow + [
            program("failing", failing, detach_after="100ms"),
            program("job", start, **{"async": True, "timeout": "1h"}),
            program("broken_job", START.format(cls.place, "", 4), **{"async": True}),
            program("stuck_job", "exec sleep 30", **{"async": True, "start_timeout": "200ms"}),
        ]
        tools += [program(name, f"echo {name}", detach_after="10s") for name in ("first", "second")]
        twice = [on_user("twice the same id", calls(("first", {}, "call_1"))),
                 on_result("first", calls(("second", {}, "call_1"))), on_result("second", says("{{result}}"))]
        script = twice + [on_user(f"use {name}", calls((name, {"n": 1}, "call_1"))) for name in NAMES]
        script += [on_result(name, says("{{result}}")) for name in NAMES]
        return kit.Setup(agents=[{"name": "helper", "script": script, "tools": [*NAMES, "first", "second"]}], tools=tools)

    def setUp(self):
        for path in self.place.iterdir():
            path.unlink()
        super().setUp()

    def tearDown(self):
        self.finish()  # lets orphans of a killed server end
        super().tearDown()

    def finish(self):
        (self.place / "go").touch()

    def suspend(self, tool):
        session = self.client.start(f"use {tool}")
        self.assertEqual(session["outcome"]["status"], "suspended", session)
        return session["id"], session["pending"][0]["pending_id"]

    def words(self, session):
        self.client.wait_status(session, "idle")
        return self.client.last_words(session)

    def runs(self, name):
        path = self.place / name
        return len(path.read_text().splitlines()) if path.exists() else 0


class Detaching(DetachCase):
    def test_a_slow_call_becomes_a_pending_one_and_ends_by_itself(self):
        # design 6: a synchronous tool that passes its soft limit
        session, _ = self.suspend("slow")
        self.assertEqual(self.client.session(session)["status"], "waiting")
        self.finish()
        self.assertEqual(self.words(session).strip(), "finished")
        self.assertEqual(self.runs("slow"), 1)
        kinds = self.client.kinds(session)
        self.assertEqual(kinds.count("pending.completed"), 1)
        self.assertEqual(kinds.count("run.resumed"), 1)

    def test_a_call_that_is_quick_enough_does_not_wait(self):
        self.finish()
        session = self.client.start("use slow")
        self.assertEqual(session["outcome"]["status"], "completed")
        self.assertNotIn("run.waiting", self.client.kinds(session["id"]))

    def test_a_call_with_the_id_of_an_earlier_one_has_a_result_of_its_own(self):
        session = self.client.start("twice the same id")
        self.assertEqual(session["outcome"]["status"], "completed", session)
        self.assertEqual(self.client.last_words(session["id"]).strip(), "second")

    def test_its_failure_is_an_error_to_the_model(self):
        session, _ = self.suspend("failing")
        self.finish()
        self.assertIn("no such branch", self.words(session))

    def test_a_result_that_does_not_fit_its_schema_is_an_error_to_the_model(self):
        session, _ = self.suspend("checked")
        self.finish()
        self.assertIn("result_schema", self.words(session))

    def test_nobody_claims_it(self):
        session, pending = self.suspend("slow")
        with self.nothing_changes(session):
            answer = self.client.post("/async-tool/claim", {"worker": "w", "tools": ["slow"]})
            self.assertEqual(answer["pending"], [])
            self.assert_problem(self.client.post(f"/async-tool/pending/{pending}/claim", {"worker": "w"}),
                                403, "forbidden")

    def test_cancelling_the_session_ends_the_program(self):
        session, _ = self.suspend("slow")
        self.assert_status(self.client.post(f"/v1/sessions/{session}/cancel?wait=10s"), 200)
        program = f"{self.place}/slow"
        kit.wait_until(lambda: not self.has_process(program), "the program to end")
        self.finish()
        self.assertNotIn("pending.completed", self.client.kinds(session))

    def has_process(self, text):
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if text in path.read_bytes().decode(errors="replace"):
                    return True
            except OSError:
                pass
        return False

    def test_its_time_runs_out(self):
        session, pending = self.suspend("brief")
        self.words(session)
        status = self.client.get(f"/async-tool/pending/{pending}")["pending"]["status"]
        self.assertIn(status, ("expired", "completed", "failed"))  # by its own limit or by ours
        self.assertEqual(self.client.kinds(session).count("run.resumed"), 1)

    def test_kill_9_leaves_an_unknown_outcome(self):
        # design 6: at the next boot it is settled by its on_unknown rule
        session, _ = self.suspend("slow")
        self.restart()
        self.assertIn("outcome unknown", self.words(session))
        self.assertEqual(self.runs("slow"), 1)
        boot = self.client.get("/async-tool/recovery/status")
        self.assertEqual((boot["expired"], boot["redriven"]), (0, 1))

    def test_kill_9_and_a_person_is_asked(self):
        session, pending = self.suspend("asks")
        self.restart()
        call = self.client.session(session)["pending"][0]
        self.assertEqual((call["pending_id"], call["waits_for"]), (pending, "person"))
        self.assertIn("may have done its work", call["prompt"])
        self.restart()  # asked once
        self.assertEqual(sum(1 for r in self.client.log(session) if r.get("reason") == "outcome_unknown"), 1)
        self.assert_status(self.client.result(pending, "it did"), 200)
        self.assertEqual(self.words(session), "it did")
        self.assertEqual(self.runs("asks"), 1)

    def test_kill_9_and_a_call_that_may_run_again_does_so(self):
        # design 8: it is repeated only if its tool says that this is safe
        session, first = self.suspend("again")
        self.restart()
        kit.wait_until(lambda: self.runs("again") == 2, "the program to start again")
        self.assertNotIn("outcome unknown", json.dumps(self.client.log(session)))
        approved = [r for r in self.client.log(session) if r["kind"] == "pending.approved"]
        self.assertEqual([(r["pending_id"], r["reason"]) for r in approved], [(first, "process_restart")])
        kit.wait_until(lambda: self.client.session(session)["pending"], "it to detach again")
        self.restart()
        kit.wait_until(lambda: self.runs("again") == 3, "the program to start a third time")
        self.finish()
        self.assertEqual(self.words(session).strip(), "finished")

    def test_kill_9_before_a_call_that_may_run_again_was_detached(self):
        session = self.client.start("use again", wait=None)["id"]
        kit.wait_until(lambda: self.runs("again"), "the program to start")
        self.restart()
        kit.wait_until(lambda: self.runs("again") == 2, "the program to start again")
        self.finish()
        self.assertEqual(self.words(session).strip(), "finished")

    def test_kill_9_before_it_was_detached(self):
        # The process dies while the turn still holds the call.
        session = self.client.start("use asks", wait=None)["id"]
        kit.wait_until(lambda: self.runs("asks"), "the program to start")
        self.restart()
        kit.wait_until(lambda: self.client.session(session)["pending"], "a question")
        self.assertEqual(self.client.session(session)["pending"][0]["waits_for"], "person")
        self.assertEqual(self.runs("asks"), 1)

    def test_a_shutdown_gives_it_time(self):
        session, _ = self.suspend("slow")
        self.server.signal(15)
        self.finish()
        self.assertEqual(self.server.wait(), 0)
        self.server.start()
        self.client = self.server.client()
        self.assertEqual(self.words(session).strip(), "finished")


class StartingJobs(DetachCase):
    def test_a_program_starts_a_job_and_the_result_comes_later(self):
        # design 7: ids handed to an outside system (http/exec async)
        session, pending = self.suspend("job")
        told = json.loads((self.place / "told").read_text())
        self.assertEqual((told["pendingID"], told["callID"], told["sessionID"], told["tool"], told["input"]),
                         (pending, "call_1", session, "job", {"n": 1}))
        self.assertEqual((self.place / "env").read_text().split(), [pending, told["callbackURL"]])
        call = self.client.get(f"/async-tool/pending/{pending}")["pending"]
        self.assertEqual((call["externalRef"], call["estimatedDuration"]), ("job-7", 9000))
        self.assertEqual(self.client.session(session)["pending"][0]["prompt"], "Queued as job-7")
        self.restart()
        path = told["callbackURL"].split("/", 3)[3]
        body = {"pendingID": pending, "result": {"title": "t", "output": "built"}}
        self.assert_status(self.server.client(None).post("/" + path, body), 200)
        self.assertEqual(self.words(session), "built")

    def test_one_that_fails_to_start_is_an_error_to_the_model(self):
        session = self.client.start("use broken_job")
        self.assertEqual(session["outcome"]["status"], "completed")
        self.assertIn("exit code 4", self.client.last_words(session["id"]))

    def test_one_that_does_not_say_in_time_whether_it_started_waits_all_the_same(self):
        session, pending = self.suspend("stuck_job")
        self.assertIn("not confirmed", self.client.get(f"/v1/sessions/{session}/explain").body.decode())
        self.assert_status(self.client.result(pending, "it had"), 200)
        self.assertEqual(self.words(session), "it had")

