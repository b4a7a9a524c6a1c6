"""Agents that write to one another: stored first, then shown or woken, each letter once."""

import pathlib
import shutil
import tempfile
import threading

import kit
from kit import calls, every, on_result, on_user, says

CIRCLE = ("x", "y", "z", "w")
RING = ("ping", "pong", "pang")


def write(message, to=None, **more):
    given = {"message": message, **({"to": to} if to else {}), **more}
    return calls(("broadcast", given, "call_b"))


def setup(folder=None, **sections):
    common = [on_result("broadcast", says("sent: {{result}}"))]
    asker = [
        on_user("the answer is", says("I heard it")),
        on_user("note this", says("noted")),
        on_user("ask b and wait", write("what is it", "b", wait=True)),
        on_user("ask mute and wait", write("anybody there", "mute", wait=True)),
        on_user("ask frail and wait", write("anybody there", "frail", wait=True)),
        on_user("ask eternal and wait", write("anybody there", "eternal", wait=True)),
        on_user("ask the hopeless", write("hopeless", "frail", wait=True)),
        on_user("ask b", write("what is it", "b")),
        on_user("ask nobody", write("hello", "nobody")),
        on_user("write to myself", write("hello", "a")),
        on_user("tell all", write("note this, all of you", resume=True)),
        on_user("status", write("note this status")),
        on_user("wait for job", calls(("job", {}, "call_j"))),
        on_user("use slow", calls(("slow", {}, "call_s"))),
        on_user("think", says("thought", delay_ms=1000)),
        on_result("job", says("job: {{result}}")), on_result("slow", says("slow: {{result}}")),
        *common, says("nothing to say", repeat=True),
    ]
    swift = [on_user("what is it", write("the answer is 42", "a")), *common]
    # It takes its time, so that whoever asked is idle by then.
    answerer = [on_user("what is it", {**write("the answer is 42", "a"), "delay_ms": 700}), *common,
                says("b has nothing to say", repeat=True)]
    # Each asks the next one and answers the one before.
    circle = [{"name": name, "tools": ["broadcast"],
               "script": [on_user("go", write("are you there", CIRCLE[(i + 1) % 3], wait=True)),
                          on_user("round", write("are you there", CIRCLE[(i + 1) % 4], wait=True)),
                          on_user("ask back", write("are you there", "x", wait=True)),
                          on_user("are you there", says("here")), *common]}
              for i, name in enumerate(CIRCLE)]
    ring = [on_user("your turn", write("your turn", RING[(i + 1) % 3])) for i in range(3)]
    slow = f"until test -e {folder}/go; do sleep 0.02; done; echo done" if folder else "echo done"
    agents = [{"name": "a", "script": asker, "tools": ["broadcast", "job", "slow"]},
              {"name": "b", "script": answerer, "tools": ["broadcast"]},
              {"name": "swift", "script": swift, "tools": ["broadcast"]},
              {"name": "mute", "script": [says("I say nothing", repeat=True)], "tools": []},
              {"name": "eternal", "script": [says("never", delay_ms=30000, repeat=True)], "tools": []},
              {"name": "pair", "tools": ["broadcast"],
               "script": [on_user("left", write("right", "two")), on_user("right", write("left", "one")),
                          on_result("broadcast", says("passed on"))]},
              {"name": "frail", "tools": [],
               "script": [on_user("anybody there", says("here after all")),
                          on_user("break", {"error": {"status": 400}, "delay_ms": 500}),
                          on_user("hopeless", {"error": {"status": 400}})]}, *circle]
    agents += [{"name": name, "script": [ring[i], on_result("broadcast", says("passed on"))],
                "tools": ["broadcast"]} for i, name in enumerate(RING)]
    return kit.Setup(agents=agents, tools=[
        {"name": "job", "kind": "external"},
        {"name": "slow", "kind": "exec", "command": ["/bin/sh", "-c", slow]}], **sections)


