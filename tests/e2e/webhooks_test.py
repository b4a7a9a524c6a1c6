"""Outgoing webhooks: signed, in order, at least once, whatever dies in between."""

import base64
import hashlib
import hmac
import threading
import time

import kit
from kit import calls, on_result, on_user, says

KEY = b"0123456789abcdef0123456789abcdef"
SECRET = "whsec_" + base64.b64encode(KEY).decode()


def signature_of(request, key=KEY):
    text = b"%s.%s.%s" % (request.headers["webhook-id"].encode(), request.headers["webhook-timestamp"].encode(),
                          request.body)
    return "v1," + base64.b64encode(hmac.new(key, text, hashlib.sha256).digest()).decode()


class WebhookCase(kit.Case):
    fresh = True  # what one test leaves to be delivered is not another's
    env = {"HOOK_SECRET": SECRET, "PLAIN_SECRET": "a plain secret"}

    @classmethod
    def make_setup(cls, **sections):
        script = [
            on_user("go", calls(("job", {}, "call_j"))), on_user("quick", calls(("quick", {}, "call_q"))),
            on_user("fail", {"error": {"status": 400}}), on_user("think", says("thought", delay_ms=30000)),
            on_result("job", says("{{result}}")), on_result("quick", says("{{result}}")),
            on_user("hello", says("hello")),
            on_user("delegate", calls(("start_session", {"agent": "helper", "message": "hello"}, "call_s"))),
            on_result("start_session", says("{{result}}")),
        ]
        return kit.Setup(
            agents=[{"name": "helper", "script": script, "tools": ["job", "quick", "start_session"]}],
            tools=[{"name": "job", "kind": "external"}, {"name": "quick", "kind": "external", "timeout": "500ms"}],
            webhooks=[{"url": cls.outside.url + "/all", "secret_env": "HOOK_SECRET"},
                      {"url": cls.outside.url + "/some", "secret_env": "PLAIN_SECRET",
                       "events": ["session.completed"]}], **sections)

    def setUp(self):
        self.outside.received.clear()
        self.outside._answers.clear()
        super().setUp()

    def events(self, path="/all", session=None):
        return [r for r in self.outside.requests(path) if session in (None, r.json["data"]["session_id"])]

    def wait_for(self, kind, session=None, path="/all", count=1, patience=kit.PATIENCE):
        def has():
            found = [r for r in self.events(path, session) if r.json["type"] == kind]
            return found if len(found) >= count else None
        return kit.wait_until(has, f"{count} × {kind} at {path}", patience)

    def finish(self, session):
        self.client.result(session["pending"][0]["pending_id"], "r", wait="10s")
        return self.wait_for("session.completed", session["id"])


