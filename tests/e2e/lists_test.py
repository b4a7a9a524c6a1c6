"""Lists: pages that cover everything once, and limits that are numbers."""

import urllib.parse

import kit
from kit import every, on_user, says

EVERY_LIST = ["/v1/sessions", "/v1/waits", "/v1/waits?kind=chain", "/v1/aliases", "/v1/tasks", "/v1/tokens", "/v1/agents",
              "/v1/tools", "/v1/models", "/v1/webhooks/dead", "/v1/sessions/{}/inbox", "/v1/sessions/{}/messages",
              "/v1/sessions/{}/log", "/async-tool/pending"]


def joined(path, query):
    return path + ("&" if "?" in path else "?") + query


class Lists(kit.Case):
    # api 1: limit and cursor, items and next_cursor
    setup = kit.Setup(
        agents=[{"name": name, "tools": ["job"], "script": [on_user("hello", says("hello"))]} for name in ("one", "two")],
        tools=[{"name": "job", "kind": "external"}])

    def pages(self, path, limit):
        items, cursor = [], ""
        while cursor is not None:
            query = f"limit={limit}" + (f"&cursor={urllib.parse.quote(cursor, safe='')}" if cursor else "")
            page = self.assert_status(self.client.get(joined(path, query)), 200)
            self.assertLessEqual(len(page["items"]), limit)
            items += page["items"]
            cursor = page["next_cursor"]
        return items

    def test_pages_cover_everything_once(self):
        for n in range(3):
            self.client.post("/v1/tasks", {"id": f"task-{n}"})
            self.token("read")
        reader = self.client.start("hello", alias="reader")["id"]
        for n in range(3):
            letter = {"to": "reader", "message": f"letter {n}", "resume": False}
            self.assert_status(self.client.post("/v1/broadcast", letter), 202)
        for path in ("/v1/tasks", "/v1/tokens", "/v1/agents", "/v1/tools", "/v1/models", f"/v1/sessions/{reader}/inbox",
                     f"/v1/sessions/{reader}/messages"):
            with self.subTest(path):
                whole = self.client.get(path + "?limit=500")
                self.assertIsNone(whole["next_cursor"])
                self.assertGreater(len(whole["items"]), 1)
                for limit in (1, 2, len(whole["items"])):
                    self.assertEqual(self.pages(path, limit), whole["items"])

    def test_the_newest_is_first(self):
        for n in range(60):
            self.client.post("/v1/tasks", {"id": f"t-{n:02}"})
        page = self.client.get("/v1/tasks?cursor=t-99")
        self.assertEqual([task["id"] for task in page["items"]], [f"t-{n:02}" for n in range(59, 9, -1)])
        self.assertEqual(page["next_cursor"], "t-10")

    def test_a_page_goes_on_behind_what_was_removed(self):
        for _ in range(4):
            self.token("read")
        first = self.client.get("/v1/tokens?limit=2")
        rest = self.client.get(f"/v1/tokens?cursor={first['next_cursor']}")["items"]
        self.client.delete(f"/v1/tokens/{first['next_cursor']}")
        self.assertEqual(self.client.get(f"/v1/tokens?cursor={first['next_cursor']}")["items"], rest)

    @every([("zero", "0"), ("negative", "-1"), ("text", "abc"), ("empty", ""), ("too many", "10001")])
    def test_a_limit_is_a_number_within_bounds(self, limit):
        session = self.client.start()["id"]
        for path in EVERY_LIST:
            with self.subTest(path):
                answer = self.client.get(joined(path.format(session), f"limit={limit}"))
                self.assert_problem(answer, 400, "invalid_request")

    def test_a_filter_that_is_misspelt_is_no_filter_for_everything(self):
        session = self.client.start()["id"]
        for path in (*EVERY_LIST, "/v1/sessions/{}", "/v1/sessions/{}/explain"):
            with self.subTest(path):
                answer = self.client.get(joined(path.format(session), "statsu=waiting"))
                self.assert_problem(answer, 400, "invalid_request")
        self.assertIn("did you mean 'status'?", self.client.get("/v1/sessions?statsu=waiting")["detail"])
        self.assert_problem(self.client.post("/v1/sessions?wiat=5s", {}), 400, "invalid_request")

    @every([("tasks", "/v1/tasks"), ("tokens", "/v1/tokens"), ("inbox", "/v1/sessions/{}/inbox"),
            ("messages", "/v1/sessions/{}/messages")])
    def test_a_foreign_cursor_is_refused(self, path):
        session = self.client.start()["id"]
        self.assert_problem(self.client.get(path.format(session) + "?cursor=../x"), 400, "invalid_request")
