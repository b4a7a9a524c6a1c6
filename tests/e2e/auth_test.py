"""Who may do what: tokens, scopes, tasks, hosts and origins, on every route that there is."""

import json
import re
import socket
import stat

import kit
from kit import calls, every, on_result, on_user, says

SCOPES = ["read", "submit", "operate", "admin"]
OPEN = {("get", "/healthz"), ("get", "/readyz"), ("get", "/")}

# The contract's scopes (api 1), by method and path; what is not here is only checked against what it declares.
DECLARED = {
    ("post", "/v1/sessions/{id}/messages"): "submit", ("post", "/v1/sessions/{id}/resume"): "submit",
    ("post", "/async-tool/claim"): "submit", ("post", "/async-tool/result"): "submit",
    ("post", "/async-tool/error"): "submit", ("post", "/async-tool/webhook"): "submit",
    ("post", "/v1/sessions/{id}/cancel"): "operate", ("post", "/v1/sessions/{id}/extend"): "operate",
    ("post", "/v1/sessions/{id}/continue"): "operate", ("post", "/v1/sessions/{id}/resume-token"): "operate",
    ("post", "/v1/pending/{pending_id}/decision"): "operate", ("post", "/v1/sessions/{id}/fork"): "operate",
    ("delete", "/v1/sessions/{id}"): "operate", ("post", "/v1/tokens"): "admin", ("get", "/v1/tokens"): "admin",
    ("get", "/v1/webhooks/dead"): "admin", ("post", "/v1/webhooks/dead/{id}/retry"): "admin",
    ("get", "/metrics"): "read", ("get", "/openapi.json"): "read",
}


def setup(**sections):
    return kit.Setup(
        agents=[{"name": "helper", "tools": ["job"], "script": [
            on_user("go", calls(("job", {}, "call_j"))), on_user("hello", says("hello")),
            on_result("job", says("{{result}}"))]}],
        tools=[{"name": "job", "kind": "external"}], **sections)


class AuthCase(kit.Case):
    setup = setup()

    def routes(self):
        """(method, path pattern, scope, whether a pending id does instead of a token)"""
        for path, methods in self.client.get("/openapi.json")["paths"].items():
            for method, what in methods.items():
                yield method, path, what["x-scope"], {} in what.get("security", [])

    def call(self, client, method, pattern, session="sess_" + "0" * 26, pending="pnd_x", body=None, **more):
        path = re.sub(r"\{pending_id\}", pending, pattern)
        path = re.sub(r"\{session_id\}", session, path)
        path = re.sub(r"\{(id|path)\}", session, path)
        if method != "get" and body is None:
            body = {}
        return client.request(method.upper(), path, body if method != "get" else None, **more)


class EveryRoute(AuthCase):
    def test_the_table_of_routes_is_the_contracts(self):
        # T1: a route without a declared scope fails here
        found = {(method, path): scope for method, path, scope, _ in self.routes()}
        self.assertGreater(len(found), 45)
        for route, scope in found.items():
            with self.subTest(route):
                self.assertIn(scope, [""] if route in OPEN else SCOPES)
                if route[0] == "get" and route not in OPEN and not route[1].startswith(("/v1/tokens", "/v1/webhooks")):
                    self.assertEqual(scope, "read")
        for route, scope in DECLARED.items():
            self.assertEqual(found.get(route), scope, route)

    def test_without_a_token_nothing_is_answered(self):
        # T1
        stranger = self.server.client(None)
        for method, path, scope, by_id in self.routes():
            if (method, path) in OPEN or by_id:
                continue
            with self.subTest(f"{method} {path}"):
                answer = self.assert_problem(self.call(stranger, method, path), 401, "unauthorized")
                self.assertTrue(answer.headers["WWW-Authenticate"].startswith("Bearer"))

    def test_with_a_smaller_scope_nothing_is_done(self):
        # T1
        tokens = {scope: self.token(scope) for scope in SCOPES[:-1]}
        session = self.client.start("go")
        pending = session["pending"][0]["pending_id"]
        with self.nothing_changes(session["id"]):
            for method, path, scope, by_id in self.routes():
                if scope in ("", "read"):
                    continue
                for smaller in SCOPES[:SCOPES.index(scope)]:
                    with self.subTest(f"{method} {path} as {smaller}"):
                        body = {"pendingID": pending, "error": "e"} if by_id else {}
                        answer = self.call(tokens[smaller], method, path, session["id"], pending, body)
                        self.assert_problem(answer, 403, "forbidden")

    def test_a_scope_includes_the_ones_before(self):
        tokens = {scope: self.token(scope) for scope in SCOPES}
        for method, path, scope, by_id in self.routes():
            if not scope or path.endswith("/events"):
                continue
            for enough in SCOPES[SCOPES.index(scope):]:
                answer = self.call(tokens[enough], method, path)
                self.assertNotIn(answer.status, (401, 403), (method, path, enough, answer))