class Delivering(WebhookCase):
    def test_a_suspend_and_a_resume_are_told_in_order(self):
        # api 5
        session = self.client.start("go", task_id="task-1")
        self.finish(session)
        kit.wait_until(lambda: len(self.events(session=session["id"])) >= 4, "all of them")
        bodies = [r.json for r in self.events(session=session["id"])]
        self.assertEqual([b["type"] for b in bodies],
                         ["pending.created", "session.waiting", "session.resumed", "session.completed"])
        for body in bodies:
            self.assertEqual(set(body), {"type", "timestamp", "data"})
            self.assertEqual((body["data"]["session_id"], body["data"]["task_id"]), (session["id"], "task-1"))
            self.assertRegex(body["timestamp"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
        seqs = [b["data"]["seq"] for b in bodies]
        self.assertEqual(seqs, sorted(seqs))
        self.assertEqual(bodies[1]["data"]["wait"]["wait_id"], session["run"]["wait"]["wait_id"])
        self.assertEqual(bodies[0]["data"]["pending_id"], session["pending"][0]["pending_id"])

    def test_they_are_signed_as_standard_webhooks_asks(self):
        session = self.client.start("go")
        self.finish(session)
        for request in self.events():
            self.assertEqual(request.method, "POST")
            self.assertEqual(request.headers["Content-Type"], "application/json")
            self.assertIn(signature_of(request), request.headers["webhook-signature"].split(" "))
            self.assertLess(abs(int(request.headers["webhook-timestamp"]) - time.time()), 60)
            self.assertNotIn(".", request.headers["webhook-id"])
            self.assertLess(len(request.body), 20 * 1024)
        ids = [r.headers["webhook-id"] for r in self.events()]
        self.assertEqual(len(ids), len(set(ids)))
        plain = self.wait_for("session.completed", path="/some")[0]
        self.assertEqual(plain.headers["webhook-signature"], signature_of(plain, b"a plain secret"))

    def test_an_endpoint_gets_what_it_asked_for(self):
        session = self.client.start("go")
        self.finish(session)
        self.wait_for("session.completed", path="/some")
        self.assertEqual({r.json["type"] for r in self.events("/some")}, {"session.completed"})

    def test_no_token_and_no_secret_is_in_them(self):
        # design 7 Tokens, api 5
        session = self.client.start("go")
        token = session["outcome"]["suspension"]["resume_token"]
        self.finish(session)
        for request in self.events():
            text = request.body.decode() + str(request.headers)
            self.assertNotIn(token.split(".")[1], text)
            self.assertNotIn(SECRET, text)

    def test_failures_and_expiries_are_told(self):
        failed = self.client.start("fail")
        data = self.wait_for("session.failed", failed["id"])[0].json["data"]
        self.assertTrue(data["error"])
        quick = self.client.start("quick")
        expired = self.wait_for("pending.expired", quick["id"])[0].json["data"]
        self.assertEqual(expired["pending_id"], quick["pending"][0]["pending_id"])
        self.wait_for("session.completed", quick["id"])

    def test_a_call_that_is_about_to_expire_is_told(self):
        # api 5: at 80 % of its time
        session = self.client.start("quick")
        self.wait_for("pending.expired", session["id"])
        types = [r.json["type"] for r in self.events(session=session["id"])]
        self.assertIn("pending.expiring", types)
        self.assertLess(types.index("pending.expiring"), types.index("pending.expired"))

    def test_a_parent_that_its_child_resumes_is_told(self):
        # api 5: queued in the commit they tell of
        parent = self.client.start("delegate")["id"]
        self.wait_for("session.completed", parent)
        types = [r.json["type"] for r in self.events(session=parent)]
        self.assertEqual(types, ["pending.created", "session.waiting", "session.resumed", "session.completed"])
        resumed = self.wait_for("session.resumed", parent)[0].json["data"]["seq"]
        self.assertEqual(self.client.log(parent)[resumed - 1]["kind"], "run.resumed")

    def test_an_interruption_is_told(self):
        session = self.client.start("think", wait=None)
        self.server.setup = self.make_setup(recovery={"resume": "off"})
        self.restart()
        self.wait_for("session.interrupted", session["id"], patience=2)

    def test_an_expiry_while_the_server_was_down_is_told(self):
        session = self.client.start("quick")
        expires = self.client.get(f"/async-tool/pending/{session['pending'][0]['pending_id']}")["pending"]["timeout"]
        self.server.kill()
        kit.wait_until(lambda: kit.now_ms() > expires, "the call's time to pass")
        self.server.start()
        self.client = self.server.client()
        self.wait_for("session.completed", session["id"])
        self.wait_for("pending.expired", session["id"], patience=1)


class Short(WebhookCase):
    @classmethod
    def make_setup(cls, **sections):
        return super().make_setup(limits={"webhook_payload_bytes": 130}, **sections)

    def test_what_is_too_long_is_left_out(self):
        session = self.client.start("go")
        waiting = self.wait_for("session.waiting", session["id"])[0].json["data"]
        self.assertEqual(set(waiting), {"session_id", "task_id", "seq"})
        created = self.wait_for("pending.created", session["id"])[0].json["data"]
        self.assertEqual(set(created), {"session_id", "task_id", "seq", "pending_id"})
        self.finish(session)


class Failing(WebhookCase):
    def test_a_refused_one_is_tried_again_and_holds_nothing_back(self):
        # api 5: retried on its own; the norm's second attempt comes after 5 s
        self.outside.on("/some", [(500, {}), (200, {})])
        session = self.client.start("hello")
        first = self.wait_for("session.completed", session["id"], "/some")[0]
        other = self.client.start("hello")
        self.wait_for("session.completed", other["id"], "/some", patience=3)
        again = self.wait_for("session.completed", session["id"], "/some", count=2)[1]
        self.assertEqual(again.headers["webhook-id"], first.headers["webhook-id"])
        self.assertEqual(again.body, first.body)
        self.assertGreater(again.at - first.at, 4)
        self.assertIn(signature_of(again, b"a plain secret"), again.headers["webhook-signature"])

    def test_one_that_was_on_its_way_at_kill_9_is_delivered_after_the_restart(self):
        # at least once
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.outside.on("/some", lambda request: gate.wait(10) and (200, {}))
        session = self.client.start("hello")
        first = self.wait_for("session.completed", session["id"], "/some")[0]
        self.outside.on("/some", (200, {}))
        self.restart()
        again = self.wait_for("session.completed", session["id"], "/some", count=2)[1]
        self.assertEqual(again.headers["webhook-id"], first.headers["webhook-id"])
        self.assertEqual(again.json["data"], first.json["data"])
        gate.set()

    def test_one_that_is_sent_again_after_a_restart_is_the_same(self):
        # Standard Webhooks: the payload of a message does not change
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.outside.on("/some", lambda request: gate.wait(10) and (200, {}))
        sessions = [self.client.start("hello")["id"] for _ in range(5)]
        for session in sessions:
            self.wait_for("session.completed", session, "/some")
        self.outside.on("/some", (200, {}))
        self.restart()
        for session in sessions:
            first, again = self.wait_for("session.completed", session, "/some", count=2)[:2]
            self.assertEqual(again.body, first.body)

    def test_nothing_that_was_acknowledged_is_forgotten(self):
        # queued in the commit that they tell of
        sessions = []
        for _ in range(3):
            sessions += [self.client.start("hello")["id"] for _ in range(5)]
            self.restart()
        for session in sessions:
            self.wait_for("session.completed", session, "/some")

    def test_a_delivered_one_is_not_sent_again_after_a_restart(self):
        session = self.client.start("hello")
        self.wait_for("session.completed", session["id"], "/some")
        last = self.client.start("hello")
        self.wait_for("session.completed", last["id"], "/some")
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        self.client = self.server.client()
        fresh = self.client.start("hello")
        self.wait_for("session.completed", fresh["id"], "/some")
        self.assertEqual(len(self.events("/some", session["id"])), 1)

    def test_one_that_is_answered_at_length_is_delivered(self):
        self.outside.on("/some", (200, {"words": "x" * 1_000_000}))
        session = self.client.start("hello")
        self.wait_for("session.completed", session["id"], "/some")
        log = self.server.data / "journal"
        told = lambda: [kind for kind in (b"webhook.failed", b"webhook.delivered")
                        if any(kind in segment.read_bytes() for segment in log.iterdir())]
        self.assertEqual(kit.wait_until(told, "it to be noted how it went"), [b"webhook.delivered"])

    def test_a_redirect_is_not_followed(self):
        self.outside.on("/some", (302, {}))
        session = self.client.start("hello")
        self.wait_for("session.completed", session["id"], "/some")
        self.wait_for("session.completed", session["id"], "/all")

    def test_one_that_is_gone_is_dead_until_somebody_revives_it(self):
        # api 5: GET /v1/webhooks/dead and its retry; 410 disables
        self.outside.on("/some", [(410, {}), (200, {})])
        session = self.client.start("hello")
        self.wait_for("session.completed", session["id"], "/some")
        dead = kit.wait_until(lambda: self.client.get("/v1/webhooks/dead")["items"], "it to be dead")
        self.assertEqual((dead[0]["session_id"], dead[0]["type"], dead[0]["attempts"]),
                         (session["id"], "session.completed", 1))
        self.restart()
        self.assertEqual([d["id"] for d in self.client.get("/v1/webhooks/dead")["items"]], [dead[0]["id"]])
        self.assert_problem(self.token("operate").post(f"/v1/webhooks/dead/{dead[0]['id']}/retry"), 403, "forbidden")
        again = [self.client.post(f"/v1/webhooks/dead/{dead[0]['id']}/retry", headers={"Idempotency-Key": "again"})
                 for _ in range(2)]
        self.assertEqual([(a.status, a.json, a.headers["Idempotency-Replayed"]) for a in again],
                         [(202, {"id": dead[0]["id"]}, None), (202, {"id": dead[0]["id"]}, "true")])
        self.wait_for("session.completed", session["id"], "/some", count=2)
        kit.wait_until(lambda: not self.client.get("/v1/webhooks/dead")["items"], "it to be delivered")
        self.assert_problem(self.client.post("/v1/webhooks/dead/msg_none/retry"), 404, "not_found")


    def test_dead_ones_of_other_tasks_do_not_exist(self):
        # T7
        self.outside.on("/some", (410, {}))
        for task in ("theirs", "mine"):
            self.client.start("hello", task_id=task)
        dead = kit.wait_until(lambda: (found := self.client.get("/v1/webhooks/dead")["items"]) and len(found) == 2 and
                              {self.client.session(d["session_id"])["task_id"]: d["id"] for d in found},
                              "both to be dead")
        mine = self.token("admin", ["mine"])
        self.assertEqual([d["id"] for d in mine.get("/v1/webhooks/dead")["items"]], [dead["mine"]])
        self.assert_problem(mine.post(f"/v1/webhooks/dead/{dead['theirs']}/retry"), 404, "not_found")
        self.assert_status(mine.post(f"/v1/webhooks/dead/{dead['mine']}/retry"), 202)


class Order(WebhookCase):
    def test_first_attempts_keep_the_order_of_a_session(self):
        # api 5: first attempts in order per session and endpoint
        sessions = [self.client.start("go") for _ in range(6)]
        for session in sessions:
            self.client.result(session["pending"][0]["pending_id"], "r")
        for session in sessions:
            self.wait_for("session.completed", session["id"])
            types = [r.json["type"] for r in self.events(session=session["id"])]
            self.assertEqual(types, ["pending.created", "session.waiting", "session.resumed", "session.completed"])
            seqs = [r.json["data"]["seq"] for r in self.events(session=session["id"])]
            self.assertEqual(seqs, sorted(seqs))

    def test_an_endpoint_that_does_not_answer_holds_no_other_one_up(self):
        # Of 40 sessions, each tells both; none of those to /all is ever answered.
        gate = threading.Event()
        self.addCleanup(gate.set)
        self.outside.on("/all", lambda request: gate.wait(30) and (200, {}))
        sessions = [self.client.start("hello") for _ in range(40)]
        for session in sessions:
            self.wait_for("session.completed", session["id"], "/some", patience=10)
        waiting = [r for r in self.events("/all")]
        self.assertLessEqual(len(waiting), 8)  # of one endpoint, so many at once
        gate.set()
        for session in sessions:
            self.wait_for("session.completed", session["id"])
