"""The command line: what it shows of a run, of lists, and of what was called wrongly."""

import http.server
import json
import subprocess
import tempfile
import threading

import kit
from kit import calls, every, on_result, on_user, says

SESSION = "sess_01M7HTKRAQ2KH62K8X9JEKWG5Z"
RUN, OTHER_RUN = "run_01M7HTKRAQ2KH62K8X9JEKWG5A", "run_01M7HTKRAQ2KH62K8X9JEKWG5B"


def rouse(url, *words, token="t", stdin="", env=None):
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "ROUSE_URL": url, "ROUSE_TOKEN": token}
    return subprocess.run([kit.BINARY, *map(str, words)], env={**environment, **(env or {})}, input=stdin,
                          capture_output=True, text=True, timeout=12, check=False)


def compact(value):
    return json.dumps(value, separators=(",", ":"))


class Scripted:
    """A server that plays one stream of events, once a message has come."""

    def __init__(self, events, moved):
        fake = self
        self.requests, self.said, self.over = [], threading.Event(), threading.Event()
        view = {"id": SESSION, "title": "", "agent": "a", "status": "idle", "provider": {"type": "", "model": ""},
                "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:00.000Z",
                "last_seq": 1, "run": None, "pending": []}

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, code, body):
                data = compact(body).encode()
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fake.requests.append(self.path)
                if not self.path.endswith("/messages"):
                    self.answer(201, view)
                    return
                self.answer(202, moved)
                fake.said.set()

            def do_GET(self):
                fake.requests.append(self.path)
                if "/events" not in self.path:
                    self.answer(200, view)
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                self.tell("status", {"status": "idle", "seq": 1})
                fake.said.wait(10)
                for name, data in events:
                    self.tell(name, data)
                fake.over.wait(20)

            def tell(self, name, data):
                number = f"id: {data['seq']}\n" if "kind" in data else ""
                self.wfile.write(f"{number}event: {name}\ndata: {compact(data)}\n\n".encode())
                self.wfile.flush()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()


class Story:
    """Events as the server tells them."""

    def __init__(self):
        self.events, self.seq = [], 1

    def record(self, kind, **members):
        self.seq += 1
        self.events.append((kind, {"session_id": SESSION, "task_id": "", "seq": self.seq,
                                   "ts": "2026-01-01T00:00:00.000Z", "kind": kind, **members}))
        return self

    def starts(self, run=RUN):
        return self.record("run.started", run_id=run, boot_id="boot_1")

    def ends(self, run=RUN):
        return self.record("run.completed", run_id=run)

    def says(self, text, message="msg_1", run=RUN):
        return self.record("message.assistant", message_id=message, run_id=run,
                           content=[{"type": "text", "text": text}])

    def delta(self, at, text, message="msg_1", run=RUN):
        self.events.append(("delta", {"session_id": SESSION, "task_id": "", "run_id": run, "message_id": message,
                                      "at": at, "text": text}))
        return self

    def status(self, status):
        self.events.append(("status", {"status": status, "seq": self.seq}))
        return self


