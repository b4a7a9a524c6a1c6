"""The data directory under a server: views that are gone, a log that was damaged, a disk that is full."""

import contextlib
import json
import shutil
import socket
import subprocess
import threading

import kit
from kit import calls, on_result, on_user, says


class StorageCase(kit.Case):
    fresh = True
    setup = kit.Setup(agents=[{"name": "helper", "tools": ["job"], "script": [
        on_user("hello", says("hello")), on_user("go", calls(("job", {}, "call_j"))),
        on_result("job", says("{{result}}"))]}],
        tools=[{"name": "job", "kind": "external"}])


class Views(StorageCase):
    def test_every_view_can_be_deleted(self):
        # lessons 2.0: corrupt or missing index file; design 1: each copy on disk is a cache
        idle = self.client.start("hello")["id"]
        waiting = self.client.start("go", alias="al", task_id="t")
        pending = waiting["pending"][0]["pending_id"]
        views = [self.client.session(s) for s in (idle, waiting["id"])]
        self.assertEqual(self.server.stop(), 0)
        data = self.server.data
        stored = json.loads((data / f"pending_tool/{pending}.json").read_text())  # S0-22 S0-44
        self.assertEqual((stored["id"], stored["status"]), (pending, "waiting"))
        index = json.loads((data / "pending_tool/index.json").read_text())  # S0-45 S0-47 S0-48 S0-49
        self.assertEqual(index["bySession"], {waiting["id"]: [pending]})
        self.assertEqual(index["byStatus"]["waiting"], [pending])
        self.assertEqual([e["pendingID"] for e in index["byExpiration"]], [pending])
        for path in [*data.glob("pending_tool/*"), *data.glob("sessions/*.json"), data / "index.ckpt"]:
            path.unlink()
        (data / "pending_tool/index.json").write_text("{ broken")
        self.server.start()
        self.client = self.server.client()
        self.assertEqual([self.client.session(s) for s in (idle, waiting["id"])], views)
        self.assertEqual(self.client.get("/async-tool/pending")["count"], 1)
        token = waiting["outcome"]["suspension"]["resume_token"]
        answer = self.client.post(f"/v1/sessions/{waiting['id']}/resume?wait=10s",
                                  {"token": token, "results": {"call_j": {"content": "r"}}})
        self.assertEqual(answer["outcome"]["status"], "completed")
        self.assertEqual(self.server.stop(), 0)
        self.server.verify()

    def on_disk(self, session):
        """Its snapshot and its log, after a clean stop."""
        self.assertEqual(self.server.stop(), 0)
        found = [(self.server.data / f"sessions/{session}{end}").read_bytes() for end in (".json", ".messages.jsonl")]
        self.server.start()
        self.client = self.server.client()
        return json.loads(found[0]), found[1]

    def test_a_session_is_a_log_that_only_grows_and_a_snapshot_of_it(self):
        # S0-46 S3-02 S3-10 S3-11 S3-12 S3-13 S3-14 S3-15 S3-16
        view = self.client.start("go", title="T", working_dir="/w")
        waiting, log = self.on_disk(view["id"])
        for key in ("id", "title", "working_dir", "provider", "created_at", "updated_at", "last_seq", "recovery"):
            self.assertEqual(waiting[key], view[key], key)
        self.assertEqual(waiting["last_seq"], len(log.splitlines()))
        run = {key: view["run"][key] for key in ("run_id", "boot_id", "started_at", "ended_at", "wait")}
        self.assertEqual(waiting["run"], run)
        self.client.result(view["pending"][0]["pending_id"], "r", wait="10s")
        view = self.client.session(view["id"])
        done, longer = self.on_disk(view["id"])
        self.assertTrue(longer.startswith(log) and len(longer) > len(log))
        self.assertEqual((done["last_seq"], done["run"]["wait"]), (view["last_seq"], None))
        self.assertEqual(done["run"]["ended_at"], view["run"]["ended_at"])
        self.assertFalse((self.server.data / f"sessions/{view['id']}.tokens.json").exists())  # S3-26