class WrongTokens(AuthCase):
    setup = setup(limits={"failed_logins_per_minute": 100000})

    def test_a_wrong_token_is_refused_on_every_route(self):
        # T1
        wrong = self.server.client("rk_" + "0" * 16 + "." + "0" * 52)
        for method, path, scope, by_id in self.routes():
            if (method, path) not in OPEN:
                with self.subTest(f"{method} {path}"):
                    self.assert_problem(self.call(wrong, method, path), 401, "unauthorized")

    @every([("empty", "Bearer "), ("no scheme", "{}"), ("another scheme", "Basic {}"), ("longer", "Bearer {}x"),
            ("twice", "Bearer {0} {0}"), ("quoted", 'Bearer "{}"'), ("two blanks", "Bearer  {}")])
    def test_what_looks_like_the_token_is_not_it(self, form):
        # T5
        header = form.format(self.server.token())
        self.restart()  # nobody failed before
        answer = self.server.client(None).get("/v1/sessions", headers={"Authorization": header})
        self.assert_problem(answer, 401, "unauthorized")

    def test_a_part_of_the_token_is_not_it(self):
        # T5
        token = self.server.token()
        for part in (token[:-1], token[1:], token[:20], token.upper(), token + "\u00a0"):
            try:
                answer = self.server.client(part).get("/v1/sessions")
            except UnicodeEncodeError:
                continue
            self.assertIn(answer.status, (400, 401))

    def test_the_scheme_has_no_case(self):
        # RFC 9110: schemes are case-insensitive
        headers = {"Authorization": f"bearer {self.server.token()}"}
        answer = self.server.client(None).get("/v1/sessions", headers=headers)
        self.assert_status(answer, 200)


class Guessing(AuthCase):
    def test_wrong_tokens_are_limited_and_the_right_one_is_not(self):
        # T5: 10 in a minute
        wrong = self.server.client("nonsense")
        codes = [wrong.get("/v1/sessions").status for _ in range(15)]
        self.assertEqual(codes[:10], [401] * 10)
        answer = self.assert_problem(wrong.get("/v1/sessions"), 429, "rate_limited")
        self.assertGreater(int(answer.headers["Retry-After"]), 0)
        self.assert_status(self.client.get("/v1/sessions"), 200)

    def test_unknown_and_foreign_look_the_same(self):
        # T5 T7
        session = self.client.start("go", task_id="theirs")
        mine = self.token("operate", ["mine"])
        foreign = mine.get(f"/v1/sessions/{session['id']}").json
        unknown = mine.get("/v1/sessions/sess_" + "0" * 26).json
        for answer in (foreign, unknown):
            answer.pop("request_id")
            answer["detail"] = re.sub(r"sess_\w+", "<id>", answer["detail"])
        self.assertEqual(foreign, unknown)