class MailCase(kit.Case):
    fresh = True  # aliases of one test are not another's

    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="rouse-e2e-"))
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.place, ignore_errors=True)

    @classmethod
    def make_setup(cls, **sections):
        return setup(cls.place, **sections)

    def setUp(self):
        (self.place / "go").unlink(missing_ok=True)
        super().setUp()

    def tearDown(self):
        (self.place / "go").touch()
        super().tearDown()

    def session(self, alias, message=None, agent=None, **more):
        return self.client.start(message, alias=alias, agent=agent or alias, **more)["id"]

    def send(self, to, message, status=202, **more):
        body = {"message": message, **({"to": to} if to is not None else {}), **more}
        return self.assert_status(self.client.post("/v1/broadcast", body), status)

    def inbox(self, session):
        return self.client.get(f"/v1/sessions/{session}/inbox")["items"]

    def records(self, session, kind):
        return [r for r in self.client.log(session) if r["kind"] == kind]

    def said(self, session, words):
        def has():
            return any(words in "".join(b.get("text", "") for b in entry["content"])
                       for entry in self.client.transcript(session) if entry["role"] == "assistant")
        kit.wait_until(has, f"{session} to say {words!r}")
        return self.client.wait_status(session, "idle")

    def presented(self, session):
        """How often each letter was shown."""
        count = {}
        for record in self.records(session, "inbox.presented"):
            for message in record["message_ids"]:
                count[message] = count.get(message, 0) + 1
        return count


