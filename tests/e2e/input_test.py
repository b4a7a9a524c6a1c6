"""Bad input on every route, and bytes that are not quite HTTP: refused, and nothing changed."""

import json
import re
import socket
import threading
import time

import kit
from kit import calls, every, on_result, on_user, says

LIMIT = 64 * 1024


def setup(**limits):
    return kit.Setup(
        agents=[{"name": "helper", "tools": ["job"], "script": [
            on_user("go", calls(("job", {}, "call_j"))), on_user("hello", says("hello")),
            on_result("job", says("{{result}}"))]}],
        tools=[{"name": "job", "kind": "external"}],
        limits={"body_bytes": LIMIT, "failed_logins_per_minute": 100000, **limits})


class InputCase(kit.Case):
    setup = setup()

    def setUp(self):
        super().setUp()
        self.waiting = self.client.start("go", task_id="task-i")
        self.pending = self.waiting["pending"][0]["pending_id"]

    def everything(self):
        """What a refused request must not change."""
        return (self.client.log(self.waiting["id"]), self.client.get("/v1/sessions?limit=500")["items"],
                self.client.get("/v1/tokens")["items"], self.client.get("/v1/tasks")["items"],
                self.client.get("/async-tool/pending")["pending"])


# What each POST takes, as it would be right; a wrong one is made of it.
BODIES = {
    "/v1/sessions": {"title": "T", "metadata": {}}, "/v1/sessions/{id}/messages": {"content": "hello"},
    "/v1/sessions/{id}/resume": {"results": {"call_j": {"content": "r"}}},
    "/v1/sessions/{id}/cancel": {"mode": "discard"},
    "/v1/sessions/{id}/extend": {"seconds": 60}, "/v1/sessions/{id}/fork": {"title": "F"},
    "/v1/sessions/{id}/compact": {"summary": "s"}, "/v1/pending/{pending_id}/decision": {"decision": "deny"},
    "/async-tool/result": {"pendingID": None, "result": {"title": "t", "output": "o"}},
    "/async-tool/error": {"pendingID": None, "error": "e"}, "/async-tool/webhook": {"pendingID": None, "error": "e"},
    "/async-tool/claim": {"worker": "w"}, "/async-tool/pending/{pending_id}/claim": {"worker": "w"},
    "/async-tool/pending/{pending_id}/renew": {"worker": "w"},
    "/async-tool/pending/{pending_id}/release": {"worker": "w"},
    "/async-tool/pending/{pending_id}/progress": {"progress": {"percent": 1}},
    "/v1/broadcast": {"message": "m", "to": ["b"]}, "/v1/chains/{id}/continue": {"hops": 1},
    "/v1/tasks": {"id": "t-new"}, "/v1/tokens": {"scope": "read"},
}
NO_BODY = {"/v1/sessions/{id}/continue", "/v1/sessions/{id}/resume-token", "/v1/webhooks/dead/{id}/retry"}
ANY_JSON = {"/async-tool/webhook/{pending_id}"}

NOT_OBJECTS = [
    ("not JSON", b"{"), ("a form", b"a=b"), ("a list", b"[]"), ("a string", b'"x"'), ("null", b"null"),
    ("two", b"{}{}"), ("a comma", b'{"a":1,}'), ("single quotes", b"{'a':1}"), ("a comment", b"{}//"),
    ("UTF-16", '{"a":1}'.encode("utf-16")), ("a BOM", b"\xef\xbb\xbf{}"), ("not UTF-8", b'{"a":"\xff"}'),
    ("half a pair", b'{"a":"\\ud800"}'), ("control", b'{"a":"\n"}'), ("NaN", b'{"a":NaN}'),
    ("Infinity", b'{"a":-Infinity}'),
]


