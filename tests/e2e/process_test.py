"""The process: starting, reloading, stopping, and what happens to those who do not fit."""

import os
import pathlib
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time

import kit
from kit import calls, every, on_result, on_user, says

SCRIPT = [
    on_user("for ever", says("never", delay_ms=60000)), on_user("think", says("thought", delay_ms=400)),
    on_user("go", calls(("job", {}, "call_j"))), on_user("also", calls(("extra", {}, "call_e"))),
    on_user("hello", says("hello")), on_result("job", says("{{result}}")), on_result("extra", says("{{result}}")),
]
JOB = {"name": "job", "kind": "external"}


def setup(agents=("helper",), tools=(JOB,), script=SCRIPT, **sections):
    return kit.Setup(agents=[{"name": name, "script": script, "tools": [t["name"] for t in tools]} for name in agents],
                     tools=tools, **sections)


class Shutdown(kit.Case):
    setup = setup()

    def test_work_in_flight_ends_first(self):
        # design 12: lets commits finish
        session = self.client.start("think", wait=None)["id"]
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        self.client = self.server.client()
        self.assertEqual(self.client.session(session)["status"], "idle")
        self.assertEqual(self.client.last_words(session), "thought")
        self.assertNotIn("run.interrupted", self.client.kinds(session))

    def test_it_does_not_wait_for_ever(self):
        self.restart(setup(limits={"shutdown_time": "400ms"}))
        session = self.client.start("for ever", wait=None)["id"]
        began = time.monotonic()
        self.assertEqual(self.server.stop(), 0)
        self.assertLess(time.monotonic() - began, 3)
        self.server.setup = setup(recovery={"resume": "off"})
        self.server.start()
        self.client = self.server.client()
        view = self.client.session(session)
        self.assertEqual((view["status"], view["recovery"]["interruption"]["reason"]),
                         ("interrupted_startup", "process_exit"))
        self.assertEqual(self.client.kinds(session).count("run.interrupted"), 1)

    @every([("TERM", signal.SIGTERM), ("INT", signal.SIGINT)])
    def test_both_signals(self, number):
        if not self.server.alive():
            self.server.start()
        self.server.signal(number)
        self.assertEqual(self.server.wait(), 0)

    def test_it_stays_when_nobody_reads_its_log_any_more(self):
        folder = self.server.folder / "unread"
        folder.mkdir()
        started = subprocess.Popen([kit.BINARY, "serve", "--data", folder / "data", "--listen", "127.0.0.1:0"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            lines = iter(started.stdout.readline, "")
            port = int(next(line for line in lines if "listening on" in line).strip().rsplit(":", 1)[1])
            kit.wait_until(lambda: (folder / "data/token").exists(), "the token")
            client = kit.Client(port, (folder / "data/token").read_text().strip())
            started.stdout.close()
            for _ in range(3):
                started.send_signal(signal.SIGHUP)  # each is told in a line of the log
                self.assert_status(client.get("/readyz"), 200)
            started.send_signal(signal.SIGTERM)
            self.assertEqual(started.wait(kit.PATIENCE), 0)
        finally:
            started.kill()
            started.wait()

    def test_a_second_signal_exits_at_once(self):
        self.restart(setup(limits={"shutdown_time": "60s"}))
        session = self.client.start("for ever", wait=None)["id"]
        waiting = self.client.start("go")
        self.server.signal(signal.SIGTERM)
        kit.wait_until(lambda: self.server.events("shutdown.begun"), "the shutdown to begin")
        began = time.monotonic()
        self.server.signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(), 128 + signal.SIGTERM)
        self.assertLess(time.monotonic() - began, 2)
        self.server.verify()
        self.server.setup = setup(recovery={"resume": "off"})
        self.server.start()
        self.client = self.server.client()
        self.assertEqual(self.client.session(session)["status"], "interrupted_startup")
        self.assertEqual(self.client.session(waiting["id"])["status"], "waiting")

    def test_what_was_acknowledged_is_there_afterwards(self):
        # P1: by SIGTERM, and by SIGKILL
        for stop in (lambda: self.server.stop(), lambda: self.server.kill()):
            waiting = [self.client.start("go") for _ in range(10)]
            results, made, done = {}, [], threading.Event()

            def work(sessions):
                try:
                    for session in sessions:
                        pending = session["pending"][0]["pending_id"]
                        results[session["id"]] = self.client.result(pending, session["id"]).status
                    while not done.is_set():
                        made.append(self.client.start(title="made")["id"])
                except (OSError, AssertionError):
                    pass
            joins = [self.background(work, waiting[n::3]) for n in range(3)]
            kit.wait_until(lambda: len(results) >= 6, "some to be acknowledged")
            stop()
            done.set()
            for join in joins:
                join()
            self.server.start()
            self.client = self.server.client()
            for session, status in results.items():
                self.assertEqual(status, 200)
                self.client.wait_status(session, "idle")
                self.assertEqual(self.client.last_words(session), session)
            for session in made:
                self.assertEqual(self.client.session(session)["title"], "made")

    def test_a_clean_stop_leaves_nothing_to_repair(self):
        # S0-32
        session = self.client.start("go")["id"]
        before = self.client.log(session)
        self.assertEqual(self.server.stop(), 0)
        self.server.verify()
        self.server.start()
        self.client = self.server.client()
        boot = self.client.get("/async-tool/recovery/status").json
        self.assertEqual((boot["interrupted"], boot["expired"], boot["redriven"], boot["setAside"]), (0, 0, 0, []))
        self.assertGreaterEqual(boot["waiting"], 1)
        self.assertTrue(boot["bootID"].startswith("boot_"))
        self.assertLess(abs(boot["startedAt"] - kit.now_ms()), 60000)
        self.assertEqual(self.client.log(session), before)

    def test_a_tool_that_runs_is_not_left_behind(self):
        with tempfile.TemporaryDirectory() as place:
            path = pathlib.Path(place) / "pid"
            hang = {"name": "hang", "kind": "exec", "command": ["/bin/sh", "-c", f"echo $$ > {path}; exec sleep 60"]}
            server = self.add_server(setup(tools=(JOB, hang), limits={"shutdown_time": "300ms"},
                                           script=[on_user("hang", calls("hang"))]))
            server.client().start("hang", wait=None)
            pid = int(kit.wait_until(lambda: path.exists() and path.read_text(), "the tool"))
            self.assertEqual(server.stop(), 0)
            kit.wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the tool to end", patience=5)


class Reloading(kit.Case):
    setup = setup()

    def reload(self, new, event="config.reloaded"):
        """Writes another configuration and waits until the server has dealt with it."""
        before = len(self.server.events(event))
        if isinstance(new, str):
            (self.server.folder / "rouse.toml").write_text(new)
        else:
            new.write(self.server.folder)
        self.server.signal(signal.SIGHUP)
        kit.wait_until(lambda: len(self.server.events(event)) > before, event)

    def agents(self):
        return {agent["name"] for agent in self.client.get("/v1/agents")["items"]}

    def test_agents_and_tools_come_and_go(self):
        self.assertEqual(self.agents(), {"helper"})
        boot = self.client.get("/async-tool/recovery/status")["bootID"]
        self.reload(setup(agents=("helper", "second"), tools=(JOB, {"name": "extra", "kind": "external"})))
        self.assertEqual(self.agents(), {"helper", "second"})
        session = self.client.start("also", agent="second")
        self.assertEqual(session["pending"][0]["tool"], "extra")
        self.assertEqual(self.client.get("/async-tool/recovery/status")["bootID"], boot)
        self.reload(setup())
        self.assertEqual(self.agents(), {"helper"})
        self.assertEqual(self.client.post("/v1/sessions", {"agent": "second"}).status, 400)

    def test_what_needs_a_restart_is_named(self):
        self.reload(setup(agents=("other",), limits={"concurrent_runs": 7}, retention={"finished_after": "30d"}))
        left = kit.wait_until(lambda: self.server.events("config.needs_restart"), "a word about the rest")[-1]
        self.assertEqual(left["keys"], "limits.concurrent_runs, retention.finished_after")
        self.reload(setup())
        self.assertEqual(len(self.server.events("config.needs_restart")), 1)
        self.reload(setup(server={"tls_cert": "/nonexistent.pem", "tls_key": "/nonexistent.pem"}))
        left = kit.wait_until(lambda: self.server.events("config.needs_restart")[1:], "a word about TLS")[-1]
        self.assertEqual(left["keys"], "server.tls_cert, server.tls_key")
        self.reload(setup())

    def test_a_mistake_leaves_everything_as_it_was(self):
        waiting = self.client.start("go")
        for text in ("[[agents]\n", '[server]\nlistn = "x"\n',
                     '[[agents]]\nname = "a"\nmodel = "scripted:/no/such/file"\n'):
            self.reload(text, "config.not_reloaded")
            self.assertEqual(self.agents(), {"helper"})
        self.assertTrue(self.server.alive())
        self.client.result(waiting["pending"][0]["pending_id"], "r", wait="10s")
        self.assertEqual(self.client.last_words(waiting["id"]), "r")

    def test_a_session_that_runs_is_not_disturbed(self):
        session = self.client.start("think", wait=None)["id"]
        self.reload(setup(agents=("other",)))
        self.client.wait_status(session, "idle")
        self.assertEqual(self.client.last_words(session), "thought")


class AgentsThatAreGone(kit.Case):
    setup = setup()

    def test_a_result_for_an_agent_that_is_gone_fails_the_run_and_says_why(self):
        session = self.client.start("go")
        self.restart(setup(agents=("other",)))
        self.assertEqual(self.client.session(session["id"])["status"], "waiting")
        answer = self.client.result(session["pending"][0]["pending_id"], "r", wait="10s")
        self.assertEqual(self.assert_status(answer, 200)["outcome"]["status"], "failed")
        self.assertIn("helper", str(answer["outcome"]["error"]))
        view = self.client.session(session["id"])
        self.assertEqual((view["status"], view["run"]["outcome"]), ("idle", "failed"))
        # The result is kept, and the agent can come back.
        parts = [p["state"] for e in self.client.transcript(session["id"]) for p in e["parts"]]
        self.assertEqual([(p["status"], p["output"]) for p in parts], [("completed", "r")])
        self.restart(setup())
        answer = self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "hello"})
        self.assertEqual(answer["outcome"]["status"], "completed")

    def test_a_message_for_an_agent_that_is_gone(self):
        session = self.client.start("hello")["id"]
        self.restart(setup(agents=("other",)))
        answer = self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": "hello"})
        if answer.status == 200:
            self.assertEqual(answer["outcome"]["status"], "failed")
        else:
            self.assertIn(answer.status, (400, 409))
        self.assertEqual(self.client.session(session)["status"], "idle")

    def test_a_tool_that_is_gone_still_takes_its_result(self):
        session = self.client.start("go")
        self.restart(setup(tools=({"name": "extra", "kind": "external"},)))
        self.assert_status(self.client.result(session["pending"][0]["pending_id"], "r", wait="10s"), 200)
        self.assertEqual(self.client.last_words(session["id"]), "r")

    def test_an_interrupted_run_of_an_agent_that_is_gone(self):
        session = self.client.start("for ever", wait=None)["id"]
        self.restart(setup(agents=("other",)))
        view = kit.wait_until(lambda: (v := self.client.session(session))["status"] != "running" and v, "an end")
        self.assertIn(view["status"], ("idle", "interrupted_startup"))
        self.assert_status(self.client.get("/readyz"), 200)