class Delivery(MailCase):
    def test_a_asks_goes_idle_and_wakes_with_the_answer(self):
        # S4-01 S4-02 S4-03 S4-04 S4-05 S4-06 S4-11 S4-20 S4-24 S4-34 S4-39
        b = self.session("b")
        a = self.session("a", "ask b")
        self.said(a, "I heard it")
        kinds = self.client.kinds(a)
        for kind in ("outbox.sent", "inbox.received", "inbox.presented"):
            self.assertEqual(kinds.count(kind), 1, kind)
        self.assertEqual(kinds.count("run.started"), 2)
        shown = self.records(a, "inbox.presented")[0]["text"]
        self.assertIn("from b", shown)
        self.assertIn("the answer is 42", shown)
        self.assertIn("reply_to", shown)
        woke = [r for r in self.records(a, "run.started")][1]
        self.assertEqual(woke["hops"], 2)
        self.assertEqual(woke["chain_id"], self.records(b, "inbox.received")[0]["chain_id"])
        self.assertTrue(self.server.events("mail.wakes"))  # S4-22
        self.assertTrue(self.server.events("session.idle"))  # S4-18 S4-25

    def test_a_busy_agent_sees_it_in_its_next_context(self):
        # S4-21 S4-30 S4-40
        a = self.session("a", "use slow", wait=None)
        self.client.wait_kind(a, "tool.started")
        answer = self.send("a", "note this: it is red")
        self.assertEqual(answer["delivered"][0]["action"], "queued")
        (self.place / "go").touch()
        self.said(a, "noted")
        self.assertEqual(self.client.kinds(a).count("run.started"), 1)
        self.assertEqual(list(self.presented(a).values()), [1])

    def test_a_waiting_session_sees_it_when_its_turn_goes_on(self):
        # S4-14, design 10: waiting, stays in the inbox until the turn goes on
        session = self.client.start("wait for job", alias="a", agent="a")
        answer = self.send("a", "note this while you wait")
        self.assertEqual(answer["delivered"][0]["action"], "queued")
        self.assertEqual(self.client.session(session["id"])["status"], "waiting")
        self.assertFalse(self.inbox(session["id"])[0]["presented"])
        self.restart()
        self.client.result(session["pending"][0]["pending_id"], "built", wait="10s")
        self.said(session["id"], "noted")
        self.assertTrue(self.inbox(session["id"])[0]["presented"])

    def test_mail_that_comes_after_the_last_context_wakes_again(self):
        # lessons 2.4: a message after the last context build but before the end of the run
        a = self.session("a", "think", wait=None)
        self.send("a", "note this before you end")
        self.said(a, "noted")
        self.assertEqual(self.client.kinds(a).count("run.started"), 2)
        self.assertEqual(list(self.presented(a).values()), [1])

    def test_many_at_once_are_one_wake(self):
        # S4-31 S4-42
        a = self.session("a", "think", wait=None)
        sent = {self.send("a", f"note this, number {n}")["message_id"] for n in range(5)}
        self.said(a, "noted")
        self.assertEqual(self.presented(a), {message: 1 for message in sent})
        self.assertEqual(self.client.kinds(a).count("run.started"), 2)
        self.assertIn("5 new messages", self.records(a, "inbox.presented")[0]["text"])

    def test_several_write_to_an_idle_one(self):
        # S4-42
        a = self.session("a")
        writers = [self.background(self.send, "a", f"note this, from {n}") for n in range(8)]
        sent = {join()["message_id"] for join in writers}
        self.said(a, "noted")
        kit.wait_until(lambda: self.presented(a) == {message: 1 for message in sent}, "all of them, once")

    def test_an_unknown_recipient_is_an_error_with_the_known_names(self):
        # S4-19 S4-29 S4-41
        a, _ = self.session("a"), self.session("b")
        with self.nothing_changes(a):
            answer = self.assert_problem(self.client.post(
                "/v1/broadcast", {"to": "nobody", "message": "x"}), 404, "unknown_alias")
            self.assertEqual(answer["known"], ["a", "b"])
            answer = self.client.post("/v1/broadcast", {"to": ["a", "nobody"], "message": "x"})
            self.assert_problem(answer, 404, "unknown_alias")  # all or nothing
        again = self.client.start("ask nobody", alias="c", agent="a")["id"]
        said = self.client.last_words(again)
        self.assertIn('Unknown recipient "nobody"', said)
        self.assertIn("a, b", said)
        self.assertNotIn("outbox.sent", self.client.kinds(again))

    def test_a_deleted_session_is_unknown(self):
        # S4-41
        a = self.session("a")
        self.client.delete(f"/v1/sessions/{a}")
        self.assert_problem(self.client.post("/v1/broadcast", {"to": "a", "message": "x"}), 404, "unknown_alias")
        b = self.session("b", "what is it")
        self.assertIn("Unknown recipient", self.client.last_words(b))

    def test_nobody_writes_to_itself(self):
        a = self.session("a", "write to myself")
        self.assertIn("this very session", self.client.last_words(a))
        self.assertNotIn("inbox.received", self.client.kinds(a))

    def test_a_status_line_wakes_nobody(self):
        # design 10: without `to` a broadcast goes to all aliases of the task
        b, mute = self.session("b"), self.session("mute")
        self.session("a", "status")
        for session in (b, mute):
            self.assertEqual(self.client.kinds(session), ["session.created", "inbox.received"])
        answer = self.send(None, "note this status")
        self.assertEqual({s["action"] for s in answer["delivered"]}, {"stored"})

    def test_resume_wakes_everybody(self):
        # S4-28
        others = [self.session(f"a{n}", agent="a") for n in range(3)]
        self.session("a", "tell all")
        for session in others:
            self.said(session, "noted")

    def test_tasks_are_spaces_of_their_own(self):
        self.session("a", task_id="one")
        other = self.session("a", task_id="two")
        self.send("a", "note this", task_id="two")
        self.said(other, "noted")
        self.assert_problem(self.client.post("/v1/broadcast", {"to": "a", "message": "x"}), 404, "unknown_alias")

    def test_the_recipients_own_agent_answers(self):
        # lessons 2.4: the recipient's agent and model, not the sender's
        b = self.session("b")
        self.session("a", "ask b")
        self.said(b, "sent:")
        self.assertIn("the answer is 42", self.records(b, "outbox.sent")[0]["text"])  # only b's script says so

    def test_aliases(self):
        # S4-12 S4-13 S4-15 S4-16
        a = self.session("a", task_id="t")
        waiting = self.client.start("wait for job", alias="w", agent="a", task_id="t")["id"]
        self.client.start(agent="a", task_id="t")  # has none
        rows = self.client.get("/v1/aliases?task_id=t")["items"]
        self.assertEqual({(r["alias"], r["session_id"], r["status"]) for r in rows},
                         {("a", a, "idle"), ("w", waiting, "active")})
        self.assertTrue(all(r["last_activity"].endswith("Z") for r in rows))

    @every([("no message", {"to": "a"}, 400), ("empty", {"to": "a", "message": ""}, 400),
            ("too long", {"to": "a", "message": "x" * 10001}, 413),
            ("unknown member", {"to": "a", "message": "x", "too": "b"}, 400),
            ("to is a number", {"to": 5, "message": "x"}, 400),
            ("reply without from", {"reply_to": "msg_1", "message": "x"}, 400)])
    def test_malformed_letters_are_refused(self, body, status):
        # S4-26 S4-27
        a = self.session("a")
        with self.nothing_changes(a):
            self.assert_status(self.client.post("/v1/broadcast", body), status)

    def test_what_an_agent_is_told_of_the_tool(self):
        # S4-26 S4-27 S4-28
        tool = [t for t in self.client.get("/v1/tools")["items"] if t["name"] == "broadcast"][0]
        types = {name: property["type"] for name, property in tool["parameters"]["properties"].items()}
        self.assertLessEqual({"message": "string", "to": "string", "resume": "boolean"}.items(), types.items())
        self.assertEqual(tool["parameters"]["required"], ["message"])

    def test_a_full_inbox_takes_no_more(self):
        session = self.client.start("wait for job", alias="a", agent="a")["id"]
        for n in range(100):
            self.send("a", f"letter {n}")
        with self.nothing_changes(session):
            self.assert_problem(self.client.post("/v1/broadcast", {"to": "a", "message": "x"}), 409, "inbox_full")

    def test_a_letter_that_somebody_cannot_take_comes_back(self):
        b = self.client.start("wait for job", alias="b", agent="a")["id"]
        while self.client.post("/v1/broadcast", {"to": "b", "message": "x"}).status == 202:
            pass
        a = self.session("a", "tell all")
        back = kit.wait_until(lambda: self.presented(a) and self.inbox(a), "the letter to come back")
        self.assertEqual([m["from"] for m in back], ["the mailroom"])
        self.assertIn("b did not get this message", back[0]["text"])
        self.assertIn("messages that it has not seen", back[0]["text"])
        self.assertEqual(self.presented(a), {back[0]["message_id"]: 1})
        self.assertNotIn("note this", str(self.inbox(b)))

    def test_the_same_request_sends_once(self):
        a = self.session("a")
        key = {"Idempotency-Key": "letter-1"}
        body = {"to": "a", "message": "note this"}
        first = self.assert_status(self.client.post("/v1/broadcast", body, headers=key), 202)
        self.said(a, "noted")
        self.restart()
        again = self.client.post("/v1/broadcast", body, headers=key)
        self.assertEqual((again.json, again.headers["Idempotency-Replayed"]), (first.json, "true"))
        self.assertEqual(len(self.inbox(a)), 1)

    def test_what_it_takes(self):
        self.session("a")
        read, submit = self.token("read"), self.token("submit")
        body = {"to": "a", "message": "note this"}
        self.assert_problem(read.post("/v1/broadcast", body), 403, "forbidden")
        self.assert_status(submit.post("/v1/broadcast", body), 202)
        self.assert_problem(submit.post("/v1/broadcast", {**body, "from": "a"}), 403, "forbidden")

    def test_names_of_other_tasks_are_not_told(self):
        # T7
        self.session("hush-builder", agent="a", task_id="theirs")
        self.session("hush-deployer", agent="a")
        own = self.session("a", task_id="mine")
        mine = self.token("operate", ["mine"])
        body = {"message": "note this", "to": "nobody"}
        for more in ({"task_id": "theirs"}, {"task_id": "theirs", "from": "nobody"}, {"from": "nobody"},
                     {"task_id": "theirs", "from": "hush-builder"}, {"from": "hush-deployer"},
                     {"task_id": "theirs", "from": own}, {}):
            with self.subTest(more):
                answer = mine.post("/v1/broadcast", {**body, **more})
                self.assertIn(answer.status, (403, 404), answer)
                self.assertNotIn("known", answer.json)
                said = answer.body.replace(more.get("from", "nobody").encode(), b"")
                for word in (b"hush-b", b"hush-d", b"sess_"):
                    self.assertNotIn(word, said)
        known = self.assert_status(mine.post("/v1/broadcast", {**body, "from": own}), 404)
        self.assertEqual(known["known"], ["a"])
        known = self.assert_status(mine.post("/v1/broadcast", {**body, "from": "x", "task_id": "mine"}), 404)
        self.assertEqual(known["known"], ["a"])

    def test_the_command_line(self):
        # api 7: rouse send, rouse inbox
        import subprocess
        a = self.session("a")
        env = {**self.server.environment(), "ROUSE_URL": f"http://127.0.0.1:{self.server.port}",
               "ROUSE_TOKEN": self.server.token()}

        def rouse(*words):
            return subprocess.run([kit.BINARY, *words], env=env, capture_output=True, text=True, check=False)
        sent = rouse("send", "a", "note this")
        self.assertEqual((sent.returncode, sent.stdout.splitlines()[0]), (0, "a: woken"), sent)
        self.said(a, "noted")
        shown = rouse("inbox", a)
        self.assertIn("note this", shown.stdout)
        self.assertIn("seen", shown.stdout)
        wrong = rouse("send", "nobody", "x")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("Known agents: a", wrong.stderr)