class LongSessions(StorageCase):
    """Read by a thread of its own: what is said of them is what is said of short ones."""

    def setUp(self):
        super().setUp()
        words = "go\n" + "x" * 300_000
        self.waiting = self.client.start("go", alias="al")
        self.session = self.waiting["id"]
        self.pending = self.waiting["pending"][0]["pending_id"]
        self.client.post(f"/v1/sessions/{self.session}/messages",
                         {"content": words, "on_waiting": "queue"})
        self.seen = self.everything()
        self.server.restart()
        self.client = self.server.client()

    def everything(self):
        paths = ("", "/messages", "/messages?limit=1", "/explain", "/inbox", "/status")
        return [self.client.get(f"/v1/sessions/{self.session}{path}").body for path in paths]

    def test_a_long_session_is_shown_as_it_was(self):
        self.assertEqual(self.everything(), self.seen)
        call = self.client.get(f"/async-tool/pending/{self.pending}")
        self.assertEqual(call["pending"]["status"], "waiting")

    def test_a_long_session_goes_on(self):
        done = self.client.result(self.pending, "r", wait="10s")
        self.assertEqual(done["outcome"]["status"], "completed", done)
        again = self.client.result(self.pending, "r", wait="10s")
        self.assertTrue(again["duplicate"])

    def test_a_long_session_is_deleted(self):
        self.assertEqual(self.client.delete(f"/v1/sessions/{self.session}").status, 204)
        for path in ("", "/messages", "/explain", "/inbox"):
            self.assertEqual(self.client.get(f"/v1/sessions/{self.session}{path}").status, 410)

    def test_a_call_that_never_was_is_unknown(self):
        # it is looked for in all of a long log
        never = self.pending[:-8] + "AAAAAAAA"
        for client in (self.client, kit.Client(self.server.port)):
            self.assert_problem(client.result(never), 404, "unknown_pending_id")
        self.assert_problem(self.client.get(f"/async-tool/pending/{never}"), 404, "unknown_pending_id")

    def stand_in_line(self, session, *asks):
        """Sends them at once, behind reads that take their time; each is a method, what it is of, a token, and more."""
        for _ in range(20):
            self.client.patch(f"/v1/sessions/{session}", {"metadata": {"much": "x" * 1_000_000}})
        self.assertEqual(self.server.stop(), 0)  # all of the log is in its file
        self.server.start()
        self.client = self.server.client()
        connections = []
        for method, part, token, rest in [("GET", "messages", self.server.token(), "\r\n")] * 8 + list(asks):
            connections.append(socket.create_connection(("127.0.0.1", self.server.port)))
            self.addCleanup(connections[-1].close)
            connections[-1].sendall(f"{method} /v1/sessions/{session}/{part} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                    f"Authorization: Bearer {token}\r\n{rest}".encode())
        return connections[8:]

    SAY_X = 'Idempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{"content":"x"}'

    def test_reads_that_stand_in_line_go_with_the_server(self):
        self.stand_in_line(self.session, ("POST", "messages", self.server.token(), self.SAY_X))
        self.assertEqual(self.server.stop(), 0)

    def test_a_token_that_is_revoked_while_a_log_is_read_opens_nothing(self):
        # T5: revoked at once, also for requests that stand in line
        token = self.client.post("/v1/tokens", {"name": "leaver", "scope": "submit"})
        idle = self.client.start("hello")["id"]
        asking = self.stand_in_line(idle, ("GET", "events", token["token"], "\r\n"),
                                    ("POST", "messages?wait=1m", token["token"], self.SAY_X))
        self.assert_status(self.client.delete(f"/v1/tokens/{token['id']}"), 204)
        for connection in asking:
            connection.settimeout(60)
            self.assertEqual(connection.recv(100).split(b"\r\n")[0], b"HTTP/1.1 401 Unauthorized")

    def test_of_a_damaged_long_session_the_readable_part_is_shown(self):
        self.addCleanup(shutil.rmtree, self.server.data)  # verify would rightly complain
        self.assertEqual(self.server.stop(), 0)
        log = self.server.data / f"sessions/{self.session}.messages.jsonl"
        text = bytearray(log.read_bytes())
        text[-10_000] ^= 1
        log.write_bytes(text)
        self.server.start()
        self.client = self.server.client()
        shown = self.client.get(f"/v1/sessions/{self.session}")
        self.assertEqual(shown.status, 200)
        self.assertEqual(shown["damaged"]["offset"], text.rindex(b"\n", 0, len(text) - 10_000) + 1)


class Retention(StorageCase):
    def test_what_somebody_uses_again_stays(self):
        # P1: what was acknowledged is there
        sessions = [self.client.start("hello")["id"] for _ in range(600)]
        old = kit.to_ms(self.client.session(sessions[-1])["updated_at"]) + 1100
        self.assertEqual(self.server.stop(), 0)
        kit.wait_until(lambda: kit.now_ms() > old, "all of them to be old")
        self.server.setup = kit.Setup(agents=self.setup.agents, tools=self.setup.tools,
                                      retention={"finished_after": "1s"})
        self.server.start()
        self.client = self.server.client()
        used = sessions[0]  # the last one to be looked at
        answer = self.client.post(f"/v1/sessions/{used}/messages", {"content": "go"})
        kit.wait_until(lambda: self.client.get(f"/v1/sessions/{sessions[1]}").status == 410, "the others to go")
        self.assertIn(answer.status, (202, 410))
        if answer.status == 202:
            self.client.wait_kind(used, "run.waiting")


class Archives(StorageCase):
    def rouse(self, *arguments):
        return subprocess.run([kit.BINARY, *map(str, arguments)], capture_output=True, text=True)

    def test_a_backup_of_a_working_server_goes_on_elsewhere(self):
        waiting = self.client.start("go")
        other = self.client.start("hello")["id"]
        archive = self.server.folder / "monday.rouse"
        done = self.rouse("backup", self.server.data, archive)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(": 2 sessions, ", done.stdout)
        self.assertNotIn(self.server.token(), archive.read_text())  # T19
        later = self.client.start("hello")["id"]
        both = self.server.folder / "both.rouse"
        both.write_bytes(archive.read_bytes() * 2)
        done = self.rouse("import", both, self.server.folder / "new")
        self.assertEqual((done.returncode, "one by one" in done.stderr), (2, True), done)

        elsewhere = self.add_server(start=False)
        done = self.rouse("import", archive, elsewhere.data)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("2 sessions, "), done.stdout)
        elsewhere.start()
        client = elsewhere.client()
        self.assertEqual(client.session(other)["status"], "idle")
        self.assertEqual(client.get(f"/v1/sessions/{later}").status, 404)
        token = waiting["outcome"]["suspension"]["resume_token"]
        answer = client.post(f"/v1/sessions/{waiting['id']}/resume?wait=10s",
                             {"token": token, "results": {"call_j": {"content": "r"}}})
        self.assertEqual(answer["outcome"]["status"], "completed")

        done = self.rouse("import", archive, elsewhere.data)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"{elsewhere.process.pid}", done.stderr)
        self.assertEqual(elsewhere.stop(), 0)
        done = self.rouse("import", "--json", archive, elsewhere.data)
        self.assertEqual((done.returncode, json.loads(done.stdout)["known"]), (0, 2), done.stderr)

    def test_an_export_names_what_it_cannot_find(self):
        session = self.client.start("hello")["id"]
        archive = self.server.folder / "one.rouse"
        done = self.rouse("export", self.server.data, archive, "sess_nobody")
        self.assertEqual(done.returncode, 2)
        self.assertIn("sess_nobody", done.stderr)
        self.assertFalse(archive.exists())
        self.assertEqual(self.rouse("export", self.server.data, archive, session).returncode, 0)
        done = self.rouse("export", self.server.data, archive)
        self.assertEqual(done.returncode, 2)
        self.assertIn("is there already", done.stderr)