class ApiTokens(AuthCase):
    def test_a_token_is_shown_once_and_works_until_it_is_revoked(self):
        made = self.client.post("/v1/tokens", {"name": "ci", "scope": "submit", "tasks": ["t"]})
        self.assert_status(made, 201)
        self.assertEqual((made["name"], made["scope"], made["tasks"]), ("ci", "submit", ["t"]))
        secret = made["token"].split(".", 1)[1]
        self.assertGreaterEqual(len(secret), 32)  # 192 random bits at least
        listed = self.client.get("/v1/tokens")
        self.assertIn(made["id"], [t["id"] for t in listed["items"]])
        self.assertNotIn(secret, listed.body.decode())
        self.assertNotIn("hash", listed.body.decode())
        self.restart()
        token = self.server.client(made["token"])
        self.assert_status(token.get("/v1/sessions"), 200)
        self.assertEqual(self.server.stop(), 0)
        for path in self.server.data.rglob("*"):
            if path.is_file():
                self.assertNotIn(secret.encode(), path.read_bytes(), path)
        self.server.start()
        self.client, token = self.server.client(), self.server.client(made["token"])
        self.assert_status(self.client.delete(f"/v1/tokens/{made['id']}"), 204)
        self.assert_problem(token.get("/v1/sessions"), 401, "unauthorized")
        self.restart()
        self.assert_problem(self.server.client(made["token"]).get("/v1/sessions"), 401, "unauthorized")
        self.assert_problem(self.client.delete("/v1/tokens/rk_none"), 404, "not_found")

    def test_what_a_revoked_token_was_about_to_be_sent_is_not_sent(self):
        made = self.client.post("/v1/tokens", {"scope": "read"})
        session = self.client.start()["id"]
        for _ in range(40):
            self.client.patch(f"/v1/sessions/{session}", {"metadata": {"much": "x" * 900_000}})
        reader = kit.SlowReader(self.server.client(made["token"]), f"/v1/sessions/{session}/events?from_seq=1")
        self.addCleanup(reader.stop)
        self.assert_status(self.client.delete(f"/v1/tokens/{made['id']}"), 204)
        self.assertLess(len(reader.read_all()), 12_000_000)  # of 36; the kernel has some of it

    def test_a_replay_does_not_show_it_again(self):
        headers = {"Idempotency-Key": "token"}
        first = self.client.post("/v1/tokens", {"scope": "read"}, headers=headers)
        again = self.client.post("/v1/tokens", {"scope": "read"}, headers=headers)
        self.assertNotEqual(again.get("token"), first["token"])

    @every([("scope", {"scope": "root"}), ("a number", {"scope": 1}), ("tasks", {"tasks": "t"}),
            ("tasks", {"tasks": [1]}), ("no tasks", {"scope": "read", "tasks": []}),
            ("unknown", {"scope": "read", "token": "mine"}), ("hash", {"hash": "0" * 64}), ("name", {"name": []})])
    def test_malformed_ones_are_refused(self, body):
        # T8: scopes only from the stored token
        before = self.client.get("/v1/tokens")["items"]
        self.assert_problem(self.client.post("/v1/tokens", body), 400, "invalid_request")
        self.assertEqual(self.client.get("/v1/tokens")["items"], before)

    def test_the_admin_token_is_made_once_and_kept_to_oneself(self):
        # T1 T20, api 1
        path = self.server.data / "token"
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.server.data.stat().st_mode), 0o700)
        token = self.server.token()
        self.restart()
        self.assertEqual(self.server.token(), token)
        self.assertNotIn(token, self.server.stderr())