class Replies(MailCase):
    def test_a_reply_marks_its_letter_and_goes_to_the_sender(self):
        # S4-37, lessons 2.4: reply_to beats to, marks the message handled, targets its sender, echoes the original
        a, mute = self.session("a"), self.session("mute")
        letter = self.send("mute", "what do you think", **{"from": "a"})["message_id"]
        self.said(mute, "I say nothing")
        answer = self.send("nobody", "the answer is yes", **{"from": "mute", "reply_to": letter})
        self.assertEqual([s["session_id"] for s in answer["delivered"]], [a])
        self.said(a, "I heard it")
        self.assertEqual([(m["presented"], m["handled"]) for m in self.inbox(mute)], [(True, True)])
        self.assertIn('in answer to your message ' + letter + ': "what do you think"',
                      self.records(a, "inbox.presented")[0]["text"])

    def test_an_unknown_letter_cannot_be_answered(self):
        a = self.session("a")
        with self.nothing_changes(a):
            self.assert_problem(self.client.post("/v1/broadcast", {
                "from": "a", "reply_to": "msg_01ZZZZZZZZZZZZZZZZZZZZZZZZ", "message": "x"}), 404, "unknown_message")

    def test_a_question_and_its_answer_are_one_turn(self):
        # design 10: broadcast(…, wait=true) parks the asker; the reply settles it
        self.session("b")
        a = self.session("a", "ask b and wait")
        self.said(a, "sent: the answer is 42")
        kinds = self.client.kinds(a)
        self.assertEqual((kinds.count("run.started"), kinds.count("run.waiting"), kinds.count("run.resumed")), (1, 1, 1))
        self.assertEqual(self.records(a, "run.waiting")[0]["wait_kind"], "message")

    def test_the_answer_by_reply_to_after_a_kill(self):
        a, mute = self.session("a"), self.client.start(alias="b", agent="a")["id"]
        # b is busy with something else when it is asked
        self.client.post(f"/v1/sessions/{mute}/messages?wait=10s", {"content": "wait for job"})
        self.client.post(f"/v1/sessions/{a}/messages?wait=10s", {"content": "ask b and wait"})
        self.assertEqual(self.client.session(a)["run"]["wait"]["kind"], "message")
        self.restart()
        letter = self.inbox(mute)[0]
        self.assertTrue(letter["asks"])
        self.send(None, "the answer is late", **{"from": mute, "reply_to": letter["message_id"]})
        self.said(a, "sent: the answer is late")

    def test_who_ends_without_an_answer_gives_its_last_words(self):
        self.session("mute")
        a = self.session("a", "ask mute and wait")
        self.said(a, "mute ended without an answer; its last words: I say nothing")

    def test_whoever_is_asked_and_deleted_is_gone(self):
        self.client.start("wait for job", alias="b", agent="a")
        b = self.client.get("/v1/aliases")["items"][0]["session_id"]
        a = self.session("a", "ask b and wait")
        self.client.delete(f"/v1/sessions/{b}")
        self.said(a, "b is gone")

    def at_once(self, acts):
        """Each with a client of its own; what they gave back, in their order."""
        start = threading.Barrier(len(acts))
        answers = [None] * len(acts)

        def go(number, act):
            client = self.server.client()
            start.wait()
            answers[number] = act(client)
        for join in [self.background(go, number, act) for number, act in enumerate(acts)]:
            join()
        return answers

    def test_whoever_is_deleted_meanwhile_does_not_end_the_senders_run(self):
        # known only at the commit, when both go to the disk together
        def remove(session):
            return lambda client: client.delete(f"/v1/sessions/{session}")

        def ask(task):
            body = {"agent": "a", "task_id": task, "message": "ask b"}
            return lambda client: client.post("/v1/sessions?wait=10s", body)

        for number in range(8):
            tasks = [f"of-{number}-{pair}" for pair in range(12)]
            asked = [self.client.start(alias="b", agent="mute", task_id=task)["id"] for task in tasks]
            answers = self.at_once([remove(one) for one in asked] + [ask(task) for task in tasks])
            ended = [answer["outcome"]["status"] for answer in answers[len(asked):]]
            self.assertEqual(ended, ["completed"] * len(tasks))

    def test_a_circle_of_waits_is_refused(self):
        # design 10: a wait that would close a circle is refused at once
        one = self.client.start(alias="one", agent="a")["id"]
        b = self.client.start("wait for job", alias="b", agent="a")["id"]
        self.client.post(f"/v1/sessions/{one}/messages?wait=10s", {"content": "ask b and wait"})
        self.client.patch(f"/v1/sessions/{one}", {"alias": "mute"})
        self.client.post(f"/v1/sessions/{b}/messages?wait=10s",
                         {"content": "ask mute and wait", "on_waiting": "supersede"})
        kit.wait_until(lambda: "answer it first" in (self.client.last_words(b) or ""), "the refusal")

    def go_at_once(self, orders):
        def send(session, order):
            return lambda client: client.post(f"/v1/sessions/{session}/messages", {"content": order})
        self.at_once([send(session, order) for session, order in orders])

    @every([("two", ("go", "ask back")), ("three", ("go",) * 3), ("four", ("round",) * 4)])
    def test_those_who_ask_each_other_at_once_all_come_to_an_end(self, orders):
        # design 10: who closes the circle is known only at the commit
        sessions = [self.session(name, task_id=f"of-{len(orders)}") for name in CIRCLE[:len(orders)]]
        for _ in range(15):
            self.go_at_once(list(zip(sessions, orders)))
            for session in sessions:
                self.client.wait_status(session, "idle")
        refused = [r for s in sessions for r in self.client.log(s) if "waits for an answer from here" in str(r)]
        self.assertGreater(len(refused), 0)

    def test_a_question_during_a_run_that_fails_has_a_run_of_its_own(self):
        frail = self.session("frail", "break", wait=None)
        self.client.wait_kind(frail, "run.started")
        a = self.session("a", "ask frail and wait")
        self.said(a, "its last words: here after all")
        self.assertEqual([m["presented"] for m in self.inbox(frail)], [True])

    def test_whoever_fails_at_a_question_says_so(self):
        self.session("frail")
        a = self.session("a", "ask the hopeless")
        self.said(a, "frail ended without an answer: ")

    def test_whoever_is_interrupted_for_good_does_not_keep_the_asker_waiting(self):
        # design 10: an end without a reply comes back as an error
        eternal = self.session("eternal")
        a = self.session("a", "ask eternal and wait", wait=None)
        for _ in range(3):
            self.client.wait_status(eternal, "running")
            self.restart()
        self.assertIs(self.client.session(eternal)["recovery"]["interruption"]["exhausted"], True)
        self.said(a, "eternal was interrupted and does not go on")

    def test_whoever_is_cancelled_over_a_question_has_ended(self):
        eternal = self.session("eternal")
        a = self.session("a", "ask eternal and wait", wait=None)
        self.client.wait_status(eternal, "running")
        self.assert_status(self.client.post(f"/v1/sessions/{eternal}/cancel"), 202)
        self.said(a, "eternal ended without an answer")
        self.assertEqual(self.client.session(eternal)["status"], "idle")

    def test_a_run_that_mail_woke_stays_cancelled(self):
        # S4-24 S4-36: who writes does not wait for the run that it wakes
        eternal = self.session("eternal")
        self.send("eternal", "hello")
        self.client.wait_status(eternal, "running")
        self.assert_status(self.client.post(f"/v1/sessions/{eternal}/cancel"), 202)
        self.assertEqual(self.client.session(eternal)["status"], "idle")
        self.assertEqual(self.client.kinds(eternal)[-2:], ["run.started", "run.cancelled"])
        # It is still there for the next run, and what comes now wakes again.
        self.assertEqual([m["presented"] for m in self.inbox(eternal)], [False])
        self.send("eternal", "hello again")
        self.client.wait_status(eternal, "running")


