"""Server-sent events: a snapshot or a replay, then live, without gap or repeat, over restarts too."""

import random
import threading

import kit
from kit import calls, every, on_result, on_user, says


class StreamCase(kit.Case):
    @classmethod
    def make_setup(cls, **sections):
        return kit.Setup(
            agents=[{"name": "helper", "tools": ["job"], "script": [
                on_user("go", calls(("job", {}, "call_j"))), on_user("think", says("thought", delay_ms=400)),
                on_user("hello", says("hello {{n}}")), on_result("job", says("{{result}}"))]}],
            tools=[{"name": "job", "kind": "external"}], **sections)

    def events(self, session, query="", **more):
        return self.stream(f"/v1/sessions/{session}/events{query}", **more)

    def say(self, session, text="hello"):
        answer = self.client.post(f"/v1/sessions/{session}/messages?wait=10s", {"content": text})
        self.assertEqual(answer.status, 200, answer)

    def wait_seq(self, stream, seq):
        kit.wait_until(lambda: stream.seqs() and stream.seqs()[-1] >= seq, f"seq {seq} in the stream")


class OneSession(StreamCase):
    def test_a_snapshot_comes_first_and_then_what_happens(self):
        # api 5
        session = self.client.start("hello")["id"]
        view = self.client.session(session)
        stream = self.events(session)
        self.assertEqual(stream.response.headers["Content-Type"], "text/event-stream")
        snapshot = stream.wait_for("snapshot")[0]
        self.assertEqual(stream.events[0], snapshot)
        self.assertEqual(snapshot.id, str(view["last_seq"]))
        self.assertEqual({k: snapshot.data[k] for k in view}, view)
        self.say(session)
        last = self.client.session(session)["last_seq"]
        self.wait_seq(stream, last)
        self.assertEqual(stream.seqs(), list(range(view["last_seq"] + 1, last + 1)))
        self.assertEqual(len([e for e in stream.events if e.kind == "snapshot"]), 1)
        self.assertGreater(stream.retry, 0)

    def test_from_seq_is_inclusive(self):
        session = self.client.start("hello")["id"]
        last = self.client.session(session)["last_seq"]
        for first in (0, 1, 3, last):
            stream = self.events(session, f"?from_seq={first}")
            self.wait_seq(stream, last)
            self.assertEqual(stream.seqs(), list(range(max(first, 1), last + 1)))
            self.assertNotIn("snapshot", [e.kind for e in stream.events])

    def test_last_event_id_is_exclusive_and_wins(self):
        session = self.client.start("hello")["id"]
        last = self.client.session(session)["last_seq"]
        stream = self.events(session, "?from_seq=1", last_event_id=3)
        self.wait_seq(stream, last)
        self.assertEqual(stream.seqs(), list(range(4, last + 1)))
        at_end = self.events(session, last_event_id=last)
        self.say(session)
        self.wait_seq(at_end, last + 1)
        self.assertEqual(at_end.seqs()[0], last + 1)

    def test_an_event_is_its_record(self):
        session = self.client.start("go", task_id="task-1")["id"]
        log = self.client.log(session)
        stream = self.events(session, "?from_seq=1")
        self.wait_seq(stream, log[-1]["seq"])
        for event, record in zip(stream.records(), log, strict=True):
            self.assertEqual((event.id, event.kind), (str(record["seq"]), record["kind"]))
            self.assertEqual(event.data, {"session_id": session, "task_id": "task-1", **record})

    def test_text_and_status_come_without_an_id(self):
        session = self.client.start()["id"]
        stream = self.events(session)
        stream.wait_for("status")  # from now on it is live
        self.say(session, "think")
        delta = stream.wait_for("delta")[0]
        self.assertEqual((delta.id, delta.data["text"], delta.data["session_id"]), (None, "thought", session))
        stream.wait_for("run.completed")
        kit.wait_until(lambda: stream.wait_for("status")[-1].data["status"] == "idle", "the last status")
        for event in stream.wait_for("status"):
            self.assertIsNone(event.id)
            self.assertEqual(event.data["session_id"], session)
        seen = [e.data["status"] for e in stream.events if e.kind == "status"]
        self.assertIn("running", seen)

    def test_waits_and_resumes_are_seen(self):
        # S3-67
        session = self.client.start()["id"]
        stream = self.events(session)
        stream.wait_for("snapshot")
        self.say(session, "go")
        stream.wait_for("run.waiting")
        pending = stream.wait_for("pending.created")[0].data["pending_id"]
        kit.wait_until(lambda: stream.wait_for("status")[-1].data["status"] == "waiting", "the status")
        self.client.result(pending)
        stream.wait_for("run.resumed")
        stream.wait_for("run.completed")

    def test_two_readers_see_the_same(self):
        session = self.client.start()["id"]
        streams = [self.events(session, "?from_seq=1") for _ in range(3)]
        for _ in range(3):
            self.say(session)
        last = self.client.session(session)["last_seq"]
        for stream in streams:
            self.wait_seq(stream, last)
            self.assertEqual(stream.seqs(), list(range(1, last + 1)))

    def test_a_reader_that_joins_in_the_middle_misses_nothing(self):
        # P7
        session = self.client.start()["id"]
        streams, done = [], threading.Event()

        def join_all():
            while not done.is_set() and len(streams) < 25:
                streams.append(kit.Stream(self.client, f"/v1/sessions/{session}/events?from_seq=1"))
        thread = threading.Thread(target=join_all, daemon=True)
        thread.start()
        for _ in range(12):
            self.say(session)
        done.set()
        thread.join()
        last = self.client.session(session)["last_seq"]
        for stream in streams:
            self.wait_seq(stream, last)
            self.assertEqual(stream.seqs(), list(range(1, last + 1)))
            stream.stop()

    def test_coming_back_with_the_last_id_over_kills_and_hang_ups(self):
        # P7: no gap and no repeat across reconnects and restarts
        seed = random.randrange(1 << 30)
        dice = random.Random(seed)
        session = self.client.start()["id"]
        seen, last_id = [], None
        for _ in range(5):
            stream = self.events(session, "?from_seq=1", last_event_id=last_id)
            for _ in range(dice.randint(1, 3)):
                self.say(session)
                if dice.random() < 0.4:
                    break
            if dice.random() < 0.5:
                self.wait_seq(stream, self.client.session(session)["last_seq"])
            if dice.random() < 0.6:
                self.restart()
            stream.stop()
            seen += stream.seqs()
            last_id = seen[-1] if seen else None
        last = self.client.session(session)["last_seq"]
        stream = self.events(session, "?from_seq=1", last_event_id=last_id)
        if last_id != last:
            self.wait_seq(stream, last)
        self.assertEqual(seen + stream.seqs(), list(range(1, last + 1)), f"seed {seed}")

    @every([("last id", "", 10**6), ("largest", "", 2**63 - 1), ("from_seq", "?from_seq=1000000", None)])
    def test_a_place_that_is_not_there_yet_is_as_none(self, query, last_id):
        # Or it would wait for a seq that may never come.
        session = self.client.start("hello")["id"]
        last = self.client.session(session)["last_seq"]
        stream = self.events(session, query, last_event_id=last_id)
        self.assertEqual(stream.wait_for("snapshot")[0].id, str(last))
        self.say(session)
        stream.wait_for("run.completed")
        self.assertEqual(stream.seqs(), list(range(last + 1, self.client.session(session)["last_seq"] + 1)))

    @every([("text", "x"), ("negative", "-1"), ("fraction", "1.5"), ("empty", "%20")])
    def test_malformed_places_are_refused(self, place):
        session = self.client.start()["id"]
        self.assert_problem(self.client.get(f"/v1/sessions/{session}/events?from_seq={place}"), 400, "invalid_request")
        if place != "%20":
            answer = self.client.get(f"/v1/sessions/{session}/events", headers={"Last-Event-ID": place})
            self.assert_problem(answer, 400, "invalid_request")

    def test_shutdown_ends_the_streams(self):
        session = self.client.start()["id"]
        stream = self.events(session)
        everything = self.stream("/v1/events")
        stream.wait_for("snapshot")
        self.assertEqual(self.server.stop(), 0)
        self.assertTrue(stream.closed.wait(5) and everything.closed.wait(5))