class Tasks(AuthCase):
    def test_other_tasks_do_not_exist(self):
        # T7: two principals × every route with the other's ids
        theirs = self.client.start("go", task_id="theirs")
        pending = theirs["pending"][0]["pending_id"]
        self.client.post("/v1/tasks", {"id": "theirs"})
        mine = self.token("operate", ["mine"])
        with self.nothing_changes(theirs["id"]):
            for method, path, scope, by_id in self.routes():
                if "{" not in path or scope in ("", "admin"):
                    continue
                with self.subTest(f"{method} {path}"):
                    ids = {"session": "theirs"} if path.startswith("/v1/tasks/{id}") and "session" not in path else {
                        "session": theirs["id"]}
                    bodies = {"messages": {"content": "x"}, "claim": {"worker": "w"}, "renew": {"worker": "w"},
                              "release": {"worker": "w"}, "progress": {"progress": {"percent": 1}}}
                    body = bodies.get(path.rsplit("/", 1)[1], {})
                    answer = self.call(mine, method, path, pending=pending, body=body, **ids)
                    self.assertEqual(answer.status, 404, answer)
            for door, body in (("result", {"result": {"title": "t", "output": "o"}}), ("error", {"error": "e"}),
                               ("webhook", {"error": "e"})):
                answer = mine.post(f"/async-tool/{door}", {"pendingID": pending, **body})
                self.assert_problem(answer, 404, "unknown_pending_id")

    def test_lists_show_only_their_own(self):
        self.client.start("go", task_id="theirs")
        self.client.start("go")
        own = self.client.start("go", task_id="mine")
        self.client.post("/v1/tasks", {"id": "mine"})
        self.client.post("/v1/tasks", {"id": "theirs"})
        mine = self.token("submit", ["mine"])
        self.assertEqual({s["task_id"] for s in mine.get("/v1/sessions")["items"]}, {"mine"})
        self.assertEqual({w["task_id"] for w in mine.get("/v1/waits")["items"]}, {"mine"})
        self.assertEqual({t["id"] for t in mine.get("/v1/tasks")["items"]}, {"mine"})
        calls_seen = mine.get("/async-tool/pending")["pending"]
        self.assertIn(own["id"], {c["sessionID"] for c in calls_seen})
        self.assertEqual({self.client.session(c["sessionID"])["task_id"] for c in calls_seen}, {"mine"})
        self.assertEqual(mine.get("/v1/sessions?task_id=theirs")["items"], [])

    def test_pages_do_not_tell_of_others(self):
        for n in range(6):
            self.client.start(task_id="theirs" if n % 2 else "paged")
        mine = self.token("read", ["paged"])
        seen, cursor = [], ""
        while cursor is not None:
            page = mine.get("/v1/sessions?limit=2" + (f"&cursor={cursor}" if cursor else "")).json
            seen += [s["task_id"] for s in page["items"]]
            cursor = page["next_cursor"]
        self.assertEqual(seen, ["paged"] * 3)

    def test_nothing_is_made_elsewhere(self):
        mine = self.token("operate", ["mine"])
        for body in ({"task_id": "theirs"}, {}):
            self.assert_problem(mine.post("/v1/sessions", body), 403, "forbidden")
        self.assert_problem(mine.post("/v1/tasks", {"id": "theirs-2"}), 403, "forbidden")
        self.assert_status(mine.post("/v1/sessions", {"task_id": "mine"}), 201)

    def test_a_token_makes_none_that_sees_more_than_itself(self):
        mine = self.token("admin", ["mine", "also-mine"])
        before = self.client.get("/v1/tokens")["items"]
        for tasks in ({}, {"tasks": ["theirs"]}, {"tasks": ["mine", "theirs"]}, {"tasks": [""]}):
            with self.subTest(tasks):
                self.assert_problem(mine.post("/v1/tokens", {"scope": "read", **tasks}), 403, "forbidden")
        self.assertEqual(self.client.get("/v1/tokens")["items"], before)
        made = self.assert_status(mine.post("/v1/tokens", {"scope": "admin", "tasks": ["mine"]}), 201)
        seen = {t["id"]: t["tasks"] for t in self.server.client(made["token"]).get("/v1/tokens")["items"]}
        self.assertIn(made["id"], seen)
        self.assertEqual({task for tasks in seen.values() for task in tasks}, {"mine"})

    def test_tokens_that_see_more_do_not_exist_for_it(self):
        mine = self.token("admin", ["mine"])
        others = [self.client.post("/v1/tokens", {"name": "hush", "scope": "read", **tasks})["id"]
                  for tasks in ({}, {"tasks": ["theirs"]}, {"tasks": ["mine", "theirs"]})]
        self.assertNotIn("hush", [t["name"] for t in mine.get("/v1/tokens")["items"]])
        for token in others:
            self.assert_problem(mine.delete(f"/v1/tokens/{token}"), 404, "not_found")
        self.assertLessEqual(set(others), {t["id"] for t in self.client.get("/v1/tokens")["items"]})

    def test_what_belongs_to_nobody_is_not_theirs(self):
        lone = self.client.start("go")["id"]
        self.assert_problem(self.token("read", ["mine"]).get(f"/v1/sessions/{lone}"), 404, "not_found")


