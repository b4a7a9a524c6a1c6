"""start_session: a session that works for another one, and comes back to it exactly once."""

import re
import signal

import kit
from kit import calls, every, on_result, on_user, says

AGENTS = ("boss", "worker")


def delegate(message, **more):
    return calls(("start_session", {"agent": "worker", "message": message, **more}, "call_s"))


def setup(extra=(), **sections):
    boss = [
        *extra,
        on_user("give work", delegate("work")),
        on_user("give job", delegate("use job")),
        on_user("give nonsense", delegate("nonsense")),
        on_user("give thought", delegate("think")),
        on_user("give eternity", delegate("for ever")),
        on_user("give doubt", delegate("ask the boss")),
        on_user("which way", says("left")),
        on_user("no waiting", delegate("use job", wait=False)),
        on_user("start and ask", calls(("start_session", {"agent": "worker", "message": "use job", "wait": False}),
                                       ("ask_user", {"question": "well?", "type": "confirm"}))),
        on_user("two at once", calls(("start_session", {"agent": "worker", "message": "work"}, "call_1"),
                                     ("start_session", {"agent": "worker", "message": "use job"}, "call_2"))),
        on_user("many", calls(*[("start_session", {"agent": "worker", "message": "use job"}) for _ in range(24)])),
        on_user("nobody", calls(("start_session", {"agent": "no_such", "message": "work"}))),
        on_user("unknown session", delegate("work", session_id="sess_" + "0" * 26)),
        on_result("start_session", says("{{result}}")),
        on_user("say hello", says("hello")),
    ]
    worker = [
        on_user("work", says("the work is done")),
        on_user("think", says("thought", delay_ms=500)),
        on_user("for ever", says("never", delay_ms=30000)),
        on_user("use job", calls(("job", {}, "call_j"))), on_user("say hello", says("hello")),
        on_user("ask the boss", calls(("broadcast", {"message": "which way", "to": "boss", "wait": True}, "call_b"))),
        on_result("job", says("job: {{result}}")), on_result("broadcast", says("{{result}}")),
    ]
    wanderer = [
        on_user("go", delegate("use job", wait=False)),
        on_result("start_session", says("thought about it", delay_ms=30000)),
    ]
    deep = [
        on_user("dig", calls(("start_session", {"agent": "deep", "message": "dig"}))),
        on_result("start_session", says("{{result}}")),
    ]
    return kit.Setup(
        agents=[{"name": "boss", "script": boss, "tools": ["start_session", "ask_user"]},
                {"name": "worker", "script": worker, "tools": ["job", "broadcast"]},
                {"name": "wanderer", "script": wanderer, "tools": ["start_session"]},
                {"name": "deep", "script": deep, "tools": ["start_session"]}],
        tools=[{"name": "job", "kind": "external"}], **sections)


