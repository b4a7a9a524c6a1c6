"""Lists of pending calls, page by page: the settled ones, and what those see who may not see all."""

import http.client

import kit
from kit import calls, on_result, on_user, says

MANY = 400  # calls of one turn


class ListCase(kit.Case):
    fresh = True  # the pages of other tests' calls would come between
    setup = kit.Setup(
        agents=[{"name": "helper", "tools": ["job", "other"], "script": [
            on_user("many", calls(*[("job", {"n": n}, f"call_{n}") for n in range(MANY)])),
            on_user("other", calls("other")), on_user("go", calls(("job", {"n": 7}, "call_go"))),
            on_result("job", says("{{result}}")), on_result("other", says("{{result}}"))]}],
        tools=[{"name": "job", "kind": "external"}, {"name": "other", "kind": "external"}])

    def pages(self, query, client=None):
        """The pages of a list, one after the other."""
        cursor = ""
        while cursor is not None:
            behind = f"&cursor={cursor}" if cursor else ""
            answer = (client or self.client).get(f"/async-tool/pending?{query}{behind}")
            self.assertEqual(self.assert_status(answer, 200)["count"], len(answer["pending"]))
            yield answer["pending"]
            cursor = answer["next_cursor"]

    def ids(self, query, client=None):
        return [call["id"] for page in self.pages(query, client) for call in page]

    def suspend(self, message="go", **fields):
        return self.client.start(message, **fields)["pending"][0]["pending_id"]

    def settle(self, message="go", **fields):
        """A session whose call has a result; the call's id."""
        pending = self.suspend(message, **fields)
        self.assert_status(self.client.result(pending, f"result of {pending}", wait="10s"), 200)
        return pending


class Settled(ListCase):
    def test_pages_cover_all_of_them_once(self):
        made = [self.settle() for _ in range(5)]
        cancelled = self.suspend()
        self.client.delete(f"/async-tool/pending/{cancelled}")
        other = self.settle("other")
        self.suspend()
        for limit in (1, 2, 5, 6, 1000):
            with self.subTest(limit=limit):
                pages = list(self.pages(f"status=completed&tool=job&limit={limit}"))
                self.assertEqual(max(len(page) for page in pages), min(limit, 5))
                self.assertEqual([call["id"] for page in pages for call in page], made[::-1])
        self.assertEqual(self.ids("status=completed&limit=1"), [other] + made[::-1])
        self.assertEqual(self.ids("status=cancelled&limit=1"), [cancelled])
        self.assertEqual(self.ids("status=failed&limit=1"), [])
        page, = self.pages("status=completed&tool=other")
        self.assertEqual((page[0]["input"], page[0]["result"]["output"]), ({}, f"result of {other}"))

    def test_a_page_ends_within_a_session_and_the_next_goes_on_there(self):
        session = self.client.start("go")
        settled = [session["pending"][0]["pending_id"]]
        self.client.result(settled[0], wait="10s")
        for _ in range(2):
            again = self.client.post(f"/v1/sessions/{session['id']}/messages?wait=10s", {"content": "go"})
            settled.append(again["outcome"]["suspension"]["pending_tool_calls"][0]["pending_id"])
            self.client.result(settled[-1], wait="10s")
        newer = self.settle()
        first = self.client.get("/async-tool/pending?status=completed&limit=2")
        self.assertEqual([call["id"] for call in first["pending"]], [newer, settled[0]])
        # What comes meanwhile is newer than the page: it is neither missed further on nor repeated.
        self.settle()
        rest = self.client.get(f"/async-tool/pending?status=completed&limit=1000&cursor={first['next_cursor']}")
        self.assertEqual(([call["id"] for call in rest["pending"]], rest["next_cursor"]), (settled[1:], None))
        self.assertEqual(self.ids(f"status=completed&sessionID={session['id']}&limit=1"), settled)

    def test_many_calls_of_one_session(self):
        session = self.client.start()["id"]
        for _ in range(4):
            answer = self.client.post(f"/v1/sessions/{session}/messages?wait=20s", {"content": "many"})
            self.assertEqual(answer["outcome"]["status"], "suspended")
            results = {f"call_{n}": {"content": "r"} for n in range(MANY)}
            answer = self.client.post(f"/v1/sessions/{session}/resume?wait=20s", {"results": results})
            self.assertEqual(answer["outcome"]["status"], "completed")
        pages = list(self.pages(f"status=completed&sessionID={session}"))
        self.assertEqual([len(page) for page in pages], [1000, 4 * MANY - 1000])
        self.assertEqual(len({call["id"] for page in pages for call in page}), 4 * MANY)

    def test_old_sessions_are_found_behind_any_number_of_new_ones(self):
        old = self.settle()
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=kit.PATIENCE)
        headers = {"Authorization": f"Bearer {self.client.token}", "Content-Type": "application/json"}
        for _ in range(1100):
            connection.request("POST", "/v1/sessions", "{}", headers)
            connection.getresponse().read()
        connection.close()
        self.assertEqual(self.ids("status=completed"), [old])

    def test_a_cursor_settles_nothing_and_a_foreign_one_is_refused(self):
        made = {self.settle() for _ in range(2)}
        cursor = self.token("read").get("/async-tool/pending?status=completed&limit=1")["next_cursor"]
        self.assertNotIn(cursor, made)
        self.assert_problem(self.client.result(cursor), 404, "unknown_pending_id")
        self.assert_problem(self.client.get("/async-tool/pending?status=completed&cursor=x"), 400, "invalid_request")


class OfOneTask(ListCase):
    def test_pages_tell_nothing_of_others(self):
        # T7
        mine = [self.suspend(task_id="mine" if n % 2 else "theirs") for n in range(8)][1::2]
        token = self.token("submit", ["mine"])
        for limit in (1, 3, 4, 1000):
            with self.subTest(limit=limit):
                pages = list(self.pages(f"limit={limit}", token))
                self.assertEqual(max(len(page) for page in pages), min(limit, 4))
                self.assertEqual(sorted(call["id"] for page in pages for call in page), sorted(mine))
        for pending in mine:
            self.client.result(pending, wait="10s")
        answer = token.get("/async-tool/pending?limit=1").json
        self.assertEqual((answer["pending"], answer["next_cursor"]), ([], None))

    def test_nor_do_pages_of_settled_calls(self):
        mine = [self.settle(task_id="mine" if n % 2 else "theirs") for n in range(4)][1::2]
        token = self.token("submit", ["mine"])
        self.assertEqual(self.ids("status=completed&limit=1", token), mine[::-1])
        self.assertEqual(self.ids("status=completed&limit=1", self.token("submit", ["nothing"])), [])