class HostsAndOrigins(AuthCase):
    setup = setup(server={"allowed_hosts": ["rouse.example"], "cors_origins": ["https://app.example"]})

    @every([("a name", "evil.test"), ("with our port", "evil.test:{port}"), ("like ours", "localhost.evil.test"),
            ("before ours", "evil-localhost"), ("an address", "10.0.0.1"), ("any", "0.0.0.0"),
            ("user", "localhost@evil.test"), ("v6", "[::2]"), ("decimal", "2130706433"), ("empty", "")])
    def test_another_host_is_refused_everywhere(self, host):
        # T2
        host = host.format(port=self.server.port)
        for path in ("/healthz", "/readyz", "/v1/sessions", "/nothing", "/"):
            answer = self.client.get(path, headers={"Host": host})
            self.assertIn((answer.status, answer.code), [(421, "wrong_host"), (400, "invalid_request")], (host, answer))
        answer = self.client.post("/v1/sessions", {}, headers={"Host": host})
        self.assertIn(answer.status, (400, 421))

    @every([("loopback", "127.0.0.1"), ("with a port", "127.0.0.1:{port}"), ("by name", "localhost:1"),
            ("v6", "[::1]:{port}"), ("configured", "rouse.example"), ("configured with a port", "rouse.example:443")])
    def test_our_hosts(self, host):
        self.assert_status(self.client.get("/healthz", headers={"Host": host.format(port=self.server.port)}), 200)

    def test_a_hosts_name_has_no_case(self):
        # RFC 9110 4.2.3
        for host in ("LocalHost", "Rouse.Example"):
            self.assert_status(self.client.get("/healthz", headers={"Host": host}), 200)

    @every([("another site", "https://evil.test"), ("null", "null"), ("another port", "http://127.0.0.1:1"),
            ("like ours", "http://127.0.0.1.evil.test"), ("like the configured", "https://app.example.evil.test"),
            ("another scheme", "http://app.example")])
    def test_another_origin_is_refused(self, origin):
        # T3
        before = self.client.get("/v1/sessions")["items"]
        for method, body in (("GET", None), ("POST", {}), ("OPTIONS", None)):
            answer = self.client.request(method, "/v1/sessions", body, headers={"Origin": origin})
            self.assert_problem(answer, 403, "forbidden")
            self.assertIsNone(answer.headers["Access-Control-Allow-Origin"])
        self.assertEqual(self.client.get("/v1/sessions")["items"], before)

    def test_cross_site_requests_are_refused(self):
        # T3
        for site, status in (("cross-site", 403), ("same-origin", 200), ("none", 200)):
            self.assertEqual(self.client.get("/v1/sessions", headers={"Sec-Fetch-Site": site}).status, status, site)

    def test_our_own_origin_may(self):
        origin = f"http://127.0.0.1:{self.server.port}"
        self.assert_status(self.client.get("/v1/sessions", headers={"Origin": origin}), 200)

    def test_a_configured_origin_may(self):
        self.assert_status(self.client.get("/v1/sessions", headers={"Origin": "https://app.example"}), 200)

    def test_a_browser_may_use_a_configured_origin(self):
        origin = {"Origin": "https://app.example"}
        answer = self.client.get("/v1/sessions", headers=origin)
        self.assertEqual(answer.headers["Access-Control-Allow-Origin"], "https://app.example")
        self.assertNotEqual(answer.headers["Access-Control-Allow-Credentials"], "true")
        preflight = self.server.client(None).request("OPTIONS", "/v1/sessions", headers={
            **origin, "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type"})
        self.assertIn(preflight.status, (200, 204))

    @every([("form", "application/x-www-form-urlencoded"), ("text", "text/plain"), ("multipart", "multipart/form-data"),
            ("none", None), ("text with json", "text/plain; a=application/json"), ("more", "application/jsonx"),
            ("a list", "application/json, text/plain")])
    def test_a_body_must_be_json_by_name(self, kind):
        # T3: state changes need application/json
        before = self.client.get("/v1/sessions")["items"]
        headers = {"Content-Type": kind}
        self.assert_problem(self.client.post("/v1/sessions", {}, headers=headers), 400, "invalid_request")
        self.assertEqual(self.client.get("/v1/sessions")["items"], before)

    @every([("parameters", "application/json; charset=utf-8"), ("capitals", "Application/JSON"),
            ("a blank", "application/json ;charset=UTF-8")])
    def test_json_by_its_other_names(self, kind):
        self.assert_status(self.client.post("/v1/sessions", {}, headers={"Content-Type": kind}), 201)