class AllSessions(StreamCase):
    def sequence(self, streams):
        """Every (session, seq) that the streams showed, in order."""
        return [(e.data["session_id"], e.data["seq"]) for stream in streams for e in stream.records()]

    def check(self, shown, sessions):
        """Each session's records are there once, in order, without a gap, from the first to the last."""
        for session in sessions:
            seqs = [seq for owner, seq in shown if owner == session]
            self.assertEqual(seqs, list(range(1, self.client.session(session)["last_seq"] + 1)), session)

    def wait_shown(self, streams, sessions):
        want = sum(self.client.session(s)["last_seq"] for s in sessions)

        def shown():
            return len([owner for owner, _ in self.sequence(streams) if owner in sessions])
        kit.wait_until(lambda: shown() >= want, "all of it")

    def test_it_shows_what_happens_from_now_on(self):
        # api 5
        before = self.client.start("hello")["id"]
        stream = self.stream("/v1/events")
        sessions = [self.client.start("hello", task_id="task-7")["id"] for _ in range(3)]
        self.wait_shown([stream], sessions)
        self.check(self.sequence([stream]), sessions)
        self.assertNotIn(before, [owner for owner, _ in self.sequence([stream])])
        self.assertEqual({e.data["task_id"] for e in stream.records()}, {"task-7"})
        ids = [e.id for e in stream.records()]
        self.assertEqual(len(ids), len(set(ids)))

    def test_a_cursor_goes_on_where_it_was(self):
        stream = self.stream("/v1/events")
        sessions = [self.client.start("hello")["id"] for _ in range(3)]
        self.wait_shown([stream], sessions)
        for event in stream.records():  # from any event, not only from the last of a commit
            again = self.stream("/v1/events", last_event_id=event.id)
            rest = self.sequence([stream])[stream.records().index(event) + 1:]
            if rest:
                kit.wait_until(lambda: len(again.records()) >= len(rest), "the rest")
            self.assertEqual(self.sequence([again]), rest)
            again.stop()

    def test_a_cursor_outlives_the_server(self):
        # P7
        first = self.stream("/v1/events")
        sessions = [self.client.start("go")["id"] for _ in range(2)]
        self.wait_shown([first], sessions)
        first.stop()
        missed = [self.client.start("hello")["id"] for _ in range(2)]
        self.restart()
        second = self.stream("/v1/events", last_event_id=first.last_id())
        self.wait_shown([first, second], sessions + missed)
        second.stop()
        for session in sessions:
            self.client.result(self.client.session(session)["pending"][0]["pending_id"], wait="10s")
        self.assertEqual(self.server.stop(), 0)
        self.server.start()
        self.client = self.server.client()
        third = self.stream("/v1/events", last_event_id=second.last_id())
        more = self.client.start("hello")["id"]
        everything = sessions + missed + [more]
        self.wait_shown([first, second, third], everything)
        self.check(self.sequence([first, second, third]), everything)

    def test_what_recovery_writes_is_shown_too(self):
        # S3-67: interruption events on boot
        first = self.stream("/v1/events")
        session = self.client.start("think", wait=None)["id"]
        self.wait_shown([first], [session])
        self.restart()
        self.client.wait_status(session, "idle")
        first.stop()
        second = self.stream("/v1/events", last_event_id=first.last_id())
        self.wait_shown([first, second], [session])
        self.check(self.sequence([first, second]), [session])
        self.assertIn("run.interrupted", [e.kind for e in second.records()])

    @every([("text", "x"), ("parts", "1.2"), ("too many", "1.2.3.4"), ("negative", "-1.0.0"), ("tail", "1.1.1-x")])
    def test_malformed_cursors_are_refused(self, cursor):
        self.assert_problem(self.client.get("/v1/events", headers={"Last-Event-ID": cursor}), 400, "invalid_request")

    def test_a_cursor_that_is_not_there_yet_gets_a_resync(self):
        first = self.stream("/v1/events")
        session = self.client.start("hello")["id"]
        self.wait_shown([first], [session])
        epoch, group, _ = first.last_id().split("-")[0].split(".")
        for cursor in (f"{epoch}.{int(group) + 100000}.0", f"{int(epoch) + 1}.0.0", f"{2**64 - 1}.{2**64 - 1}.{2**32 - 1}"):
            with self.subTest(cursor):
                stream = self.stream("/v1/events", last_event_id=cursor)
                stream.wait_for("resync")
                self.say(session)
                stream.wait_for("run.completed")
                self.assertEqual(stream.events[0].kind, "resync")

    @every([("one session", "/v1/sessions/{}/events"), ("all of them", "/v1/events")])
    def test_a_stream_ends_with_its_token(self, path):
        made = self.client.post("/v1/tokens", {"scope": "read"})
        session = self.client.start()["id"]
        theirs = self.stream(path.format(session), client=self.server.client(made["token"]))
        mine = self.stream(path.format(session))
        self.assert_status(self.client.delete(f"/v1/tokens/{made['id']}"), 204)
        self.assertTrue(theirs.closed.wait(kit.PATIENCE))
        self.say(session)
        mine.wait_for("run.completed")  # others go on
        self.assertNotIn("run.completed", [event.kind for event in theirs.events])

    def test_a_reader_of_one_task_sees_that_one(self):
        # T7
        reader = self.token("read", ["mine"])
        stream = self.stream("/v1/events", client=reader)
        other = self.client.start("hello", task_id="other")["id"]
        none = self.client.start("hello")["id"]
        mine = self.client.start("hello", task_id="mine")["id"]
        self.wait_shown([stream], [mine])
        self.assertEqual({owner for owner, _ in self.sequence([stream])}, {mine})
        stream.stop()
        again = self.stream("/v1/events", last_event_id=stream.records()[0].id, client=reader)
        kit.wait_until(lambda: len(again.records()) >= len(stream.records()) - 1, "the rest of them")
        self.assertEqual({owner for owner, _ in self.sequence([again])}, {mine})
        for session in (other, none):
            self.assert_problem(reader.get(f"/v1/sessions/{session}/events"), 404, "not_found")


    def test_the_reader_of_one_task_sees_its_sessions_go(self):
        reader = self.token("read", ["leaving"])
        stream = self.stream("/v1/events", client=reader)
        everything = self.stream("/v1/events")
        session = self.client.start("hello", task_id="leaving")["id"]
        self.wait_shown([stream], [session])
        self.client.delete(f"/v1/sessions/{session}")
        for seen in (stream, everything):
            gone = seen.wait_for("session.deleted")[0]
            self.assertEqual((gone.data["session_id"], gone.data["task_id"]), (session, "leaving"))
        shown = self.sequence([stream])
        for restarted in (False, True):  # what it said before it went is replayed, too
            if restarted:
                self.restart()
                reader = self.server.client(reader.token)
            again = self.stream("/v1/events", last_event_id=stream.records()[0].id, client=reader)
            again.wait_for("session.deleted")
            self.assertEqual(self.sequence([again]), shown[1:])