class Following(kit.unittest.TestCase):
    def follow(self, story, *words, **moved):
        fake = Scripted(story.events, {"message_id": "msg_0", "run_id": RUN, "seq": 2, **moved})
        self.addCleanup(fake.stop)
        done = rouse(fake.url, "run", "hi", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_what_was_streamed_is_not_printed_again(self):
        story = Story().starts().delta(0, "Hel").delta(3, "lo").says("Hello").ends().status("idle")
        self.assertEqual(self.follow(story).stdout, "Hello\n")

    def test_a_beginning_that_was_not_streamed_is_not_missed_nor_the_rest_repeated(self):
        story = Story().starts().delta(6, "world").says("Hello world").ends().status("idle")
        self.assertEqual(self.follow(story).stdout, "Hello world\n")

    def test_messages_that_are_recorded_together(self):
        story = Story().starts().delta(0, "I look.").delta(0, "Green.", "msg_2")
        story.says("I look.").says("Green.", "msg_2").ends().status("idle")
        self.assertEqual(self.follow(story).stdout, "I look.\nGreen.\n")

    def test_other_runs_of_the_session_are_not_shown(self):
        story = Story().starts().delta(0, "theirs", "msg_9", OTHER_RUN).says("ours").ends()
        story.starts(OTHER_RUN).status("running").says("theirs", "msg_9", OTHER_RUN)
        self.assertEqual(self.follow(story).stdout, "ours\n")

    def test_a_queued_message_is_followed_to_the_run_that_reads_it(self):
        story = Story().record("message.user", message_id="msg_0", queued=True,
                               content=[{"type": "text", "text": "hi"}])
        story.says("theirs", "msg_9", OTHER_RUN).ends(OTHER_RUN).starts().says("ours").ends().status("idle")
        done = self.follow(story, run_id=OTHER_RUN, queued=True)
        self.assertEqual(done.stdout, "ours\n")
        self.assertIn("busy", done.stderr)

    def test_as_json_the_log_is_whole(self):
        story = Story().starts().delta(0, "Hello").says("Hello").ends().status("idle")
        kinds = [json.loads(line)["kind"] for line in self.follow(story, "--json").stdout.splitlines()]
        self.assertEqual(kinds, ["run.started", "message.assistant", "run.completed"])


class CommandLine(kit.Case):
    @classmethod
    def make_setup(cls, **sections):
        return kit.Setup(
            agents=[{"name": "helper", "tools": ["job"], "script": [
                on_user("go", calls(("job", {}, "call_j"))), on_user("slow", says("took its time", delay_ms=700)),
                on_user("hello", says("hello")), on_result("job", says("{{result}}"))]}],
            tools=[{"name": "job", "kind": "external"}], **sections)

    def rouse(self, *words, **more):
        return rouse(f"http://127.0.0.1:{self.server.port}", *words, token=self.server.token(), **more)

    def sessions(self):
        return [one["id"] for one in json.loads(self.rouse("sessions", "ls", "--limit", 500, "--json").stdout)["items"]]

    def test_deltas_name_their_message(self):
        # api 5
        session = self.client.post("/v1/sessions", {}).body
        session = json.loads(session)["id"]
        stream = self.stream(f"/v1/sessions/{session}/events?from_seq=1")
        stream.wait_for("session.created")
        self.client.post(f"/v1/sessions/{session}/messages", {"content": "slow"})
        delta = stream.wait_for("delta")[0].data
        message = stream.wait_for("message.assistant")[0].data
        self.assertEqual((delta["message_id"], delta["run_id"], delta["at"], delta["task_id"]),
                         (message["message_id"], message["run_id"], 0, ""))

    def test_as_json_a_run_begins_with_the_first_record(self):
        lines = [json.loads(line) for line in self.rouse("run", "hello", "--json").stdout.splitlines()]
        self.assertEqual([line["seq"] for line in lines], list(range(1, len(lines) + 1)))
        more = self.rouse("run", "hello", "--json", "--session", lines[0]["session_id"])
        self.assertEqual(json.loads(more.stdout.splitlines()[0])["seq"], len(lines) + 1)

    def test_a_message_that_is_queued_gets_its_own_answer(self):
        begun = json.loads(self.rouse("run", "slow", "--detach", "--json").stdout)
        done = self.rouse("run", "hello", "--session", begun["session_id"])
        self.assertEqual((done.returncode, done.stdout), (0, "hello\n"), done)

    def test_detached_as_json_names_session_and_run(self):
        begun = json.loads(self.rouse("run", "go", "--detach", "--json").stdout)
        kit.wait_until(lambda: self.client.session(begun["session_id"])["status"] == "waiting")
        self.assertEqual(self.client.session(begun["session_id"])["run"]["run_id"], begun["run_id"])

    @every([("a wrong choice", ("--on-waiting", "rejct"), "did you mean reject"),
            ("two that exclude each other", ("--detach", "--wait"), "--detach"),
            ("an unknown option", ("--agnet", "x"), "did you mean --agent?"),
            ("a word too many", ("there",), "quotes"),
            ("a flag with a value", ("--json=x",), "--json")])
    def test_a_wrong_call_leaves_no_session_behind(self, flags, part):
        before = self.sessions()
        done = self.rouse("run", "hello", *flags)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn(part, done.stderr)
        self.assertEqual(self.sessions(), before)

    def test_a_message_that_is_refused_leaves_no_session_behind(self):
        self.restart(self.make_setup(limits={"body_bytes": 2000}))
        before = self.sessions()
        done = self.rouse("run", "-", stdin="x" * 3000)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("2000 bytes", done.stderr)
        self.assertEqual(self.sessions(), before)

    def test_lists_say_that_there_is_more_and_go_on(self):
        for number in range(3):
            self.rouse("run", "go", "--title", f"t{number}")
        for words in (["waits"], ["pending"], ["pending", "ls"], ["sessions"], ["sessions", "ls"]):
            with self.subTest(words):
                seen, cursor = [], []
                for _ in range(60):
                    page = self.rouse(*words, "--limit", 2, *cursor)
                    self.assertEqual(page.returncode, 0, page)
                    lines = page.stdout.splitlines()[1:]
                    as_json = json.loads(self.rouse(*words, "--limit", 2, *cursor, "--json").stdout)
                    more = lines and lines[-1].startswith("more with --cursor ")
                    self.assertEqual(bool(as_json["next_cursor"]), bool(more), page.stdout)
                    seen += lines[:-1] if more else lines
                    if not more:
                        break
                    cursor = ["--cursor", lines.pop().split()[-1]]
                    self.assertEqual(cursor[1], as_json["next_cursor"])
                self.assertEqual(len(set(seen)), len(seen), seen)
                whole = self.rouse(*words, "--limit", 500).stdout.splitlines()[1:]
                self.assertEqual(len(seen), len(whole))

    @every([("zero", "0"), ("below", "-1"), ("no number", "x"), ("not whole", "1.5")])
    def test_a_log_begins_at_one(self, seq):
        session = json.loads(self.rouse("run", "hello", "--detach", "--json").stdout)["session_id"]
        done = self.rouse("sessions", "log", session, "--from-seq", seq)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("whole number from 1", done.stderr)

    def test_a_log_has_each_record_once(self):
        session = json.loads(self.rouse("run", "hello", "--detach", "--json").stdout)["session_id"]
        kit.wait_until(lambda: self.client.session(session)["status"] == "idle")
        last = self.client.session(session)["last_seq"]
        for first in (1, 2, last, last + 1):
            log = self.rouse("sessions", "log", session, "--json", "--from-seq", first)
            self.assertEqual([json.loads(line)["seq"] for line in log.stdout.splitlines()],
                             list(range(first, last + 1)))

    def test_lines_stay_lines(self):
        done = self.rouse("run", "go")
        session = self.sessions()[0]
        hint = self.rouse("resume", session)
        self.assertEqual(hint.returncode, 2, hint)
        self.assertNotIn("\\n", hint.stderr)
        self.assertIn(f"\n    rouse resume {session} --result call_j=TEXT\n", hint.stderr)
        text = "one\ntwo \\n three\ttabs"
        done = self.rouse("resume", session, "--result", f"call_j={text}")
        self.assertEqual(done.returncode, 0, done)
        self.assertEqual(done.stdout, text + "\n")
        self.assertEqual(done.stderr, "← job: one ⏎ two \\n three\\ttabs\n")

    def test_the_same_result_again_is_no_error_by_its_short_id(self):
        # docs/cli.md: a result counts once, and the same again is no error
        self.rouse("run", "go")
        name = self.client.session(self.sessions()[0])["pending"][0]["pending_id"].rsplit("_", 1)[1][:10]
        for result, code in (("done", 0), ("done", 0), ("undone", 1)):
            done = self.rouse("pending", "complete", name, result)
            self.assertEqual(done.returncode, code, done)

    def test_a_session_is_written_to_without_its_task(self):
        self.client.post("/v1/tasks", {"id": "web", "title": "Web"})
        made = json.loads(self.client.post("/v1/sessions", {"task_id": "web", "alias": "builder"}).body)
        for name in (made["id"], made["id"][:-4], made["id"].removeprefix("sess_"), made["id"][5:-4]):
            sent = self.rouse("send", name, "hello")
            self.assertEqual(sent.returncode, 0, sent)
        unknown = self.rouse("send", "builder", "hello")
        self.assertEqual(unknown.returncode, 1, unknown)
        self.assertIn("there is one with --task web", unknown.stderr)
        self.assertEqual(self.rouse("send", "builder", "hello", "--task", "web").returncode, 0)
        self.client.post("/v1/sessions", {"alias": "sess_build"})
        self.assertEqual(self.rouse("send", "sess_build", "hello").returncode, 0)
        nobody = self.rouse("send", "sess_none", "hello")
        self.assertEqual((nobody.returncode, "too short" in nobody.stderr), (2, True), nobody)

    @every([(words, words, part) for words, part in (
        ("rnu", "did you mean 'rouse run'?"), ("sessions shwo", "did you mean 'rouse sessions show'?"),
        ("show x", "'rouse sessions show' or 'rouse pending show'"), ("--verison", "--version"),
        ("", "Subcommands:"), ("config", "Usage: rouse config"),
        ("--url http://127.0.0.1:1 waits", "--url stands behind the command: rouse waits --url"), ("run", "prompt is required"),
        ("waits --kind persn", "did you mean person?"),
        ("pending ls --status bogus", "expired"), ("run --model anthropic: x", "MODEL"), ("cancel x --mode y", "discard"))])
    def test_mistakes_name_what_was_meant(self, words, part):
        done = self.rouse(*words.split())
        self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        self.assertIn(part, done.stderr)

    def test_help_fits_a_terminal(self):
        shown = {(): self.rouse("--help").stdout}
        for group in ("sessions", "pending", "token", "config"):
            shown[group] = self.rouse(group, "--help").stdout
        for words in ("run", "resume", "waits", "send", "serve", "backup", "import", "demo", "sessions log", "pending fail"):
            shown[words] = self.rouse(*words.split(), "--help").stdout
        for words, text in shown.items():
            self.assertEqual([line for line in text.splitlines() if len(line) > 80], [], words)
            self.assertIn("Examples:", text)

    def test_what_could_not_be_written_was_not_done(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([kit.BINARY, "version"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)
        self.assertEqual(self.rouse("serve", "--data", "").returncode, 2)

    def test_the_version(self):
        self.assertRegex(self.rouse("--version").stdout, r"^rouse \d+\.\d+\.\d+\n$")
        self.assertEqual(self.rouse("--version").stdout, self.rouse("version").stdout)

    def test_an_interrupted_session_says_how_it_goes_on(self):
        self.restart(self.make_setup(recovery={"resume": "off"}))
        session = json.loads(self.rouse("run", "slow", "--detach", "--json").stdout)["session_id"]
        kit.wait_until(lambda: self.client.session(session)["status"] == "running")
        self.restart(self.make_setup(recovery={"resume": "off"}))
        self.assertEqual(self.client.session(session)["status"], "interrupted_startup")
        for words in (["sessions", "show"], ["explain"], ["resume"]):
            done = self.rouse(*words, session)
            self.assertIn(f"rouse continue {session}", done.stdout + done.stderr, words)
        done = self.rouse("continue", session)
        self.assertEqual((done.returncode, done.stdout), (0, "took its time\n"), done)


class Configuration(kit.unittest.TestCase):
    def check(self, text, command=("config", "check")):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/c.toml"
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace("FOLDER", folder))
            more = [] if command[0] == "config" else ["--listen", "127.0.0.1:0"]
            return rouse("", *command, "--config", path, "--data", f"{folder}/data", *more, env={"HOME": folder})

    @every([("no script", '[[agents]]\nname = "a"\nmodel = "scripted:/no/such/script"\n', "c.toml:3:9: error: agents[0].model"),
            ("a directory", '[[agents]]\nname = "a"\nmodel = "scripted:FOLDER"\n', "cannot read the script"),
            ("no script at all", '[[agents]]\nname = "a"\nmodel = "scripted:FOLDER/c.toml"\n', "c.toml"),
            ("a wrong key", "[limits]\nconcurrent_rums = 7\n", "concurrent_runs")])
    def test_what_the_server_would_not_take_is_no_valid_configuration(self, text, part):
        for command in (("config", "check"), ("serve",)):
            done = self.check(text, command)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done)
            self.assertIn(part, done.stderr)

    def test_a_directory_is_no_configuration(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in (("config", "check"), ("serve",)):
                done = rouse("", *command, "--config", folder, "--data", f"{folder}/data", "--listen", "127.0.0.1:0")
                self.assertEqual((done.returncode, done.stdout), (2, ""), done)
                self.assertIn("is a directory", done.stderr)

    def test_a_key_that_is_not_set_is_a_warning(self):
        text = '[[agents]]\nname = "a"\nmodel = "anthropic:claude-sonnet-4-5"\n'
        done = self.check(text)
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("c.toml:3:9: warning: agents[0].model: the environment variable ANTHROPIC_API_KEY", done.stderr)
        own = self.check(text + 'base_url = "http://127.0.0.1:1"\n')
        self.assertEqual((own.returncode, own.stderr), (0, ""), own)
