"""Workers that pull calls: claims, leases, long polls."""

import copy
import json
import signal
import socket
import time

import kit
from kit import calls, every, on_result, on_user, says


class WorkerCase(kit.Case):
    setup = kit.Setup(
        agents=[{"name": "helper", "tools": ["build", "test", "ask_user"], "script": [
            on_user("build much", calls(("build", {"branch": "x" * 200_000}))),
            on_user("build", calls(("build", {"branch": "main"}))), on_user("test", calls(("test", {}))),
            on_user("think", says("thought", delay_ms=60000)),
            on_user("ask", calls(("ask_user", {"question": "Well?", "type": "text"}))),
            on_result("build", says("{{result}}")), on_result("test", says("{{result}}"))]}],
        tools=[{"name": "build", "kind": "external"}, {"name": "test", "kind": "external"}])
    fresh = True  # a worker takes whatever there is

    def suspend(self, message="build", **fields):
        session = self.client.start(message, **fields)
        return session["id"], session["pending"][0]["pending_id"]

    def claim(self, worker="w", wait=None, client=None, **more):
        return (client or self.client).post("/async-tool/claim" + (f"?wait={wait}" if wait else ""),
                                            {"worker": worker, **more})

    def on(self, pending, verb, worker="w", **more):
        return self.client.post(f"/async-tool/pending/{pending}/{verb}", {"worker": worker, **more})

    def call(self, pending):
        return self.client.get(f"/async-tool/pending/{pending}")["pending"]