class Chains(MailCase):
    def stopped(self):
        return kit.wait_until(lambda: self.client.get("/v1/waits?kind=chain")["items"], "a stopped chain")

    def settled(self, *sessions):
        for session in sessions:
            self.client.wait_status(session, "idle")

    def test_two_that_wake_each_other_are_stopped(self):
        # S4-32
        one, two = self.session("one", agent="pair"), self.session("two", agent="pair")
        self.send("one", "left")
        row = self.stopped()[0]
        self.assertEqual((row["kind"], row["reason"]), ("chain", "hops"))
        self.settled(one, two)
        letters = self.inbox(one) + self.inbox(two)
        self.assertEqual({m["hops"] for m in letters}, set(range(10)))  # a busy one may answer the same twice
        self.assertEqual({m["stopped"] for m in letters if m["hops"] == 9}, {"hops"})
        self.assertEqual({m["stopped"] for m in letters if m["hops"] < 9}, {None})
        self.assertIn("chain", [w["kind"] for w in self.client.get("/v1/waits")["items"]])

    def test_three_in_a_ring_are_stopped_and_a_person_lets_them_go_on(self):
        sessions = [self.session(name) for name in RING]
        self.send("ping", "your turn")
        row = self.stopped()[0]
        self.settled(*sessions)
        self.restart()
        self.assertEqual(self.stopped()[0]["chain_id"], row["chain_id"])
        self.assert_status(self.client.post(f"/v1/chains/{row['chain_id']}/continue", {"hops": 3}), 202)
        self.restart()  # what lets it go on also wakes
        kit.wait_until(lambda: max(m["hops"] for s in sessions for m in self.inbox(s)) == 12, "three hops more")
        self.stopped()

    def test_a_chain_of_another_task_is_not_theirs_to_let_go_on(self):
        # T7: as if there were none
        one, two = (self.session(name, agent="pair", task_id="theirs") for name in ("one", "two"))
        self.send("one", "left", task_id="theirs")
        chain = self.stopped()[0]["chain_id"]
        self.settled(one, two)
        mine = self.token("operate", ["mine"])
        with self.nothing_changes(one), self.nothing_changes(two):
            refused = self.assert_problem(mine.post(f"/v1/chains/{chain}/continue"), 404, "not_found")
            unknown = self.assert_problem(mine.post("/v1/chains/msg_1/continue"), 404, "not_found")
            self.assertEqual(refused["detail"].replace(chain, ""), unknown["detail"].replace("msg_1", ""))
        self.assert_status(self.token("operate", ["mine", "theirs"]).post(f"/v1/chains/{chain}/continue"), 202)

    def test_chains_that_are_not_stopped_cannot_go_on(self):
        self.assert_problem(self.client.post("/v1/chains/msg_1/continue"), 404, "not_found")

    def test_a_person_starts_a_chain_of_its_own_each_time(self):
        one, two = self.session("one", agent="pair"), self.session("two", agent="pair")
        self.send("one", "left")
        self.stopped()
        self.settled(one, two)
        runs = self.client.kinds(one).count("run.started")
        self.send("one", "left")
        kit.wait_until(lambda: self.client.kinds(one).count("run.started") > runs, "another wake")