class EveryPost(InputCase):
    def posts(self):
        for path, methods in self.client.get("/openapi.json")["paths"].items():
            if "post" in methods:
                yield path

    def target(self, path):
        return re.sub(r"\{pending_id\}", self.pending, re.sub(r"\{id\}", self.waiting["id"], path))

    def right(self, path):
        body = dict(BODIES[path])
        if "pendingID" in body:
            body["pendingID"] = self.pending
        return body

    def refuse(self, path, raw, codes=(400,), name=""):
        with self.subTest(f"{path} {name}"):
            answer = self.client.post(self.target(path), raw=raw)
            self.assertIn(answer.status, codes, answer)
            self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
            self.assertTrue(answer["detail"])

    def test_every_post_is_in_this_table(self):
        self.assertEqual(set(self.posts()), set(BODIES) | NO_BODY | ANY_JSON)

    def test_what_is_not_a_json_object(self):
        # T14
        before = self.everything()
        for path in BODIES:
            for name, raw in NOT_OBJECTS:
                self.refuse(path, raw, name=name)
        self.assertEqual(self.everything(), before)

    def test_unknown_fields(self):
        # T8
        before = self.everything()
        for path in BODIES:
            body = self.right(path)
            for field, value in (("unknown_field", 1), ("scope", "admin"), ("principal", {}), ("__proto__", {})):
                if path == "/v1/tokens" and field == "scope":
                    continue
                self.refuse(path, json.dumps({**body, field: value}).encode(), name=field)
        self.assertEqual(self.everything(), before)

    def test_wrong_types(self):
        before = self.everything()
        for path in BODIES:
            body = self.right(path)
            for field, right in body.items():
                for wrong in (17.5, [None], {"x": []}, True, "" if not isinstance(right, str) else -1):
                    if isinstance(right, dict) and isinstance(wrong, dict) and field == "metadata":
                        continue
                    if field == "pendingID" and wrong == "":
                        continue
                    self.refuse(path, json.dumps({**body, field: wrong}).encode(), (400, 404, 409),
                                f"{field}={wrong!r}")
        self.assertEqual(self.everything(), before)

    def test_too_deep(self):
        # T14: depth 64
        before = self.everything()
        for path in list(BODIES) + list(ANY_JSON):
            for depth in (65, 500, 30000):
                self.refuse(path, b'{"a":' + b"[" * depth + b"]" * depth + b"}", name=f"depth {depth}")
            self.refuse(path, b'{"a":' * 5000 + b"1" + b"}" * 5000, name="objects")
            self.refuse(path, b"[" * 60000, name="never closed")
        self.assertEqual(self.everything(), before)

    def test_numbers_without_end(self):
        # T14
        before = self.everything()
        for path in list(BODIES) + list(ANY_JSON):
            for number in (b"1e400", b"-1e400", b"1E999999999999", b"1" + b"0" * 400):
                body = self.right(path) if path in BODIES else {}
                raw = json.dumps(body)[:-1].encode() + (b"," if body else b"") + b'"extra":' + number + b"}"
                self.refuse(path, raw, name=number[:12].decode())
        self.assertEqual(self.everything(), before)

    def test_too_large(self):
        # T14: at the limit and one more
        before = self.everything()
        for path in list(BODIES) + list(ANY_JSON) + list(NO_BODY):
            raw = b'{"a":"' + b"x" * LIMIT + b'"}'
            self.refuse(path, raw, (413,))
        self.assertEqual(self.everything(), before)

    def test_where_no_body_is_expected(self):
        # T8
        for path in NO_BODY:
            for raw in (b"not JSON", b"[]", b'{"scope":"admin"}'):
                self.refuse(path, raw, (400,), raw.decode())

    def test_the_body_is_needed(self):
        before = self.everything()
        for path in BODIES:
            if path in ("/v1/sessions", "/v1/sessions/{id}/cancel", "/v1/sessions/{id}/fork", "/v1/tasks", "/v1/tokens", "/v1/chains/{id}/continue"):
                continue  # everything in it may be left out
            self.refuse(path, b"", (400, 409), "no body")
            self.refuse(path, b"{}", (400, 409), "empty")
        self.assertEqual(self.everything(), before)