class OpenDoors(AuthCase):
    def test_the_open_ones_say_one_word(self):
        # T1 T34
        stranger = self.server.client(None)
        for path, word in (("/healthz", b"ok"), ("/readyz", b"ready")):
            answer = self.assert_status(stranger.get(path), 200)
            self.assertEqual(answer.body.strip(), word)
            self.assertIsNone(answer.headers["Server"])

    def test_what_is_not_there(self):
        answer = self.assert_problem(self.client.get("/v1/nothing"), 404, "not_found")
        self.assertIn("openapi", answer["detail"])
        answer = self.assert_problem(self.client.delete("/v1/sessions"), 405, "method_not_allowed")
        self.assertEqual(set(re.split(r",\s*", answer.headers["Allow"])), {"GET", "POST"})

    def test_openapi_is_well_formed(self):
        spec = self.client.get("/openapi.json").json
        self.assertTrue(spec["openapi"].startswith("3.1"))
        for path, methods in spec["paths"].items():
            for method, what in methods.items():
                names = {p["name"] for p in what["parameters"] if p["in"] == "path"}
                self.assertEqual(names, set(re.findall(r"\{(\w+)\}", path)), path)
                self.assertTrue(what["summary"])
        listing = {p["name"] for p in spec["paths"]["/v1/waits"]["get"]["parameters"] if p["in"] == "query"}
        self.assertEqual(listing, {"kind", "task_id", "agent", "limit", "cursor"})

    def test_metrics_are_text_for_prometheus(self):
        self.client.start("go")
        text = self.client.get("/metrics").body.decode()
        for line in text.splitlines():
            self.assertRegex(line, r"^(#.*|[a-zA-Z_:][\w:]*(\{[^}]*\})? [-+\dA-Za-z.]+)$")
        for name in ("rouse_runs_total{event=\"started\"} 1", "rouse_commit_group_size_count", "rouse_commit_seconds_sum"):
            self.assertRegex(text, re.escape(name))
        commits = re.search(r"^rouse_commit_group_size_sum (\d+)", text, re.M)
        self.assertGreater(int(commits[1]), 1)

    def test_without_auth_on_purpose(self):
        server = self.add_server(arguments=["--insecure-no-auth"])
        self.assert_status(server.client(None).get("/v1/sessions"), 200)
        self.assertEqual(server.client(None).get("/v1/sessions", headers={"Host": "evil.test"}).status, 421)
        self.assertIn("token", server.stderr())

    def test_errors_have_the_requests_id_and_no_insides(self):
        answer = self.client.get("/v1/sessions/none")
        self.assertEqual(answer["request_id"], answer.headers["X-Request-Id"])
        self.assertNotIn("/", json.dumps(answer["title"]))


class BehindAProxy(kit.Case):
    """T5, T14: limits are those of the proxy's clients, as far as it has seen them itself."""

    setup = kit.Setup(server={"behind_proxy": True},
                      limits={"failed_logins_per_minute": 3, "connections_per_address": 2})

    def knock(self, forwarded):
        headers = {"Authorization": "Bearer wrong", **({"X-Forwarded-For": forwarded} if forwarded else {})}
        return self.server.client(None).get("/v1/sessions", headers=headers).status

    def test_each_of_its_clients_has_a_limit_of_its_own(self):
        self.assertEqual([self.knock("6.6.6.6") for _ in range(4)], [401, 401, 401, 429])
        self.assertEqual(self.knock("6.6.6.6, 7.7.7.7"), 401)
        self.assertEqual(self.knock("7.7.7.7 ,  6.6.6.6 "), 429)
        for unknown in (None, "nonsense", "6.6.6.6, nonsense", ""):
            self.assertIn(self.knock(unknown), (401, 429))
        self.assertEqual(self.knock("1.2.3.4, nonsense"), 429, "by then the proxy itself is over it")

    def test_connections_of_the_proxy_are_not_counted(self):
        open_ones = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(5)]
        for one in open_ones:
            self.addCleanup(one.close)
            one.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self.assertIn(b"200 OK", one.recv(1000))