class Claims(WorkerCase):
    def test_a_worker_takes_what_waits(self):
        # S0-11: waiting becomes processing
        session, pending = self.suspend()
        before = kit.now_ms()
        taken = self.assert_status(self.claim(leaseMs=60000), 200)["pending"]
        self.assertEqual([(c["id"], c["status"], c["worker"]) for c in taken], [(pending, "processing", "w")])
        self.assertEqual(taken[0]["input"], {"branch": "main"})
        self.assertTrue(before + 60000 <= taken[0]["leaseUntil"] <= kit.now_ms() + 60000)
        view = self.client.session(session)["pending"][0]
        self.assertEqual((view["status"], view["worker"]), ("processing", "w"))
        self.assertEqual(self.claim("other")["pending"], [])
        self.assert_status(self.client.result(pending, "built", wait="10s"), 200)
        self.assertEqual(self.client.last_words(session), "built")

    def test_nothing_to_take(self):
        self.assertEqual(self.assert_status(self.claim(), 200)["pending"], [])

    def test_only_its_tools_and_no_more_than_it_wants(self):
        _, build = self.suspend("build")
        tests = {self.suspend("test")[1] for _ in range(3)}
        self.suspend("ask")
        first = {c["id"] for c in self.claim(tools=["test"], max=2)["pending"]}
        self.assertEqual((len(first), first <= tests), (2, True))
        rest = {c["id"] for c in self.claim(max=10)["pending"]}
        self.assertEqual(rest, (tests - first) | {build})

    def test_a_call_of_an_old_session_comes_up_after_all_was_looked_through(self):
        old, first = self.suspend("build")
        self.assert_status(self.client.result(first, "built", wait="10s"), 200)
        _, pending = self.suspend("build")
        self.assertEqual([c["id"] for c in self.claim()["pending"]], [pending])
        self.assertEqual(self.claim(max=10)["pending"], [])
        self.assertEqual(self.claim(tools=["test"])["pending"], [])
        self.client.post(f"/v1/sessions/{old}/messages?wait=10s", {"content": "test"})
        again = self.client.session(old)["pending"][0]["pending_id"]
        self.assertEqual(self.claim(tools=["build"])["pending"], [])
        self.assertEqual([c["id"] for c in self.claim(tools=["test", "build"])["pending"]], [again])
        self.assert_status(self.on(pending, "release"), 200)
        self.assertEqual([c["id"] for c in self.claim("other")["pending"]], [pending])

    def test_what_the_configuration_gives_to_workers_is_found(self):
        setup = copy.deepcopy(type(self).setup)
        _, pending = self.suspend("test")
        for waits_for, found in (("person", []), ("external", [pending])):
            setup.tools = [{"name": "build", "kind": "external"},
                           {"name": "test", "kind": "external", "waits_for": waits_for}]
            setup.write(self.server.folder)
            before = len(self.server.events("config.reloaded"))
            self.server.signal(signal.SIGHUP)
            kit.wait_until(lambda n=before: len(self.server.events("config.reloaded")) > n, "the new configuration")
            self.assertEqual([c["id"] for c in self.claim(max=10)["pending"]], found)

    def test_one_by_default(self):
        self.suspend()
        self.suspend()
        self.assertEqual(len(self.claim()["pending"]), 1)

    def test_a_long_poll_is_answered_when_a_call_comes(self):
        join = self.background(self.claim, wait="30s", tools=["test"])
        self.suspend("build")
        _, pending = self.suspend("test")
        answer = join()
        self.assertEqual([c["id"] for c in self.assert_status(answer, 200)["pending"]], [pending])

    def test_a_long_poll_is_answered_when_a_lease_runs_out(self):
        _, pending = self.suspend()
        self.claim(leaseMs=300)
        answer = self.claim("next", wait="10s")
        self.assertEqual([(c["id"], c["worker"]) for c in answer["pending"]], [(pending, "next")])

    def test_a_long_poll_ends_in_time(self):
        began = time.monotonic()
        self.assertEqual(self.assert_status(self.claim(wait="200ms"), 200)["pending"], [])
        self.assertGreater(time.monotonic() - began, 0.19)

    def test_a_claim_that_is_sent_again_takes_nothing_more(self):
        # api 1: Idempotency-Key on any POST, also after a crash
        pending = {self.suspend()[1] for _ in range(2)}
        key = {"Idempotency-Key": "claim-1"}
        first = self.assert_status(self.client.post("/async-tool/claim", {"worker": "w"}, headers=key), 200)
        self.restart()
        again = self.assert_status(self.client.post("/async-tool/claim", {"worker": "w"}, headers=key), 200)
        self.assertEqual([c["id"] for c in again["pending"]], [c["id"] for c in first["pending"]])
        self.assertEqual(again.headers["Idempotency-Replayed"], "true")
        # The start took the lease back, and the answer does not say that it holds.
        self.assertEqual([(c["status"], c.get("worker")) for c in again["pending"]], [("waiting", None)])
        other = self.claim("other", max=10)["pending"]
        self.assertEqual({c["id"] for c in other}, pending)
        again = self.assert_status(self.client.post("/async-tool/claim", {"worker": "w"}, headers=key), 200)
        self.assertEqual([c["worker"] for c in again["pending"]], ["other"])

    def test_what_is_kept_of_a_claim_is_not_the_calls_inputs(self):
        _, pending = self.suspend("build much")
        key = {"Idempotency-Key": "claim-much"}
        for _ in range(2):
            answer = self.client.post("/async-tool/claim", {"worker": "w"}, headers=key)
            self.assertEqual([(c["id"], len(c["input"]["branch"])) for c in answer["pending"]], [(pending, 200_000)])
        self.assertEqual(self.server.stop(), 0)
        self.assertLess((self.server.data / "system.messages.jsonl").stat().st_size, 20_000)

    def test_a_revoked_token_gets_nothing_any_more(self):
        # T5: revoked at once, also for requests that wait
        token = self.client.post("/v1/tokens", {"name": "leaver", "scope": "submit"})
        leaver = self.server.client(token["token"])
        claiming = self.background(self.claim, "leaver", wait="1m", client=leaver)
        telling = self.background(leaver.post, "/v1/sessions?wait=1m", {"message": "think"})
        kit.wait_until(lambda: self.client.get("/v1/sessions")["items"], "the session")
        self.assert_status(self.client.delete(f"/v1/tokens/{token['id']}"), 204)
        self.assert_problem(claiming(), 401, "unauthorized")
        self.assertIsNone(self.assert_status(telling(), 202).get("outcome"))
        _, pending = self.suspend()
        self.assertEqual(self.call(pending)["status"], "waiting")

    def test_each_call_is_taken_by_one_worker(self):
        made = {self.suspend()[1] for _ in range(12)}
        joins = [self.background(self.claim, f"w{n}", max=4) for n in range(6)]
        taken = [c["id"] for join in joins for c in join()["pending"]]
        self.assertEqual((len(taken), set(taken)), (len(set(taken)), made))

    def test_two_polls_of_one_worker_get_different_calls(self):
        joins = [self.background(self.claim, "same", wait="2s") for _ in range(4)]
        _, pending = self.suspend()
        got = [c["id"] for join in joins for c in join()["pending"]]
        self.assertEqual(got, [pending])

    def test_no_call_is_missed_by_those_who_wait(self):
        # A call that comes while a worker loses another one to somebody else is looked for again.
        for n in range(12):
            joins = [self.background(self.claim, f"w{n}-{k}", wait="1m") for k in range(6)]
            making = [self.background(self.client.start, "build") for _ in range(6)]
            made = [join()["pending"][0]["pending_id"] for join in making]
            taken = [c["id"] for join in joins for c in join()["pending"]]
            self.assertEqual(sorted(taken), sorted(made))

    def test_shutdown_answers_a_long_poll(self):
        join = self.background(self.claim, wait="1m")
        kit.wait_until(lambda: self.client.get("/healthz").status == 200)
        self.assertEqual(self.server.stop(), 0)
        try:
            self.assertIn(join().status, (200, 503))
        except OSError:
            pass  # it came after the door was shut

    @every([("no worker", {}), ("empty worker", {"worker": ""}), ("a number", {"worker": 1}),
            ("lease", {"worker": "w", "leaseMs": 0}), ("lease", {"worker": "w", "leaseMs": -5}),
            ("lease", {"worker": "w", "leaseMs": 10**12}), ("max", {"worker": "w", "max": 0}),
            ("max", {"worker": "w", "max": 101}), ("tools", {"worker": "w", "tools": "build"}),
            ("tools", {"worker": "w", "tools": [1]}), ("unknown", {"worker": "w", "status": "completed"})])
    def test_malformed_claims_are_refused(self, body):
        self.assert_problem(self.client.post("/async-tool/claim", body), 400, "invalid_request")

    @every([("unit", "5"), ("too long", "6m"), ("negative", "-1s"), ("text", "soon")])
    def test_malformed_waits_are_refused(self, wait):
        self.assert_problem(self.claim(wait=wait), 400, "invalid_request")

    def test_it_takes_submit(self):
        _, pending = self.suspend()
        reader = self.token("read")
        self.assert_problem(self.claim(client=reader), 403, "forbidden")
        self.assert_problem(reader.post(f"/async-tool/pending/{pending}/claim", {"worker": "w"}), 403, "forbidden")
        self.assertEqual(len(self.claim(client=self.token("submit"))["pending"]), 1)

    def test_a_worker_of_one_task_gets_that_tasks_calls(self):
        # T7
        self.suspend(task_id="other")
        _, mine = self.suspend(task_id="mine")
        worker = self.token("submit", ["mine"])
        self.assertEqual([c["id"] for c in self.claim(client=worker, max=10)["pending"]], [mine])