class Edges(InputCase):
    def test_a_body_at_the_limit_is_taken(self):
        raw = json.dumps({"title": ""}).encode()
        raw = raw.replace(b'""', b'"' + b"x" * (LIMIT - len(raw)) + b'"')
        self.assertEqual(len(raw), LIMIT)
        self.assert_status(self.client.post("/v1/sessions", raw=raw), 201)
        self.assert_problem(self.client.post("/v1/sessions", raw=raw + b" "), 413, "too_large")

    def test_the_depth_at_the_limit_is_taken(self):
        nested = json.loads("[" * 62 + "]" * 62)  # the body and metadata are two levels more
        self.assert_status(self.client.post("/v1/sessions", {"metadata": {"a": nested}}), 201)
        self.assert_problem(self.client.post("/v1/sessions", {"metadata": {"a": [nested]}}), 400, "invalid_request")

    def test_a_million_brackets_hurt_nobody(self):
        # T14
        server = self.add_server(kit.Setup(agents=self.setup.agents, tools=self.setup.tools))
        client = server.client()
        closed = b'{"metadata":{"a":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}}"
        for raw in (b"[" * 3_000_000, b'{"a":' * 800_000, closed):
            self.assert_problem(client.post("/v1/sessions", raw=raw), 400, "invalid_request")
        self.assert_status(client.get("/healthz"), 200)

    def test_the_field_is_named(self):
        # api 1: "field": "/result/output"
        answer = self.client.post("/async-tool/result", {
            "pendingID": self.pending, "result": {"title": "t", "output": 1}})
        self.assertEqual(self.assert_problem(answer, 400, "invalid_request")["field"], "/result/output")
        answer = self.client.post(f"/v1/sessions/{self.waiting['id']}/extend", {"seconds": "x"})
        self.assertEqual(self.assert_problem(answer, 400, "invalid_request")["field"], "/seconds")

    @every([("bad escape", "/v1/sessions/%zz"), ("half an escape", "/v1/sessions/%2"), ("NUL", "/v1/sessions/%00"),
            ("bad query", "/v1/sessions?limit=%zz"), ("not UTF-8", "/v1/sessions/%ff%fe"), ("no such path", "/v1/%ff"),
            ("half a character", "/v1/tasks/%e2%82"), ("a surrogate", "/v1/tasks/%ed%a0%80"),
            ("a value", "/v1/sessions?status=%ff"), ("a name", "/v1/sessions?%ff=1")])
    def test_malformed_targets(self, target):
        # T15; api 1: JSON in and out, UTF-8
        answer = self.assert_problem(self.client.get(target), 400, "invalid_request")
        answer.body.decode()  # strict

    def test_targets_are_utf_8(self):
        self.assert_problem(self.client.get("/v1/tasks/gr%c3%bc%c3%9fe"), 404, "not_found")
        self.assertIn("grüße", self.client.get("/v1/tasks/gr%c3%bc%c3%9fe")["detail"])


# ---- framing --------------------------------------------------------------------------------


SMUGGLED = (b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %TOKEN%\r\n"
            b"Content-Type: application/json\r\nContent-Length: 20\r\n\r\n" b'{"title":"smuggled"}')
FOLDED = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: b\r\n c\r\n\r\n"
HEAD = (b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %TOKEN%\r\n"
        b"Content-Type: application/json\r\n")
GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"