class Starting(kit.Case):
    setup = setup()

    def serve(self, *arguments, config=None, env=None, data=None):
        """Runs `rouse serve` that is expected to end by itself: (exit code, output)."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.server.folder))
        command = [kit.BINARY, "serve", "--data", str(data or folder / "data"), *arguments]
        if config is not None:
            (folder / "c.toml").write_text(config)
            command += ["--config", str(folder / "c.toml")]
        if "--listen" not in arguments:
            command += ["--listen", "127.0.0.1:0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False,
                              env={**self.server.environment(), **(env or {})})
        return done.returncode, done.stdout + done.stderr

    def test_a_second_server_on_the_directory_is_refused(self):
        # W12
        session = self.client.start("go")
        code, output = self.serve(data=self.server.data)
        self.assertNotEqual(code, 0)
        self.assertIn(str(self.server.process.pid), output)
        self.assertNotIn("listening", output)
        self.client.result(session["pending"][0]["pending_id"], "r", wait="10s")
        self.assertEqual(self.client.last_words(session["id"]), "r")

    def test_all_mistakes_at_once_each_with_its_place(self):
        # api 6
        code, output = self.serve(config='[server]\nlistn = "127.0.0.1:0"\n\n[limits]\nconcurrent_runs = 0\n\n'
                                         '[[tools]]\nname = "x"\nkind = "http"\n\n[[agents]]\nname = "a"\n'
                                         'model = "scripted:none"\ntools = ["nothing"]\n')
        self.assertEqual(code, 2)
        for part in ("c.toml:2:", "listen", "c.toml:5:", "concurrent_runs", "url", "nothing"):
            self.assertIn(part, output)
        self.assertNotIn("listening", output)

    @every([
        ("not TOML", "[server\n", {}, "c.toml:1"), ("an unknown section", "[servers]\n", {}, "server"),
        ("a wrong type", "[server]\nlisten = 1\n", {}, "listen"),
        ("a wrong duration", '[limits]\ntool_time = "5 minutes"\n', {}, "tool_time"),
        ("a wrong choice", '[recovery]\nresume = "maybe"\n', {}, "active"),
        ("the same name twice", '[[tools]]\nname = "x"\nkind = "external"\n' * 2, {}, "x"),
        ("a variable that is not set", '[[webhooks]]\nurl = "https://x.example"\nsecret_env = "NOT_SET"\n', {},
         "NOT_SET"),
        ("a secret in the file", '[[webhooks]]\nurl = "https://x.example"\nsecret = "s"\n', {}, "secret"),
        ("an unknown variable", "", {"ROUSE_SERVER_LISTN": "x"}, "ROUSE_SERVER_LISTEN"),
        ("a wrong variable", "", {"ROUSE_LIMITS_CONCURRENT_RUNS": "many"}, "ROUSE_LIMITS_CONCURRENT_RUNS"),
    ])
    def test_mistakes_of_the_configuration(self, config, env, part):
        code, output = self.serve(config=config, env=env)
        self.assertEqual(code, 2, output)
        self.assertIn(part, output)
        self.assertNotIn("listening", output)

    @every([
        ("another store", '[store]\nkind = "sqlite"\n', "sqlite"),
    ])
    def test_what_this_version_does_not_do_is_refused(self, config, part):
        # A setting that is taken and does nothing would be believed.
        code, output = self.serve(config=config)
        self.assertNotEqual(code, 0, output)
        self.assertIn(part, output)
        self.assertNotIn("listening", output)

    @every([("no script", 'model = "scripted:/no/such/script"', "/no/such/script"),
            ("a broken script", 'model = "scripted:{}"', "broken.jsonl:2")])
    def test_mistakes_of_a_script(self, model, part):
        script = self.server.folder / "broken.jsonl"
        script.write_text('{"say": "fine"}\n{"sya": "not"}\n')
        code, output = self.serve(config='[[agents]]\nname = "a"\n' + model.format(script) + "\n")
        self.assertNotEqual(code, 0)
        self.assertIn(part, output)
        self.assertNotIn("listening", output)

    def test_a_missing_file(self):
        code, output = self.serve("--config", "/no/such/file.toml")
        self.assertEqual(code, 2)
        self.assertIn("/no/such/file.toml", output)

    def test_beyond_this_machine_only_with_protection(self):
        # T33
        code, output = self.serve("--listen", "0.0.0.0:0")
        self.assertEqual(code, 2, output)
        code, output = self.serve("--listen", "0.0.0.0:0", "--insecure-no-auth",
                                  config="[server]\nbehind_proxy = true\n")
        self.assertEqual(code, 2, output)

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            code, output = self.serve("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
        self.assertNotEqual(code, 0)
        self.assertIn("in use", output)

    def test_flags_over_environment_over_file(self):
        server = self.add_server(setup(server={"log_level": "debug"}), env={"ROUSE_SERVER_LOG_LEVEL": "off"})
        server.client().get("/v1/sessions")
        self.assertEqual(server.stderr(), "")
        server.kill()
        server.arguments = ["--log-level", "debug"]
        server.start()
        server.client().get("/v1/sessions")
        kit.wait_until(lambda: server.events("request"), "a debug line")

    def test_what_is_written_is_for_the_owner_only(self):
        # T20: 0700, 0600
        self.client.start("go")
        self.assertEqual(self.server.stop(), 0)
        for path in [self.server.data, *self.server.data.rglob("*")]:
            mode = stat.S_IMODE(path.stat().st_mode)
            self.assertEqual(mode, 0o700 if path.is_dir() else 0o600, path)

    def test_the_check_prints_what_is_in_effect(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.server.folder))
        (folder / "c.toml").write_text('[limits]\nconcurrent_runs = 7\n')
        command = [kit.BINARY, "config", "check", "--config", str(folder / "c.toml")]
        done = subprocess.run(command, capture_output=True, text=True, env=self.server.environment(), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("concurrent_runs = 7", done.stdout)
        (folder / "c.toml").write_text("[limits]\nconcurrent_rums = 7\n")
        done = subprocess.run(command, capture_output=True, text=True, env=self.server.environment(), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("concurrent_runs", done.stdout + done.stderr)

    def test_the_greeting_has_lines_to_try(self):
        # api 1: curl lines with $(cat <data>/token), the token itself only for a terminal
        server = self.add_server(start=False)
        with subprocess.Popen(server.command(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=server.environment()) as process:
            greeting = "".join(line for line in iter(process.stdout.readline, "\n"))
            greeting += "".join(line for line in iter(process.stdout.readline, "\n"))
            token = (server.data / "token").read_text().strip()
            process.kill()
        self.assertIn("listening on http://127.0.0.1:", greeting)
        self.assertIn("curl", greeting)
        self.assertIn(f"$(cat {server.data}/token)", greeting)
        self.assertNotIn(token, greeting)