class Damage(StorageCase):
    def test_one_damaged_session_does_not_stop_the_others(self):
        # P6, api 1 session_damaged
        broken = self.client.start("go", title="broken")
        whole = self.client.start("go")
        self.assertEqual(self.server.stop(), 0)
        path = self.server.data / f"sessions/{broken['id']}.messages.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        lines[2] = lines[2].replace(b'"run.started"', b'"run.stXrted"')
        path.write_bytes(b"".join(lines))
        bytes_before = path.read_bytes()
        self.server.start()
        self.client = self.server.client()
        self.assert_status(self.client.get("/readyz"), 200)
        self.client.result(whole["pending"][0]["pending_id"], "r", wait="10s")
        self.assertEqual(self.client.last_words(whole["id"]), "r")
        view = self.assert_status(self.client.get(f"/v1/sessions/{broken['id']}"), 200).json
        self.assertEqual(set(view["damaged"]), {"file", "offset", "reason"})
        self.assertEqual(view["title"], "broken")
        self.assertIn(view["damaged"]["offset"], (len(lines[0] + lines[1]), sum(map(len, lines[:3]))))
        log = self.client.get(f"/v1/sessions/{broken['id']}/log")
        self.assertEqual([r["seq"] for r in self.assert_status(log, 200)["items"]], [1, 2])
        other = self.token("read", tasks=["another"])
        for door in ("", "/log", "/messages", "/status"):
            answer = other.get(f"/v1/sessions/{broken['id']}{door}")
            self.assert_problem(answer, 404, "not_found")
        for door, body in (("messages", {"content": "hello"}), ("cancel", {}), ("resume", {"results": {}})):
            self.assert_problem(self.client.post(f"/v1/sessions/{broken['id']}/{door}", body), 409, "session_damaged")
        self.assert_problem(self.client.result(broken["pending"][0]["pending_id"]), 409, "session_damaged")
        self.server.kill()
        self.assertEqual(path.read_bytes(), bytes_before, "not a byte of it is lost or changed")
        self.delete_the_damaged(broken["id"], path)

    def test_retention_leaves_what_is_damaged_to_a_person(self):
        # P6: no byte of it is lost
        old, broken = (self.client.start("hello")["id"] for _ in range(2))  # looked at in the other order
        self.assertEqual(self.server.stop(), 0)
        path = self.server.data / f"sessions/{broken}.messages.jsonl"
        text = bytearray(path.read_bytes())
        text[len(text) // 2] ^= 1
        path.write_bytes(text)
        self.server.setup = kit.Setup(agents=self.setup.agents, tools=self.setup.tools,
                                      retention={"finished_after": "1s"})
        self.server.start()
        self.client = self.server.client()
        kit.wait_until(lambda: self.client.get(f"/v1/sessions/{old}").status == 410, "the other one to go")
        kit.wait_until(lambda: self.server.events("retention.failed"), "a word about the damaged one")
        self.assertTrue(self.client.session(broken)["damaged"])
        self.server.kill()
        self.assertEqual(path.read_bytes(), text)
        shutil.rmtree(self.server.data)  # verify would rightly complain

    def delete_the_damaged(self, session, path):
        self.server.start()
        self.client = self.server.client()
        self.assert_status(self.client.get(f"/v1/sessions/{session}"), 200)  # noticed when it is read
        self.assertIn("rouse_damaged_sessions 1", self.client.get("/metrics").body.decode())
        other = self.token("operate", tasks=["another"])
        self.assert_problem(other.delete(f"/v1/sessions/{session}"), 404, "not_found")
        self.assert_status(self.client.delete(f"/v1/sessions/{session}"), 204)
        for killed in (False, True):
            if killed:
                self.server.kill()
                self.server.verify()
                self.server.start()
                self.client = self.server.client()
            self.assert_problem(self.client.get(f"/v1/sessions/{session}"), 410, "session_gone")
            self.assertNotIn(session, [s["id"] for s in self.client.get("/v1/sessions")["items"]])
            self.assertIn("rouse_damaged_sessions 0", self.client.get("/metrics").body.decode())
        self.assertEqual(self.server.stop(), 0)
        self.assertFalse(path.exists())


class DamagedChild(kit.Case):
    fresh = True
    setup = kit.Setup(
        agents=[{"name": "boss", "tools": ["start_session"], "script": [
            on_user("give", calls(("start_session", {"agent": "worker", "message": "go"}, "call_s"))),
            on_result("start_session", says("{{result}}"))]},
                {"name": "worker", "tools": ["job"], "script": [on_user("go", calls("job"))]}],
        tools=[{"name": "job", "kind": "external"}])

    def rest(self):
        """A burst of work, after which the store forgets what it need not remember."""
        body = {"metadata": {"much": "x" * 1_000_000}}
        other = self.client.start()["id"]
        for _ in range(3):
            self.client.patch(f"/v1/sessions/{other}", body)

    def test_who_waits_for_one_that_is_deleted_is_told(self):
        # design 10: a child's end, deleted included, settles the parent's call
        parent = self.client.start("give", agent="boss")["id"]
        child = self.client.get(f"/v1/sessions?parent={parent}")["items"][0]["id"]
        self.rest()
        path = self.server.data / f"sessions/{child}.messages.jsonl"
        kit.wait_until(path.exists, "its log to be written down")
        text = bytearray(path.read_bytes())
        text[len(text) // 2] ^= 1
        path.write_bytes(text)
        self.rest()
        kit.wait_until(lambda: self.client.get(f"/v1/sessions/{child}").get("damaged"), "the damage to be seen")
        self.assertEqual(self.client.session(parent)["status"], "waiting")
        self.assert_status(self.client.delete(f"/v1/sessions/{child}"), 204)
        self.client.wait_status(parent, "idle")
        self.assertIn("was deleted", self.client.last_words(parent))
        self.assertEqual(self.server.stop(), 0)
        self.server.verify()


class SmallDisk(kit.Case):
    """A file system of its own, as small as it can be."""

    fresh = True

    def add_server(self):
        server = super().add_server(start=False)
        server.data.mkdir(mode=0o700)
        mount = ["mount", "-t", "tmpfs", "-o", "size=400m,mode=0700", "rouse-e2e", server.data]
        if subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("needs to mount a file system")

        def unmount():
            server.kill()
            subprocess.run([kit.BINARY, "verify", server.data], check=True, capture_output=True)
            subprocess.run(["umount", server.data], check=True)
        self.addCleanup(unmount)
        return server.start()

    def fill(self):
        """Takes the room that there is, then writes until the store says that there is none."""
        filler = self.server.data / "filler"
        with open(filler, "wb") as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 20))
        body = {"metadata": {"much": "x" * (1 << 20)}}
        kit.wait_until(lambda: self.client.post("/v1/sessions", body).status == 503, "the disk to be full")
        return filler