class HungUp(WorkerCase):
    def ask(self, path, body, **headers):
        """A request as bytes."""
        data = json.dumps(body).encode()
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self.client.token}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n{more}\r\n").encode() + data

    def hang_up_while_waiting(self, data, more=b""):
        """Sends the request and what else there is, goes, and returns when the server has noticed."""
        before = self.server.sockets()
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=kit.PATIENCE)
        connection.sendall(data)
        kit.wait_until(lambda: self.server.sockets() > before, "the connection to be accepted")
        connection.sendall(more)
        connection.close()
        kit.wait_until(lambda: self.server.sockets() == before, "the connection to be let go")

    def answers(self, received):
        """(status, body) of each answer in those bytes."""
        found = []
        while received:
            head, _, received = received.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
            length = int(fields["Content-Length"])
            found.append((int(head.split(b" ")[1]), received[:length]))
            received = received[length:]
        return found

    def test_whoever_hung_up_gets_no_call(self):
        self.hang_up_while_waiting(self.ask("/async-tool/claim?wait=5m", {"worker": "ghost"}))
        _, pending = self.suspend()
        self.assertEqual([c["id"] for c in self.claim("there", wait="10s")["pending"]], [pending])

    def test_the_same_key_may_wait_again(self):
        key = {"Idempotency_Key": "again"}
        self.hang_up_while_waiting(self.ask("/async-tool/claim?wait=5m", {"worker": "w"}, **key))
        _, pending = self.suspend()
        answer = self.client.post("/async-tool/claim?wait=5m", {"worker": "w"}, headers={"Idempotency-Key": "again"})
        self.assertEqual([c["id"] for c in self.assert_status(answer, 200)["pending"]], [pending])

    def test_whoever_hung_up_behind_another_request_gets_no_call(self):
        # What was sent behind the claim hides the end from whoever only reads.
        self.hang_up_while_waiting(self.ask("/async-tool/claim?wait=5m", {"worker": "ghost"}),
                                   b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        _, pending = self.suspend()
        self.assertEqual([c["id"] for c in self.claim("there", wait="10s")["pending"]], [pending])

    def test_whoever_has_said_everything_is_answered(self):
        # nc closes its side behind the request and reads on.
        _, pending = self.suspend()
        received = kit.exchange(self.server.port, self.ask("/async-tool/claim?wait=5m", {"worker": "nc"}), True)
        (status, body), = self.answers(received)
        self.assertEqual((status, [c["id"] for c in json.loads(body)["pending"]]), (200, [pending]))
        received = kit.exchange(self.server.port, self.ask("/async-tool/claim?wait=5m", {"worker": "nc"}), True)
        (status, body), = self.answers(received)
        self.assertEqual((status, json.loads(body)), (200, {"pending": []}))
        received = kit.exchange(self.server.port, self.ask("/v1/sessions?wait=10s", {"message": "test"}), True)
        (status, body), = self.answers(received)
        self.assertEqual((status, json.loads(body)["outcome"]["status"]), (200, "suspended"))

    def test_a_connection_is_good_for_more_behind_a_long_poll(self):
        connection = socket.create_connection(("127.0.0.1", self.server.port), timeout=kit.PATIENCE)
        self.addCleanup(connection.close)
        connection.sendall(self.ask("/async-tool/claim?wait=1m", {"worker": "w"}) +
                           b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        _, pending = self.suspend()
        received = b""
        while not received.endswith(b"ok\n"):
            received += connection.recv(65536)
        (status, body), (health, _) = self.answers(received)
        self.assertEqual((status, [c["id"] for c in json.loads(body)["pending"]], health), (200, [pending], 200))
        connection.sendall(self.ask("/async-tool/claim?wait=10ms", {"worker": "w"}) +
                           b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        self.assertEqual([status for status, _ in self.answers(received)], [200, 200])


class Leases(WorkerCase):
    def test_a_lease_that_runs_out_goes_back(self):
        # design 7 Workers pull
        session, pending = self.suspend()
        self.claim(leaseMs=200)
        kit.wait_until(lambda: self.call(pending)["status"] == "waiting", "the lease to run out")
        self.assertEqual(self.claim("second")["pending"][0]["id"], pending)
        # The first one comes late and is taken all the same.
        self.assert_status(self.client.result(pending, "late but there"), 200)

    def test_whoever_lost_it_reports_no_progress(self):
        # api 3: lease_held
        session, pending = self.suspend()
        self.claim("first", leaseMs=200)
        kit.wait_until(lambda: self.call(pending)["status"] == "waiting", "the lease to run out")
        self.claim("second", leaseMs=60000)
        with self.nothing_changes(session):
            late = self.on(pending, "progress", "first", progress={"percent": 5})
            self.assert_problem(late, 409, "lease_held")
        self.assert_status(self.on(pending, "progress", "second", progress={"percent": 50}), 200)

    def test_renewing_keeps_it(self):
        _, pending = self.suspend()
        self.claim(leaseMs=800)
        renewed = self.assert_status(self.on(pending, "renew", leaseMs=60000), 200)["pending"]
        self.assertGreater(renewed["leaseUntil"], kit.now_ms() + 50000)
        _, other = self.suspend()
        self.on(other, "claim", leaseMs=800)
        kit.wait_until(lambda: self.call(other)["status"] == "waiting", "a lease of the first length to run out")
        self.assertEqual(self.call(pending)["status"], "processing")

    def test_a_lease_that_is_renewed_often_is_not_written_often(self):
        # design 7: renewals live in memory, with a record at half of a lease
        session, pending = self.suspend()
        self.claim(leaseMs=600000)
        recorded = self.call(pending)["leaseUntil"]
        for _ in range(20):
            renewed = self.assert_status(self.on(pending, "renew", leaseMs=600000), 200)["pending"]["leaseUntil"]
            self.assertGreaterEqual(renewed, recorded)
        self.assertEqual(self.client.kinds(session).count("pending.processing"), 1)
        self.assertEqual(self.client.session(session)["pending"][0]["worker"], "w")
        # One that is mostly over by the log is written there.
        self.on(pending, "renew", leaseMs=3600000)
        self.assertEqual(self.client.kinds(session).count("pending.processing"), 2)
        # And so is one that becomes shorter.
        shorter = self.on(pending, "renew", leaseMs=60000)["pending"]["leaseUntil"]
        self.assertLess(shorter, kit.now_ms() + 61000)
        self.assertEqual(self.client.kinds(session).count("pending.processing"), 3)

    def test_a_lease_that_was_renewed_in_memory_runs_out_at_its_new_time(self):
        session, pending = self.suspend()
        first = self.claim(leaseMs=4000)["pending"][0]["leaseUntil"]
        renewed = self.on(pending, "renew", leaseMs=5000)["pending"]["leaseUntil"]
        self.assertEqual(self.client.kinds(session).count("pending.processing"), 1, "the renewal is in memory")
        self.assertGreater(renewed, first)
        self.assert_problem(self.on(pending, "claim", "thief"), 409, "lease_held")
        self.assertEqual(self.claim("next", wait="30s")["pending"][0]["id"], pending)
        back, = [r for r in self.client.log(session) if r["kind"] == "pending.waiting"]
        self.assertGreaterEqual(kit.to_ms(back["ts"]), renewed)

    def test_a_lease_in_memory_is_over_at_a_boot(self):
        _, pending = self.suspend()
        self.claim(leaseMs=600000)
        self.on(pending, "renew", leaseMs=600000)
        self.restart()
        self.assertEqual(self.call(pending)["status"], "waiting")
        self.assertEqual(self.claim("next", leaseMs=60000)["pending"][0]["id"], pending)
        self.assertLess(self.call(pending)["leaseUntil"], kit.now_ms() + 61000)

    def test_another_ones_lease_is_held(self):
        session, pending = self.suspend()
        self.assert_status(self.on(pending, "claim"), 200)
        with self.nothing_changes(session):
            for verb in ("claim", "renew", "release"):
                self.assert_problem(self.on(pending, verb, "thief"), 409, "lease_held")
        self.assert_status(self.on(pending, "claim"), 200)  # its own, again

    def test_what_nobody_holds_cannot_be_renewed(self):
        session, pending = self.suspend()
        for released in (False, True):
            if released:
                self.on(pending, "claim")
                self.on(pending, "release")
            with self.nothing_changes(session):
                refused = self.assert_problem(self.on(pending, "renew"), 409, "lease_held")
                self.assertNotIn("Another worker", refused["title"])

    @every([("a result", "completed"), ("a cancel", "cancelled")])
    def test_what_is_settled_cannot_be_renewed(self, status):
        session, pending = self.suspend()
        self.on(pending, "claim")
        if status == "completed":
            self.client.result(pending)
        else:
            self.client.delete(f"/async-tool/pending/{pending}")
        refused = self.assert_problem(self.on(pending, "renew"), 410, "not_waiting")
        self.assertEqual(refused["pendingStatus"], status)

    def test_a_released_call_waits_for_the_next(self):
        _, pending = self.suspend()
        self.claim()
        join = self.background(self.claim, "next", wait="10s")
        self.assert_status(self.on(pending, "release"), 200)
        self.assertEqual(join()["pending"][0]["id"], pending)

    def test_progress_of_a_claimed_call(self):
        session, pending = self.suspend()
        self.claim()
        self.assert_status(self.on(pending, "progress", progress={"percent": 50, "message": "half"}), 200)
        self.assertEqual(self.call(pending)["progress"], {"percent": 50, "message": "half"})
        self.assertEqual(self.call(pending)["status"], "processing")
        with self.nothing_changes(session):
            for wrong in ({"progress": {"percent": 500}}, {"progress": None}, {}):
                self.assert_problem(self.on(pending, "progress", **wrong), 400, "invalid_request")

    def test_progress_that_comes_often_is_shown_and_not_written(self):
        # design 7: frequent progress lives in memory, with a record every 30 s
        session, pending = self.suspend()
        self.claim()
        stream = self.stream(f"/v1/sessions/{session}/events")
        stream.wait_for("snapshot")
        for percent in range(1, 41):
            self.assert_status(self.on(pending, "progress", progress={"percent": percent}), 200)
            self.assertEqual(self.call(pending)["progress"], {"percent": percent})
        self.assertEqual(self.client.session(session)["pending"][0]["progress"], {"percent": 40})
        self.assertEqual(self.client.kinds(session).count("pending.progress"), 1)
        told = stream.wait_for("pending.progress", 40)
        self.assertEqual([event.data["progress"]["percent"] for event in told], list(range(1, 41)))
        self.assertEqual({event.data["pending_id"] for event in told}, {pending})
        self.assertEqual([event.id is None for event in told], [False] + [True] * 39)
        # What was told last is what counts, though it is what the log has.
        self.on(pending, "progress", progress={"percent": 1})
        self.assertEqual(self.call(pending)["progress"], {"percent": 1})
        # Whoever looks in another way sees it too, and the log has it in the end.
        self.on(pending, "progress", progress={"percent": 99, "message": "nearly"})
        snapshot, = self.stream(f"/v1/sessions/{session}/events").wait_for("snapshot")
        wait, = self.client.get("/v1/waits")["items"]
        for view in (snapshot.data, wait):
            self.assertEqual(view["pending"][0]["progress"], {"percent": 99, "message": "nearly"})
        self.assert_status(self.client.result(pending, "built", wait="10s"), 200)
        self.assertEqual(self.client.last_words(session), "built")
        self.assertEqual([r["progress"] for r in self.client.log(session) if r["kind"] == "pending.progress"],
                         [{"percent": 1}, {"percent": 99, "message": "nearly"}])
        self.assertEqual(self.call(pending)["progress"], {"percent": 99, "message": "nearly"})

    def test_the_log_tells_who_had_it(self):
        session, pending = self.suspend()
        self.on(pending, "claim", "alice")
        self.on(pending, "release", "alice")
        kinds = [(r["kind"], r.get("worker"), r.get("reason")) for r in self.client.log(session)
                 if r["kind"] in ("pending.processing", "pending.waiting")]
        self.assertEqual(kinds, [("pending.processing", "alice", None), ("pending.waiting", None, "released")])