class SlowReaders(StreamCase):
    @classmethod
    def make_setup(cls):
        return super().make_setup(limits={"stream_events": 32, "stream_bytes": "64KiB"})

    @every([("one session", "/v1/sessions/{}/events"), ("all of them", "/v1/events")])
    def test_a_record_that_is_longer_than_the_buffer_reaches_whoever_keeps_up(self, path):
        session = self.client.start()["id"]
        stream = self.stream(path.format(session))
        two = [{"type": "text", "text": "hello " + "x" * 100_000} for _ in range(2)]
        for count, content in ((1, "hello " + "x" * 200_000), (2, two)):
            self.client.post(f"/v1/sessions/{session}/messages", {"content": content})
            stream.wait_for("run.completed", count)
        self.assertFalse([event for event in stream.events if event.kind == "overrun"])

    @every([("one session", "/v1/sessions/{}/events"), ("all of them", "/v1/events")])
    def test_a_reader_that_is_too_slow_is_told_and_sent_away(self, path):
        # api 5: overrun
        session = self.client.start()["id"]
        reader = kit.SlowReader(self.client, path.format(session))
        self.addCleanup(reader.stop)
        text = "hello " + "x" * 60000
        for _ in range(60):
            self.client.post(f"/v1/sessions/{session}/messages", {"content": text})
        kit.wait_until(lambda: self.client.session(session)["status"] == "idle", "the work to be done")
        received = reader.read_all()
        self.assertIn(b"event: overrun\n", received)
        self.assertTrue(received.rstrip().endswith(b"data: {}"), received[-200:])
        # Others are not disturbed, and it can come back with its last id.
        ids = [line.split(b": ")[1] for line in received.split(b"\n") if line.startswith(b"id: ")]
        if b"sessions" in path.encode() and ids:
            last = self.client.session(session)["last_seq"]
            again = self.events(session, last_event_id=ids[-1].decode())
            self.wait_seq(again, last)
            self.assertEqual(again.seqs(), list(range(int(ids[-1]) + 1, last + 1)))