class FullDisk(SmallDisk):
    setup = kit.Setup(agents=[{"name": "helper", "tools": ["job", "brief"], "script": [
        on_user("think", says("thought", delay_ms=4000)), on_user("brief", calls("brief")),
        on_result("brief", says("{{result}}"))]}],
        tools=[{"name": "job", "kind": "external"}, {"name": "brief", "kind": "external", "timeout": "3s"}])

    def test_what_is_damaged_can_be_deleted(self):
        # W10: delete commits from the reserve
        session = self.client.start()["id"]
        self.assertEqual(self.server.stop(), 0)
        path = self.server.data / f"sessions/{session}.messages.jsonl"
        text = bytearray(path.read_bytes())
        text[len(text) // 2] ^= 1
        path.write_bytes(text)
        self.server.start()
        self.client = self.server.client()
        self.assertTrue(self.client.session(session)["damaged"])
        filler = self.fill()
        self.assert_status(self.client.delete(f"/v1/sessions/{session}"), 204)
        self.assertEqual(self.client.get(f"/v1/sessions/{session}").status, 410)
        filler.unlink()

    def test_what_met_a_full_disk_goes_on_when_there_is_room(self):
        # W10: a full disk is waited out
        thinks = self.client.start("think", wait=None)["id"]
        waits = self.client.start("brief")["id"]
        filler = self.fill()
        kit.wait_until(lambda: self.server.events("run.put_off"), "the model's answer to be refused")
        self.assertEqual(self.client.session(thinks)["status"], "running")
        filler.unlink()
        self.client.wait_status(thinks, "idle")
        self.assertEqual(self.client.last_words(thinks), "thought")
        self.client.wait_status(waits, "idle")
        self.assertEqual(self.client.last_words(waits), "Tool execution timed out")


class ToolsOnAFullDisk(SmallDisk):
    @classmethod
    def make_setup(cls):
        cls.outside = kit.ToolServer()
        cls.addClassCleanup(cls.outside.stop)
        return kit.Setup(agents=[{"name": "helper", "tools": ["lookup"], "script": [
            on_user("look", calls("lookup")), on_result("lookup", says("{{result}}"))]}],
            tools=[{"name": "lookup", "kind": "http", "url": cls.outside.url + "/lookup", "detach_after": "50s"}])

    def test_what_a_tool_answered_while_it_was_full_counts_when_there_is_room(self):
        # W10, in a turn that would have waited for longer
        gate = threading.Event()
        self.outside.on("/lookup", lambda request: (gate.wait(60), (200, {"found": "it"}))[1])
        session = self.client.start("look", wait=None)["id"]
        self.outside.wait_for("/lookup")
        filler = self.fill()
        gate.set()
        kit.wait_until(lambda: self.server.events("run.put_off"), "the tool's answer to be refused")
        filler.unlink()
        self.client.wait_status(session, "idle")
        self.assertEqual(json.loads(self.client.last_words(session)), {"found": "it"})
        self.assertEqual(len(self.outside.requests("/lookup")), 1)