class Crashes(MailCase):
    def test_kill_9_right_after_the_letter_was_taken(self):
        # S4-43: killed between store and wake, the wake happens at the next boot, once
        a = self.session("a")
        for n in range(10):
            message = self.send("a", f"note this, round {n}")["message_id"]
            self.restart()
            kit.wait_until(lambda m=message: self.presented(a).get(m) == 1, "the letter to be shown")
            self.client.wait_status(a, "idle")
        self.assertEqual(set(self.presented(a).values()), {1})

    def test_an_answer_that_comes_at_once(self):
        # S4-43
        self.session("b", agent="swift")
        a = self.session("a")
        for n in range(1, 31):
            self.client.post(f"/v1/sessions/{a}/messages", {"content": "ask b"})
            kit.wait_until(lambda k=n: len(self.presented(a)) == k, "the answer")
            self.client.wait_status(a, "idle")
        self.assertEqual(set(self.presented(a).values()), {1})

    def test_a_fan_out_is_carried_on_after_a_kill(self):
        # design 10: then batches, idempotent by message id, driven again at boot
        sessions = [self.session(f"a{n}", agent="a") for n in range(150)]
        letter = self.send(None, "note this, everybody", resume=True)["message_id"]
        self.restart()
        for session in sessions:
            kit.wait_until(lambda s=session: self.presented(s) == {letter: 1}, "the letter to be shown")

    def test_ten_agents_write_to_all_others_over_kills(self):
        sessions = [self.session(f"a{n}", agent="a") for n in range(10)]
        acknowledged = []
        lock = threading.Lock()

        def write_to_all(n):
            body = {"from": sessions[n], "to": [f"a{m}" for m in range(10) if m != n], "message": f"note this: {n}"}
            headers = {"Idempotency-Key": f"round-{n}"}

            def sent():
                try:
                    return self.client.post("/v1/broadcast", body, headers=headers).status == 202
                except (OSError, kit.http.client.HTTPException):
                    return False
            kit.wait_until(sent, "the letter to be taken")
            with lock:
                acknowledged.append(n)
        joins = [self.background(write_to_all, n) for n in range(10)]
        for _ in range(3):
            kit.wait_until(lambda: len(acknowledged) > 0, "a first one")
            self.restart()
        for join in joins:
            join()

        def has_nine(session):
            # Whoever writes while it works on a letter goes on with the chain of that one, and a
            # chain wakes so many and no more: a person lets them go on.
            for chain in self.client.get("/v1/waits?kind=chain")["items"]:
                self.client.post(f"/v1/chains/{chain['chain_id']}/continue", {"hops": 10, "wakes": 100})
            return len(self.presented(session)) == 9
        for session in sessions:
            kit.wait_until(lambda s=session: has_nine(s), "nine letters")
            self.client.wait_status(session, "idle")
            self.assertEqual(set(self.presented(session).values()), {1})

    def test_an_interrupted_session_goes_on_with_its_mail(self):
        a = self.session("a", "use slow", wait=None)
        self.client.wait_kind(a, "tool.started")
        self.restart(self.make_setup(recovery={"resume": "off"}))
        answer = self.send("a", "note this")
        self.assertEqual(answer["delivered"][0]["action"], "stored")
        self.restart(self.make_setup())
        answer = self.send("a", "note this too")
        self.assertIn(answer["delivered"][0]["action"], ("woken", "queued"))
        self.said(a, "noted")
        self.assertEqual(sorted(self.presented(a).values()), [1, 1])