class Children(kit.Case):
    setup = setup()

    def children(self, parent):
        return [s["id"] for s in self.client.get(f"/v1/sessions?parent={parent}")["items"]]

    def child(self, parent):
        found = kit.wait_until(lambda: self.children(parent), "a child")
        self.assertEqual(len(found), 1)
        return found[0]

    def test_a_fork_does_not_start_the_child_again(self):
        # design 6: a fork copies what was said, not what was done
        parent = self.client.start("start and ask")["id"]
        child = self.child(parent)
        fork = self.assert_status(self.client.post(f"/v1/sessions/{parent}/fork", {}), 201)["id"]
        self.assertEqual(self.children(fork), [])
        self.assertEqual(self.children(parent), [child])
        self.assertEqual(self.client.kinds(child).count("run.started"), 1)

    def words(self, session):
        self.client.wait_status(session, "idle")
        return self.client.last_words(session)

    def give_job(self, message="give job", **fields):
        """A parent that waits for a child that waits for a call: (parent, child, pending id)."""
        parent = self.client.start(message, **fields)["id"]
        child = self.child(parent)
        view = self.client.wait_status(child, "waiting")
        return parent, child, view["pending"][0]["pending_id"]

    def test_a_parent_that_is_told_to_end_ends_its_child(self):
        # design 10: cancelling a parent cancels its open children, in both kinds of cancel
        for mode in ("discard", "acknowledge"):
            parent, child, _ = self.give_job()
            self.assert_status(self.client.post(f"/v1/sessions/{parent}/cancel", {"mode": mode}), 202)
            self.client.wait_status(parent, "idle")
            self.client.wait_kind(child, "run.cancelled")

    def test_a_kill_between_the_parent_and_its_children_leaves_none_open(self):
        # P4, design 10: told to end, a parent goes on, and nobody waits for its children any more
        parent = self.client.start("many")["id"]
        kit.wait_until(lambda: {self.client.session(s)["status"] for s in self.children(parent)} == {"waiting"},
                       "all of them to wait")
        children = self.children(parent)
        self.assertEqual(len(children), 24)
        told = self.stream("/v1/events")
        self.background(self.client.post, f"/v1/sessions/{parent}/cancel", {"mode": "acknowledge"})
        told.wait_for("run.cancelled")
        self.restart()
        for session in (parent, *children):
            self.client.wait_status(session, "idle")
        self.assertEqual({self.count(s, "run.cancelled") for s in children}, {1})

    def test_what_a_parent_asks_for_after_it_was_told_to_end_is_done(self):
        # A child that the parent asks again, while the cancel goes from one to the next.
        parent = self.client.start("many")["id"]
        kit.wait_until(lambda: {self.client.session(s)["status"] for s in self.children(parent)} == {"waiting"},
                       "all of them to wait")
        last = self.children(parent)[0]  # newest first
        self.reload({"when": {"tool_result": "start_session"}, **delegate("work", session_id=last)})
        answer = self.client.post(f"/v1/sessions/{parent}/cancel?wait=20s", {"mode": "acknowledge"})
        self.assert_status(answer, 200)
        self.client.wait_status(parent, "idle")
        self.assertIn("the work is done", self.client.last_words(parent))
        self.assertEqual([self.count(last, kind) for kind in ("run.cancelled", "run.completed")], [1, 1])

    def reload(self, *extra):
        self.server.setup = setup(extra=extra)
        self.server.setup.write(self.server.folder)
        before = len(self.server.events("config.reloaded"))
        self.server.signal(signal.SIGHUP)
        kit.wait_until(lambda: len(self.server.events("config.reloaded")) > before, "the new configuration")

    def test_what_stands_in_line_for_a_parent_that_was_told_to_end_is_not_done(self):
        # Two questions to one child; the second is queued there, and nobody waits for it any more.
        for killed in (False, True):
            parent = self.client.start("give work")["id"]
            child = self.child(parent)
            self.words(parent)
            both = [("start_session", {"agent": "worker", "message": "use job", "session_id": child}) for _ in range(2)]
            self.reload({"when": {"user": "ask twice"}, **calls(*both)})
            self.client.post(f"/v1/sessions/{parent}/messages?wait=10s", {"content": "ask twice"})
            self.client.wait_status(child, "waiting")
            self.assertEqual(self.client.session(child)["queued"], 1)
            path = f"/v1/sessions/{parent}/cancel"
            if killed:
                told = self.stream(f"/v1/sessions/{parent}/events")
                told.wait_for("snapshot")
                self.background(self.client.post, path, {"mode": "acknowledge"})
                told.wait_for("run.resumed")
                self.restart()
            else:
                self.assert_status(self.client.post(path, {"mode": "acknowledge"}), 202)
            self.client.wait_status(parent, "idle")
            self.client.wait_kind(child, "run.cancelled", 2)
            view = self.client.session(child)
            self.assertEqual((view["status"], view["queued"]), ("idle", 0))

    def test_a_child_does_not_wait_for_the_parent_that_waits_for_it(self):
        # design 10: a wait that would close a circle is refused at once
        parent = self.client.start("give doubt", task_id="of-doubt", alias="boss")["id"]
        self.assertIn("answer it first", self.words(parent))

    def count(self, session, kind):
        return self.client.kinds(session).count(kind)

    def test_the_parent_goes_on_when_the_child_has_completed(self):
        # S4-07 S4-10 S4-11 S4-33, design 10 Children
        parent = self.client.start("give work", task_id="task-1", wait=None)["id"]
        child = self.child(parent)
        self.assertTrue(self.words(parent).startswith("the work is done"))
        self.assertRegex(self.words(parent).rstrip(),
                         r"<task_metadata>\s*session_id: " + child + r"\s*</task_metadata>$")
        view = self.client.session(child)
        call = [p for e in self.client.transcript(parent) for p in e["parts"]][0]
        self.assertEqual(view["parent"], {"session_id": parent, "run_id": self.client.session(parent)["run"]["run_id"],
                                          "call_id": call["call_id"]})
        self.assertEqual((view["task_id"], view["agent"]), ("task-1", "worker"))
        self.assertEqual([self.count(s, "run.completed") for s in (parent, child)], [1, 1])
        self.assertEqual(self.count(parent, "run.resumed"), 1)

    def test_a_child_that_waits_is_no_end(self):
        # S2-54, design 10 Children
        parent, child, pending = self.give_job()
        view = self.client.session(parent)
        self.assertEqual((view["status"], view["run"]["wait"]["kind"]), ("waiting", "child"))
        self.assertEqual(view["pending"][0]["waits_for"], "child")
        self.client.result(pending, "r")
        self.assertTrue(self.words(parent).startswith("job: r"))

    def test_kill_9_while_both_wait(self):
        parent, child, pending = self.give_job()
        self.restart()
        self.assertEqual([self.client.session(s)["status"] for s in (parent, child)], ["waiting"] * 2)
        self.client.result(pending, "r")
        self.assertTrue(self.words(parent).startswith("job: r"))
        self.assertEqual(self.children(parent), [child])

    def test_kill_9_while_the_child_works(self):
        parent = self.client.start("give thought", wait=None)["id"]
        child = self.child(parent)
        self.restart()
        self.assertTrue(self.words(parent).startswith("thought"))
        self.assertEqual(self.count(child, "run.interrupted"), 1)
        kinds = ("run.interrupted", "run.resumed", "run.completed")
        self.assertEqual([self.count(parent, kind) for kind in kinds], [0, 1, 1])
        self.assertEqual(self.children(parent), [child])

    def test_an_interrupted_child_is_waited_for_until_it_goes_on(self):
        parent = self.client.start("give thought", wait=None)["id"]
        child = self.child(parent)
        self.restart(setup(recovery={"resume": "off"}))
        self.assertEqual(self.client.session(child)["status"], "interrupted_startup")
        self.assertEqual(self.client.session(parent)["status"], "waiting")
        self.client.post(f"/v1/sessions/{child}/continue")
        self.assertTrue(self.words(parent).startswith("thought"))

    def test_a_child_that_is_interrupted_for_good_ends_the_wait(self):
        # design 10 Children: "or interrupted for good"
        parent = self.client.start("give eternity", wait=None)["id"]
        child = self.child(parent)
        for _ in range(3):
            self.client.wait_status(child, "running")
            self.restart()
        self.assertIs(self.client.session(child)["recovery"]["interruption"]["exhausted"], True)
        kit.wait_until(lambda: self.client.session(parent)["status"] == "idle", "the parent to go on", patience=2)
        self.assertIn("interrupted", self.client.last_words(parent))

    def test_kill_9_at_any_time_leaves_one_child_each_and_all_complete(self):
        # P2: one commit over both sessions
        parents = []
        for attempt in range(3):
            for _ in range(6):
                parents.append(self.client.start("give work", wait=None)["id"])
            kit.wait_until(lambda: self.client.session(parents[-6])["last_seq"] >= 4 + 2 * attempt, "some progress")
            self.restart()
        for parent in parents:
            self.assertTrue(self.words(parent).startswith("the work is done"), parent)
            child = self.child(parent)
            self.assertEqual([self.count(parent, "run.resumed"), self.count(child, "run.completed")], [1, 1])

    def test_a_child_that_fails_is_an_error_to_the_parent(self):
        parent = self.client.start("give nonsense", wait=None)["id"]
        self.assertIn("failed", self.words(parent))
        child = self.child(parent)
        self.assertEqual(self.client.session(child)["run"]["outcome"], "failed")
        self.assertIn(child, self.words(parent))
        part = [p for e in self.client.transcript(parent) for p in e["parts"]][0]
        self.assertEqual(part["state"]["status"], "error")

    @every([("cancelled", "cancel", "cancelled"), ("deleted", "delete", "deleted")])
    def test_a_child_that_is_ended_is_an_error_to_the_parent(self, how, verb):
        parent, child, pending = self.give_job()
        if how == "delete":
            self.assert_status(self.client.delete(f"/v1/sessions/{child}"), 204)
        else:
            self.assert_status(self.client.post(f"/v1/sessions/{child}/cancel"), 202)
        self.assertIn(verb, self.words(parent))

    @every([("cancelled", lambda c, p: c.post(f"/v1/sessions/{p}/cancel")),
            ("deleted", lambda c, p: c.delete(f"/v1/sessions/{p}")),
            ("superseded", lambda c, p: c.post(f"/v1/sessions/{p}/messages", {"content": "say hello"}))])
    def test_what_ends_the_parents_run_cancels_the_child(self, end):
        parent, child, pending = self.give_job()
        self.assertIn(end(self.client, parent).status, (202, 204))
        view = self.client.wait_status(child, "idle")
        self.assertEqual(view["run"]["outcome"], "cancelled")
        self.assert_problem(self.client.result(pending), 410, "not_waiting")

    def test_a_running_child_is_cancelled_too(self):
        parent = self.client.start("give eternity", wait=None)["id"]
        child = self.child(parent)
        self.client.wait_status(child, "running")
        self.assert_status(self.client.post(f"/v1/sessions/{parent}/cancel"), 202)
        self.assertEqual(self.client.wait_status(child, "idle")["run"]["outcome"], "cancelled")

    def test_a_run_that_goes_on_gives_up_what_the_interrupted_one_asked_for(self):
        parent = self.client.start("go", agent="wanderer", wait=None)["id"]
        child = self.child(parent)
        pending = self.client.wait_status(child, "waiting")["pending"][0]["pending_id"]
        self.after_boot()
        self.client.wait_status(parent, "running")
        self.assertEqual((self.count(parent, "run.started"), self.client.session(child)["status"]), (2, "waiting"))
        self.assert_status(self.client.post(f"/v1/sessions/{parent}/cancel"), 202)
        self.assertEqual(self.client.wait_status(child, "idle")["run"]["outcome"], "cancelled")
        self.assert_problem(self.client.result(pending), 410, "not_waiting")

    def test_cancelling_the_call_goes_on_without_the_child(self):
        parent, child, pending = self.give_job()
        call = self.client.session(parent)["pending"][0]["pending_id"]
        self.assert_status(self.client.delete(f"/async-tool/pending/{call}"), 200)
        self.assertIn("Cancelled by user", self.words(parent))

    def after_boot(self, setup=None):
        """A new process that has gone through all that it found."""
        self.restart(setup)
        kit.wait_until(lambda: self.server.events("boot.continued"), "the boot to be through")

    @every([("cancelled", lambda c, p: c.post(f"/v1/sessions/{p}/cancel")),
            ("deleted", lambda c, p: c.delete(f"/v1/sessions/{p}")),
            ("superseded", lambda c, p: c.post(f"/v1/sessions/{p}/messages", {"content": "say hello"}))])
    def test_a_child_that_a_person_goes_on_with_is_not_given_up_by_a_boot(self, end):
        parent, child, _ = self.give_job()
        end(self.client, parent)
        self.client.wait_status(child, "idle")
        self.client.post(f"/v1/sessions/{child}/messages?wait=10s", {"content": "use job"})
        pending = self.client.wait_status(child, "waiting")["pending"][0]["pending_id"]
        self.after_boot()
        self.client.result(pending, "r", wait="10s")
        self.assertEqual(self.client.last_words(child), "job: r")

    def test_a_child_that_a_later_run_goes_on_with_is_that_runs(self):
        parent, child, _ = self.give_job()
        self.client.post(f"/v1/sessions/{parent}/cancel")
        self.client.wait_status(child, "idle")
        self.restart(setup(extra=[on_user("go on", delegate("use job", session_id=child))]))
        self.client.post(f"/v1/sessions/{parent}/messages", {"content": "go on"})
        pending = self.client.wait_status(child, "waiting")["pending"][0]["pending_id"]
        run = self.client.session(parent)["run"]["run_id"]
        self.assertEqual([r.get("parent_run") for r in self.client.log(child) if r["kind"] == "run.started"],
                         [None, run])
        self.after_boot()
        self.assertEqual([self.client.session(s)["status"] for s in (parent, child)], ["waiting"] * 2)
        # What that run gives up is cancelled, though it was not the first to ask.
        self.client.post(f"/v1/sessions/{parent}/cancel")
        self.assertEqual(self.client.wait_status(child, "idle")["run"]["outcome"], "cancelled")
        self.assert_problem(self.client.result(pending), 410, "not_waiting")

    def test_a_child_that_a_person_goes_on_with_outlives_its_parents_run(self):
        parent, child, _ = self.give_job()
        self.client.post(f"/v1/sessions/{child}/messages?wait=10s", {"content": "use job"})  # supersedes
        pending = self.client.wait_status(child, "waiting")["pending"][0]["pending_id"]
        other = self.give_job()  # is cancelled after the first one, and seen to be
        for session in (parent, other[0]):
            self.assert_status(self.client.post(f"/v1/sessions/{session}/cancel"), 202)
        self.client.wait_status(other[1], "idle")
        self.client.result(pending, "r", wait="10s")
        self.assertEqual(self.client.last_words(child), "job: r")

    def test_a_boot_does_not_go_on_with_a_child_that_nobody_wants(self):
        parent = self.client.start("give eternity", wait=None)["id"]
        child = self.child(parent)
        self.after_boot(setup(recovery={"resume": "off"}))
        self.client.post(f"/v1/sessions/{parent}/cancel")
        self.after_boot(setup(recovery={"resume": "all"}))
        self.assertEqual(self.client.session(child)["status"], "idle")
        self.assertEqual(self.client.kinds(child)[-2:], ["run.started", "run.cancelled"])
        self.client.post(f"/v1/sessions/{child}/messages?wait=10s", {"content": "work"})  # but a person may
        self.assertEqual(self.client.last_words(child), "the work is done")

    def test_no_waiting(self):
        parent = self.client.start("no waiting")
        self.assertEqual(parent["outcome"]["status"], "completed")
        child = self.child(parent["id"])
        self.assertIn(child, self.client.last_words(parent["id"]))
        view = self.client.wait_status(child, "waiting")
        self.client.result(view["pending"][0]["pending_id"], "r", wait="10s")
        self.assertEqual(self.client.last_words(child), "job: r")
        self.assertEqual(self.count(parent["id"], "run.started"), 1)

    def test_a_finished_parent_that_is_removed_leaves_its_child_alone(self):
        parent, child, pending = self.give_job("no waiting")
        self.client.wait_status(parent, "idle")
        self.assert_status(self.client.delete(f"/v1/sessions/{parent}"), 204)
        other = self.give_job()  # given up after it, and seen to be
        self.client.delete(f"/v1/sessions/{other[0]}")
        self.client.wait_status(other[1], "idle")
        self.after_boot()
        self.client.result(pending, "r", wait="10s")
        self.assertEqual(self.client.last_words(child), "job: r")

    def test_two_children_of_one_batch(self):
        parent = self.client.start("two at once", wait=None)["id"]
        kit.wait_until(lambda: len(self.children(parent)) == 2, "two children")
        waiting = kit.wait_until(lambda: [c for c in self.children(parent)
                                          if self.client.session(c)["status"] == "waiting"], "the one that waits")[0]
        other = [c for c in self.children(parent) if c != waiting][0]
        self.client.wait_status(other, "idle")
        self.assertEqual(self.client.session(parent)["status"], "waiting")
        pending = self.client.session(waiting)["pending"][0]["pending_id"]
        self.client.result(pending, "r")
        self.client.wait_status(parent, "idle")
        parts = [p["state"]["output"] for e in self.client.transcript(parent) for p in e["parts"]]
        self.assertEqual([re.split(r"\n|<", text)[0].strip() for text in parts], ["the work is done", "job: r"])

    def test_a_known_session_is_continued(self):
        # S4-07 S4-08 S4-09 S4-11 S4-35
        parent = self.client.start("give work")["id"]
        child = self.child(parent)
        self.words(parent)
        again = on_user("go on", delegate("work", session_id=child))
        self.restart(setup(extra=[again]))
        self.client.post(f"/v1/sessions/{parent}/messages", {"content": "go on"})
        self.client.wait_status(parent, "idle", patience=4)
        self.assertTrue(self.words(parent).startswith("the work is done"))
        self.assertEqual(self.children(parent), [child])
        self.assertEqual([self.count(child, k) for k in ("run.completed", "message.user")], [2, 2])

    def test_a_child_is_active_while_it_has_something_to_do(self):
        # S4-16 S4-17 S4-18
        def row():
            return [r for r in self.client.get("/v1/aliases")["items"] if r["session_id"] == child][0]
        parent, child, pending = self.give_job()
        self.client.patch(f"/v1/sessions/{child}", {"alias": "busy"})
        self.assertEqual(row()["status"], "active")
        self.client.result(pending, "r")
        self.words(parent)
        idle = row()
        self.assertEqual(idle["status"], "idle")
        self.restart(setup(extra=[on_user("go on", delegate("use job", session_id=child))]))
        self.client.post(f"/v1/sessions/{parent}/messages", {"content": "go on"})
        again = self.client.wait_status(child, "waiting")["pending"][0]["pending_id"]
        self.assertEqual(row()["status"], "active")
        self.client.result(again, "r")
        self.words(parent)
        self.assertEqual(row()["status"], "idle")
        self.assertGreater(row()["last_activity"], idle["last_activity"])

    def test_several_calls_that_go_on_with_one_child_are_all_answered(self):
        parent = self.client.start("give work")["id"]
        child = self.child(parent)
        self.words(parent)
        again = [("start_session", {"message": "use job", "session_id": child}, f"call_{n}") for n in range(3)]
        self.restart(setup(extra=[on_user("go on", calls(*again))]))
        self.client.post(f"/v1/sessions/{parent}/messages", {"content": "go on"})
        # One run for the first, and one for those that came while it was under way.
        for answer, left in (("first", 2), ("second", 0)):
            pending = self.client.wait_status(child, "waiting")["pending"][0]["pending_id"]
            self.client.result(pending, answer, wait="10s")
            kit.wait_until(lambda: len(self.client.session(parent)["pending"]) == left, f"{left} open calls")
        self.client.wait_status(parent, "idle")
        parts = [p["state"]["output"] for e in self.client.transcript(parent) for p in e["parts"]][-3:]
        self.assertEqual([text.split("\n")[0] for text in parts], ["job: first", "job: second", "job: second"])

    def test_a_message_that_the_child_has_not_read_is_not_answered_by_the_run_before(self):
        parent = self.client.start("give work")["id"]
        child = self.child(parent)
        self.words(parent)
        self.restart(setup(extra=[on_user("go on", delegate("work", session_id=child))]))
        self.client.post(f"/v1/sessions/{child}/messages?wait=10s", {"content": "use job"})
        pending = self.client.wait_status(child, "waiting")["pending"][0]["pending_id"]
        self.client.post(f"/v1/sessions/{parent}/messages?wait=10s", {"content": "go on"})
        self.client.result(pending, "for a person", wait="10s")
        self.assertTrue(self.words(parent).startswith("the work is done"))

    def test_parent_and_child_do_not_wake_one_another_for_ever(self):
        # design 10: 8 hops, whoever is in the chain
        def talking(child):
            boss = [on_user("ping", delegate("report", session_id=child, wait=False))]
            made = setup(extra=boss)
            made.agents[1]["tools"] = ["job", "broadcast"]
            made.agents[1]["script"] += [on_user("report", calls(("broadcast", {"message": "ping", "to": "chief"}))),
                                         on_result("broadcast", says("reported"))]
            return made
        task = self.client.post("/v1/tasks", {"title": "Talk"})["id"]
        parent = self.client.start("give work", alias="chief", task_id=task)["id"]
        child = self.child(parent)
        self.words(parent)
        self.restart(talking(child))
        self.client.post(f"/v1/sessions/{parent}/messages", {"content": "ping"})
        received = kit.wait_until(lambda: [r for r in self.client.log(parent) if r.get("stopped")], "the limit")
        self.assertEqual(received[0]["stopped"], "hops")
        self.client.wait_status(child, "idle")
        self.client.wait_status(parent, "idle")

    def test_an_unknown_session_is_a_new_one(self):
        # S4-08
        parent = self.client.start("unknown session", wait=None)["id"]
        self.assertTrue(self.words(parent).startswith("the work is done"))
        self.assertNotEqual(self.child(parent), "sess_" + "0" * 26)

    def test_a_session_of_somebody_else_is_not_continued(self):
        # T7: an agent must not reach into sessions that are not its own
        stranger = self.client.start("work", agent="worker")["id"]
        reach = on_user("reach", delegate("work", session_id=stranger))
        self.restart(setup(extra=[reach]))
        before = self.client.log(stranger)
        parent = self.client.start("reach", wait=None)["id"]
        self.words(parent)
        self.assertEqual(self.client.log(stranger), before)
        self.assertNotEqual(self.child(parent), stranger)

    def test_an_unknown_agent_is_an_error_that_names_the_known_ones(self):
        parent = self.client.start("nobody")
        self.assertEqual(parent["outcome"]["status"], "completed")
        for name in AGENTS:
            self.assertIn(name, self.client.last_words(parent["id"]))
        self.assertEqual(self.children(parent["id"]), [])

    def test_sessions_start_one_another_five_deep(self):
        # design 10: depth ≤ 5
        top = self.client.start("dig", agent="deep", wait=None)["id"]
        self.client.wait_status(top, "idle")
        depth, session = 0, top
        while found := self.children(session):
            session, depth = found[0], depth + 1
        self.assertEqual(depth, 5)
        self.assertIn("deep", self.client.last_words(session))

    def test_a_child_is_a_session_like_others(self):
        parent, child, pending = self.give_job()
        listed = self.client.get(f"/v1/sessions?parent={parent}")["items"][0]
        self.assertEqual((listed["id"], listed["parent"]), (child, parent))
        self.assertEqual(self.client.get(f"/v1/sessions?parent={child}")["items"], [])
        self.client.result(pending, wait="10s")
        self.client.wait_status(parent, "idle")
        answer = self.client.post(f"/v1/sessions/{child}/messages?wait=10s", {"content": "work"})
        self.assertEqual(answer["outcome"]["status"], "completed")
        self.assertEqual(self.count(parent, "run.started"), 1, "a later run of the child is not the parent's business")

    def test_a_child_that_got_another_message_meanwhile_still_answers(self):
        # A superseded run is no end: the session works on.
        parent, child, pending = self.give_job()
        self.client.post(f"/v1/sessions/{child}/messages?wait=10s", {"content": "work"})
        self.assertTrue(self.words(parent).startswith("the work is done"))