REFUSED = [  # (name, bytes): each a 400 or so, and the connection ends
    ("two lengths", HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
    ("the same length twice", HEAD + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"),
    ("a list of lengths", HEAD + b"Content-Length: 2, 2\r\n\r\n{}"),
    ("a signed length", HEAD + b"Content-Length: +2\r\n\r\n{}"),
    ("a negative length", HEAD + b"Content-Length: -2\r\n\r\n{}"),
    ("a hexadecimal length", HEAD + b"Content-Length: 0x2\r\n\r\n{}"),
    ("a length with a blank", HEAD + b"Content-Length: 1 2\r\n\r\n{}"),
    ("an empty length", HEAD + b"Content-Length: \r\n\r\n{}"),
    ("a length that overflows", HEAD + b"Content-Length: 18446744073709551618\r\n\r\n{}"),
    ("length and chunks", HEAD + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("chunks and length", HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n"),
    ("another coding", HEAD + b"Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n"),
    ("two codings", HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    ("identity", HEAD + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}"),
    ("chunked twice", HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
    ("two coding fields", HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("a coding in quotes", HEAD + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n'),
    ("a coding with a tab", HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"),
    ("chunks on 1.0", HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("a chunk size that is none", HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
    ("a negative chunk size", HEAD + b"Transfer-Encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n"),
    ("a chunk size that overflows", HEAD + b"Transfer-Encoding: chunked\r\n\r\n10000000000000002\r\n{}\r\n0\r\n\r\n"),
    ("a chunk that is longer", HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}xx\r\n0\r\n\r\n"),
    ("no host", b"GET /healthz HTTP/1.1\r\n\r\n"),
    ("two hosts", GET + b"Host: 127.0.0.1\r\n\r\n"),
    ("a second host that is not ours", GET + b"Host: evil.test\r\n\r\n"),
    ("a blank before the colon", GET + b"X-A : b\r\n\r\n"),
    ("a blank before the host's colon", b"GET /healthz HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n"),
    ("a field without a colon", GET + b"nonsense\r\n\r\n"),
    ("a NUL in a field", GET + b"X-A: a\x00b\r\n\r\n"),
    ("a NUL in a name", GET + b"X\x00A: b\r\n\r\n"),
    ("a bare CR in a field", GET + b"X-A: a\rb\r\n\r\n"),
    ("a leading blank", b"GET /healthz HTTP/1.1\r\n Host: 127.0.0.1\r\n\r\n"),
    ("no version", b"GET /healthz\r\nHost: 127.0.0.1\r\n\r\n"),
    ("another version", b"GET /healthz HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n"),
    ("version 2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 100),
    ("blanks in the target", b"GET /health z HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
    ("an absolute target of others", b"GET http://evil.test/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
    ("a target without a slash", b"GET healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
    ("connect", b"CONNECT evil.test:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
]


class Framing(InputCase):
    setup = setup(header_time="1s", idle_time="1s", request_time="1s")

    def send(self, data, **more):
        return kit.exchange(self.server.port, data.replace(b"%TOKEN%", self.server.token().encode()), **more)

    @staticmethod
    def statuses(received):
        return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]

    def smuggled(self):
        return [s["id"] for s in self.client.get("/v1/sessions?limit=500")["items"] if s["title"] == "smuggled"]

    def test_odd_framing_is_refused_and_nothing_is_smuggled(self):
        # T12
        before = self.smuggled()
        for name, data in REFUSED:
            with self.subTest(name):
                received = self.send(data + SMUGGLED)
                codes = self.statuses(received)
                self.assertIn(codes[:1], ([400], [413], [431], [501], [505], [421], []), received[:300])
                self.assertEqual(len(codes), min(len(codes), 1), received)
                self.assertEqual(self.smuggled(), before)

    def test_a_folded_field_is_refused(self):
        # T12, test-tools 9: reject duplicates and folds
        self.assertEqual(self.statuses(self.send(FOLDED + SMUGGLED)), [400])

    def test_lines_that_end_without_cr_are_refused(self):
        # T12: proxies differ about them
        before = self.smuggled()
        for name, data in (("all", b"GET /healthz HTTP/1.1\nHost: 127.0.0.1\n\n"),
                           ("one", GET + b"X-A: b\n\r\n"),
                           ("the request line", b"GET /healthz HTTP/1.1\nHost: 127.0.0.1\r\n\r\n")):
            with self.subTest(name):
                codes = self.statuses(self.send(data + SMUGGLED))
                self.assertIn(codes[:1], ([400], []))
                self.assertEqual(self.smuggled(), before)

    def test_what_is_right_is_taken(self):
        close, chunked = b"Connection: close\r\n", b"Transfer-Encoding: chunked\r\n\r\n"
        for name, data, code in (
                ("chunks", HEAD + close + chunked + b"1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", 201),
                ("chunks with extensions", HEAD + close + chunked + b"2;a=b\r\n{}\r\n0\r\n\r\n", 201),
                ("blanks around the length", HEAD + close + b"Content-Length:   2  \r\n\r\n{}", 201),
                ("another case", HEAD.replace(b"Host", b"hOsT") + close + b"content-LENGTH: 2\r\n\r\n{}", 201),
                ("1.0", b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", 200),
                ("many fields", GET + close + b"".join(b"X-%d: y\r\n" % n for n in range(90)) + b"\r\n", 200)):
            with self.subTest(name):
                self.assertEqual(self.statuses(self.send(data)), [code])

    def test_requests_in_a_row_are_answered_in_order(self):
        data = GET + b"\r\n" + b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + GET + b"Connection: close\r\n\r\n"
        received = self.send(data)
        self.assertEqual(self.statuses(received), [200, 200, 200])
        self.assertRegex(received, rb"(?s)ok\n.*ready\n.*ok\n$")

    def test_a_connection_is_used_again_after_a_refusal_of_ours(self):
        data = b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + GET + b"Connection: close\r\n\r\n"
        self.assertEqual(self.statuses(self.send(data)), [404, 200])

    def test_the_answer_to_head_has_no_body(self):
        # RFC 9110 9.3.2: what follows would be read as the next answer
        received = self.send(b"HEAD /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + GET + b"Connection: close\r\n\r\n")
        head, _, rest = received.partition(b"\r\n\r\n")
        self.assertTrue(rest.startswith(b"HTTP/1.1 200 "), received)

    @every([("lower case", b"get"), ("unknown", b"BREW"), ("trace", b"TRACE"), ("options", b"OPTIONS"),
            ("long", b"G" * 300)])
    def test_other_methods(self, method):
        received = self.send(method + b" /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        self.assertIn(self.statuses(received), ([405], [400], [401], [501]), received)

    def test_a_client_that_asks_first_is_told_to_go_on(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=5) as connection:
            connection.sendall(HEAD.replace(b"%TOKEN%", self.server.token().encode())
                               + b"Expect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n")
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 100 "))
            connection.sendall(b"{}")
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
        self.assertEqual(self.statuses(received), [201])

    @every([("a length", b"Content-Length: 13", [b'{"titl', b'e":"x"', b"}"]),
            ("chunks", b"Transfer-Encoding: chunked",
             [b"6", b"\r\n{\"titl\r", b"\n7\r\ne\":", b'"x"}\r\n0', b"\r\n", b"\r\n"])])
    def test_a_body_may_come_in_pieces(self, framing, pieces):
        # the header alone first: its answer is awaited, so that the body is read behind it
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=5) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(HEAD.replace(b"%TOKEN%", self.server.token().encode())
                               + b"Expect: 100-continue\r\nConnection: close\r\n" + framing + b"\r\n\r\n")
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 100 "))
            for piece in pieces:
                connection.sendall(piece)
            received = b""
            while chunk := connection.recv(65536):
                received += chunk
        self.assertEqual(self.statuses(received), [201])
        self.assertIn(b'"title":"x"', received)

    def test_large_headers_are_refused(self):
        # T14: 16 KiB, 100 fields
        before = self.smuggled()
        for name, data in (("a long field", GET + b"X-A: " + b"b" * 20000 + b"\r\n\r\n"),
                           ("a long target", b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
                           ("many fields", GET + b"".join(b"X-%d: y\r\n" % n for n in range(101)) + b"\r\n"),
                           ("a header without end", GET + b"X-A: b\r\n" * 4000)):
            with self.subTest(name):
                self.assertIn(self.statuses(self.send(data + SMUGGLED)), ([413], [431], [400], []))
                self.assertEqual(self.smuggled(), before)

    def test_a_long_body_is_refused_before_it_is_read(self):
        received = self.send(HEAD + b"Content-Length: 100000000\r\n\r\n{")
        self.assertEqual(self.statuses(received), [413])

    def test_slow_clients_are_sent_away(self):
        # T13: the header in a second here, then the idle connection, then the body
        joins = [self.background(self.send, data, timeout=10) for data in (
            b"GET /healthz HTTP/1.1\r\nHos", b"", HEAD + b"Content-Length: 10\r\n\r\n{", GET + b"\r\n")]
        began = time.monotonic()
        received = [join() for join in joins]
        self.assertLess(time.monotonic() - began, 6)
        self.assertEqual(self.statuses(received[3]), [200])
        self.assert_status(self.client.get("/healthz"), 200)

    def test_a_client_that_hangs_up_hurts_nobody(self):
        for data in (b"", b"GET", HEAD + b"Content-Length: 10\r\n\r\n{", GET + b"\r\n"):
            self.send(data, half_close=True)
        self.assert_status(self.client.get("/healthz"), 200)

    def test_many_connections_at_once(self):
        sockets = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(200)]
        self.addCleanup(lambda: [s.close() for s in sockets])
        self.assert_status(self.client.get("/healthz"), 200)


class TooLong(InputCase):
    def test_whoever_still_sends_hears_why_it_is_refused(self):
        for _ in range(5):
            answer = self.client.post("/v1/sessions", {"title": "x" * 20 * LIMIT})
            self.assert_problem(answer, 413, "too_large")


class ConnectionLimits(InputCase):
    setup = setup(connections=40, connections_per_address=20)

    def count_open(self, sockets):
        """How many of them the server still has."""
        open_ones = 0
        for connection in sockets:
            connection.setblocking(False)
            try:
                open_ones += 1 if connection.recv(1) else 0
            except BlockingIOError:
                open_ones += 1
            except OSError:
                pass
        return open_ones

    def connect(self, count):
        sockets = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(count)]
        self.addCleanup(lambda: [s.close() for s in sockets])
        return sockets

    def test_an_address_has_so_many_before_it_shows_a_token(self):
        # docs/configuration.md, reliability: connections per address before a valid token
        sockets = self.connect(30)
        kit.wait_until(lambda: self.count_open(sockets) <= 20, "those beyond the limit to be closed")

    def test_all_together_have_so_many(self):
        sockets = self.connect(60)
        kit.wait_until(lambda: self.count_open(sockets) <= 40, "those beyond the limit to be closed")
        for connection in sockets:
            connection.close()
        kit.wait_until(lambda: self.answers(), "the server to take new ones")

    def answers(self):
        try:
            return self.client.get("/healthz").status == 200
        except OSError:
            return False


class Load(InputCase):
    def test_bad_and_good_requests_at_once(self):
        # Nobody's bad request disturbs another's good one.
        done = threading.Event()

        def bad():
            while not done.is_set():
                for _, data in REFUSED[::5]:
                    kit.exchange(self.server.port, data + b"\r\n\r\n", half_close=True)
        joins = [self.background(bad) for _ in range(2)]
        sessions = [self.client.start("go") for _ in range(15)]
        for session in sessions:
            self.client.result(session["pending"][0]["pending_id"], "r", wait="10s")
            self.assertEqual(self.client.last_words(session["id"]), "r")
        done.set()
        for join in joins:
            join()
