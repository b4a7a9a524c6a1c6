"""What the end-to-end tests are made of: a server to kill, clients, a stream reader, a tool server.

Everything a test starts is registered with it and ended when it is over, by process id. There are no
fixed sleeps: wait_until() polls something observable, with a deadline.
"""

import contextlib
import ctypes
import datetime
import functools
import hashlib
import hmac
import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.parse

TREE = pathlib.Path(__file__).resolve().parents[2]
BINARY = os.environ.get("ROUSE_BINARY", str(TREE / "build/release/rouse"))
STRICT = bool(os.environ.get("ROUSE_E2E_STRICT"))  # known bugs fail like others
PATIENCE = float(os.environ.get("ROUSE_E2E_PATIENCE", "15"))  # seconds, for what must happen


def bug(text):
    """The server does not do what the contract says yet; the test is right. Remove it when fixed."""
    del text  # for the reader
    return (lambda test: test) if STRICT else unittest.expectedFailure


def wait_until(predicate, what="", patience=PATIENCE):
    """Polls until the predicate gives something true, and returns that."""
    deadline = time.monotonic() + patience
    pause = 0.002
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {patience:g} s for {what or predicate}; last saw {value!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)


def now_ms():
    return int(time.time() * 1000)


def to_ms(time_text):
    """Of a time as the log has it."""
    return round(datetime.datetime.fromisoformat(time_text).timestamp() * 1000)


def signature(secret, body):
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


# ---- configuration --------------------------------------------------------------------------


def toml_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        members = (f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items())
        return "{ " + ", ".join(members) + " }"
    raise TypeError(f"no TOML for {value!r}")


def toml_table(head, table):
    return "\n".join([head] + [f"{key} = {toml_value(value)}" for key, value in table.items()]) + "\n"


class Setup:
    """A configuration: agents with their scripts, tools, webhooks and sections such as limits={}."""

    def __init__(self, agents=(), tools=(), webhooks=(), **sections):
        self.agents, self.tools, self.webhooks = list(agents), list(tools), list(webhooks)
        self.sections = sections

    def write(self, folder):
        """Returns the file's path. An agent's "script" becomes a file of its own."""
        text = [toml_table(f"[{name}]", keys) for name, keys in self.sections.items()]
        for agent in self.agents:
            keys = dict(agent)
            if "script" in keys:
                script = folder / f"{keys['name']}.script.jsonl"
                lines = (json.dumps(entry, ensure_ascii=False) for entry in keys.pop("script"))
                script.write_text("".join(line + "\n" for line in lines))
                keys["model"] = f"scripted:{script}"
            text.append(toml_table("[[agents]]", keys))
        text += [toml_table("[[tools]]", tool) for tool in self.tools]
        text += [toml_table("[[webhooks]]", webhook) for webhook in self.webhooks]
        path = folder / "rouse.toml"
        path.write_text("\n".join(text))
        return path


def says(text, **more):
    return {"say": text, **more}


def calls(*tools, **more):
    """A script entry that calls tools: names, or (name, input) or (name, input, call id)."""
    made = []
    for tool in tools:
        name, given, call_id = ((tool,) if isinstance(tool, str) else tool) + (None,) * (
            2 if isinstance(tool, str) else 3 - len(tool))
        call = {"tool": name, "input": {} if given is None else given}
        if call_id:
            call["id"] = call_id
        made.append(call)
    return {"call": made, **more}


def on_user(text, entry, repeat=True):
    return {"when": {"user": text}, **entry, **({"repeat": True} if repeat else {})}


def on_result(tool, entry, repeat=True):
    return {"when": {"tool_result": tool}, **entry, **({"repeat": True} if repeat else {})}


# ---- HTTP -----------------------------------------------------------------------------------


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __getitem__(self, key):
        return self.json[key]

    def get(self, key, otherwise=None):
        return self.json.get(key, otherwise)

    @property
    def code(self):
        return self.get("code") if self.body[:1] == b"{" else None

    def __repr__(self):
        return f"<{self.status} {self.body[:600]!r}>"


class Client:
    """JSON requests, one connection each. token=None sends no Authorization header."""

    def __init__(self, port, token=None):
        self.port, self.token = port, token

    def request(self, method, path, body=None, headers=None, raw=None, timeout=PATIENCE + 10):
        sent = {}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        data = raw
        if data is None and body is not None:
            data = json.dumps(body, ensure_ascii=False).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        sent.update(headers or {})
        sent = {key: value for key, value in sent.items() if value is not None}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.request("POST", path, {} if body is None and "raw" not in more else body, **more)

    def patch(self, path, body, **more):
        return self.request("PATCH", path, body, **more)

    def delete(self, path, **more):
        return self.request("DELETE", path, **more)

    # What nearly every test does.

    def start(self, message=None, wait="10s", **fields):
        """Makes a session; with a message it also waits until the run ends or parks."""
        body = dict(fields)
        if message is not None:
            body["message"] = message
        answer = self.post("/v1/sessions" + (f"?wait={wait}" if wait and message else ""), body)
        if answer.status not in (200, 201, 202):
            raise AssertionError(f"no session: {answer!r}")
        return answer.json

    def session(self, session_id):
        answer = self.get(f"/v1/sessions/{session_id}")
        if answer.status != 200:
            raise AssertionError(f"no session: {answer!r}")
        return answer.json

    def log(self, session_id):
        answer = self.get(f"/v1/sessions/{session_id}/log?limit=10000")
        if answer.status != 200:
            raise AssertionError(f"no log: {answer!r}")
        return answer["items"]

    def kinds(self, session_id):
        return [record["kind"] for record in self.log(session_id)]

    def transcript(self, session_id):
        return self.get(f"/v1/sessions/{session_id}/messages")["items"]

    def last_words(self, session_id):
        for entry in reversed(self.transcript(session_id)):
            if entry["role"] == "assistant":
                return "".join(block.get("text", "") for block in entry["content"])
        return None

    def result(self, pending_id, output="done", title="Done", metadata=None, wait=None, **more):
        result = {"title": title, "output": output}
        if metadata is not None:
            result["metadata"] = metadata
        return self.post("/async-tool/result" + (f"?wait={wait}" if wait else ""),
                         {"pendingID": pending_id, "result": result}, **more)

    def wait_status(self, session_id, status, patience=PATIENCE):
        def has():
            session = self.session(session_id)
            return session if session["status"] == status else None
        return wait_until(has, f"{session_id} to be {status}", patience)

    def wait_kind(self, session_id, kind, count=1):
        """Until the log has so many records of a kind; returns them."""
        def has():
            found = [record for record in self.log(session_id) if record["kind"] == kind]
            return found if len(found) >= count else None
        return wait_until(has, f"{count} × {kind} in {session_id}")


def exchange(port, data, half_close=False, timeout=5):
    """Sends bytes as they are and returns everything that came until the other side closed."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(data)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        received = b""
        with contextlib.suppress(OSError):
            while chunk := connection.recv(65536):
                received += chunk
        return received


# ---- streams --------------------------------------------------------------------------------


class Event:
    def __init__(self, event_id, kind, data):
        self.id, self.kind, self.data = event_id, kind, data

    def __repr__(self):
        return f"<{self.kind} {self.id}>"


class Stream:
    """Reads server-sent events on a thread. `events` has all of them, in order."""

    def __init__(self, client, path, last_event_id=None):
        headers = {"Authorization": f"Bearer {client.token}"}
        if last_event_id is not None:
            headers["Last-Event-ID"] = str(last_event_id)
        self._connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=60)
        self._connection.request("GET", path, headers=headers)
        self._socket = self._connection.sock
        self.response = self._connection.getresponse()
        if self.response.status != 200:
            body = self.response.read()
            self._connection.close()
            raise AssertionError(f"no stream: {self.response.status} {body!r}")
        self.events = []
        self.retry = None
        self.closed = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        event_id, kind, data = None, None, []
        try:
            for raw in self.response:
                line = raw.decode().rstrip("\n").rstrip("\r")
                name, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if line == "":
                    if kind or data:
                        self.events.append(Event(event_id, kind, json.loads("\n".join(data))))
                    event_id, kind, data = None, None, []
                elif name == "id":
                    event_id = value
                elif name == "event":
                    kind = value
                elif name == "data":
                    data.append(value)
                elif name == "retry":
                    self.retry = int(value)
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            pass
        finally:
            self.closed.set()

    def records(self):
        """Those that stand in the log."""
        return [event for event in list(self.events) if event.id is not None and event.kind != "snapshot"]

    def seqs(self):
        return [event.data["seq"] for event in self.records()]

    def wait_for(self, kind, count=1):
        def has():
            found = [event for event in list(self.events) if event.kind == kind]
            return found if len(found) >= count else None
        return wait_until(has, f"{count} × {kind} in the stream")

    def last_id(self):
        ids = [event.id for event in list(self.events) if event.id is not None]
        return ids[-1] if ids else None

    def stop(self):
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._connection.close()


class SlowReader:
    """A stream whose reader takes nothing until it is told to. The receive buffer is kept small."""

    def __init__(self, client, path):
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.settimeout(30)
        self._socket.connect(("127.0.0.1", client.port))
        self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                             f"Authorization: Bearer {client.token}\r\n\r\n".encode())
        self._head = b""
        while b"\r\n\r\n" not in self._head:  # from now on it takes nothing
            self._head += self._socket.recv(1)

    def read_all(self):
        received = self._head
        with contextlib.suppress(OSError):
            while chunk := self._socket.recv(65536):
                received += chunk
        return received

    def stop(self):
        self._socket.close()


# ---- a system outside -----------------------------------------------------------------------


class Broken(Exception):
    """Raised by a tool server's answer: the connection ends without one."""


class Received:
    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.at = time.monotonic()

    @property
    def json(self):
        return json.loads(self.body)


class ToolServer:
    """Answers requests as told and remembers them. on(path, answer): a JSON value, a (status, body)
    pair, or a function of the request that gives one; a list is used up one by one, its last for ever."""

    def __init__(self):
        self.received = []
        self._answers = {}
        self._lock = threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self):
                length = int(self.headers.get("Content-Length") or 0)
                request = Received(self.command, self.path, self.headers, self.rfile.read(length))
                with outer._lock:
                    outer.received.append(request)
                try:
                    status, body = outer._answer(request)
                except Broken:
                    self.close_connection = True
                    with contextlib.suppress(OSError):
                        self.connection.shutdown(socket.SHUT_RDWR)
                    return
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def on(self, path, answer):
        with self._lock:
            self._answers[path] = answer

    def _answer(self, request):
        with self._lock:
            answer = self._answers.get(urllib.parse.urlsplit(request.path).path, (200, {}))
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, BaseException) or answer is Broken:
            raise Broken
        if callable(answer):
            answer = answer(request)
        return answer if isinstance(answer, tuple) else (200, answer)

    def requests(self, path=None):
        with self._lock:
            return [r for r in self.received if path is None or urllib.parse.urlsplit(r.path).path == path]

    def wait_for(self, path, count=1, patience=PATIENCE):
        return wait_until(lambda: (found := self.requests(path)) if len(self.requests(path)) >= count else None,
                          f"{count} requests to {path}", patience)

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


# ---- the server -----------------------------------------------------------------------------


def _die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Server:
    """One data directory and the process that has it, if any."""

    def __init__(self, setup=None, env=None, arguments=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rouse-e2e-"))
        self.data = self.folder / "data"
        self.setup, self.arguments = setup, list(arguments)
        self.env = dict(env or {})
        self.process = None
        self._stderr = None
        self._log_begins = 0
        self.port = None

    def command(self):
        command = [BINARY, "serve", "--data", str(self.data), "--listen", "127.0.0.1:0"]
        if self.setup is not None:
            command += ["--config", str(self.setup.write(self.folder))]
        return command + self.arguments

    def environment(self):
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith("ROUSE_") and not key.lower().endswith("_proxy")}
        return {**clean, **self.env}

    def start(self):
        assert not self.alive(), "the server is running already"
        self._log_begins = len(self.stderr())
        self._stderr = open(self.folder / "stderr", "ab")
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=self._stderr, env=self.environment(), cwd=self.folder,
                                        preexec_fn=_die_with_parent)
        self.port = None
        for raw in self.process.stdout:
            line = raw.decode()
            if line.startswith("listening on "):
                self.port = urllib.parse.urlsplit(line.split()[-1]).port
                break
        if self.port is None:
            code = self.process.wait()
            self._close_pipes()
            raise AssertionError(f"the server did not start: exit code {code}\n{self.stderr()}")
        # What it prints later must not fill the pipe.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def _close_pipes(self):
        if self._stderr:
            self._stderr.close()
            self._stderr = None

    def kill(self):
        """Power off for the process: SIGKILL, and nobody is asked."""
        if self.alive():
            self.process.kill()
        if self.process is not None:
            self.process.wait()
            self._close_pipes()
        self.process = None

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, patience=PATIENCE):
        """Until the process has ended; its exit code."""
        code = self.process.wait(patience)
        self._close_pipes()
        self.process = None
        return code

    def stop(self):
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def restart(self, setup=None):
        """kill -9, a look at what is on disk, and a new process on the same directory."""
        self.kill()
        self.verify()
        if setup is not None:
            self.setup = setup
        return self.start()

    def verify(self):
        done = subprocess.run([BINARY, "verify", str(self.data)], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"rouse verify: exit code {done.returncode}\n{done.stdout}{done.stderr}")

    def stderr(self):
        path = self.folder / "stderr"
        return path.read_text(errors="replace") if path.exists() else ""

    def events(self, name):
        """The log lines of this process with that event."""
        found = []
        for line in self.stderr()[self._log_begins:].splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if entry.get("event") == name:
                    found.append(entry)
        return found

    def sockets(self):
        """How many the process has open, those that it listens on among them."""
        count = 0
        for link in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                count += os.readlink(link).startswith("socket:")
        return count

    def token(self):
        return (self.data / "token").read_text().strip()

    def client(self, token=""):
        """With the admin token, unless another one (or None) is given."""
        return Client(self.port, self.token() if token == "" else token)

    def remove(self):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- cases ----------------------------------------------------------------------------------


class Case(unittest.TestCase):
    """Tests that share a data directory and a configuration, each with a process of its own.

    After every test the process is killed with SIGKILL, wherever it stands, and the directory must
    pass `rouse verify`. Set fresh = True for a directory of its own per test.
    """

    setup = None       # a Setup; None: the demo
    env = {}
    fresh = False
    maxDiff = None
    _shared = None

    @classmethod
    def make_setup(cls):
        """For configurations that need a tool server's address."""
        return cls.setup

    @classmethod
    def setUpClass(cls):
        cls.outside = ToolServer()
        cls._shared = None

    @classmethod
    def tearDownClass(cls):
        cls.outside.stop()
        if cls._shared is not None:
            cls._shared.remove()

    def setUp(self):
        cls = type(self)
        self._log_begins = 0
        if self.fresh:
            self.server = self.add_server()
        else:
            if cls._shared is None:
                cls._shared = Server(cls.make_setup(), cls.env)
            self.server = cls._shared
            self.server.setup = cls.make_setup()  # whatever the test before changed
            self._log_begins = len(self.server.stderr())
            if not self.server.alive():
                self.server.start()
        self.client = self.server.client()

    def tearDown(self):
        result = self._outcome.result
        failed = [getattr(test, "test_case", test) for test, _ in result.failures + result.errors]
        if self in failed:
            tail = "\n".join(self.server.stderr()[self._log_begins:].splitlines()[-25:])
            print(f"--- the server's log in {self.id()}:\n{tail}")
        self.server.kill()
        if not self.fresh:
            self.server.verify()

    def add_server(self, setup="", env=None, start=True, **more):
        """A server with a directory of its own, gone when the test is over."""
        server = Server(self.make_setup() if setup == "" else setup, {**self.env, **(env or {})}, **more)

        def end():
            server.kill()
            try:
                if (server.data / "format").exists():
                    server.verify()
            finally:
                server.remove()
        self.addCleanup(end)
        return server.start() if start else server

    def restart(self, setup=None):
        """kill -9 and a new process; the clients are made anew."""
        self.server.restart(setup)
        self.client = self.server.client()
        return self.client

    def stream(self, path, last_event_id=None, client=None):
        stream = Stream(client or self.client, path, last_event_id)
        self.addCleanup(stream.stop)
        return stream

    def token(self, scope, tasks=None):
        """A client with a new API token."""
        body = {"name": f"test {scope}", "scope": scope}
        if tasks is not None:
            body["tasks"] = tasks
        answer = self.client.post("/v1/tokens", body)
        self.assertEqual(answer.status, 201, answer)
        return self.server.client(answer["token"])

    def background(self, function, *arguments, **named):
        """Runs a call on a thread; returns a function that waits for its value."""
        box = {}

        def work():
            try:
                box["value"] = function(*arguments, **named)
            except BaseException as error:  # handed to whoever asks
                box["error"] = error
        thread = threading.Thread(target=work, daemon=True)
        thread.start()

        def join():
            thread.join(PATIENCE)
            self.assertFalse(thread.is_alive(), "the request was not answered")
            if "error" in box:
                raise box["error"]
            return box["value"]
        return join

    # What answers must look like.

    def assert_status(self, answer, status):
        self.assertEqual(answer.status, status, answer)
        return answer

    def assert_problem(self, answer, status, code):
        self.assertEqual((answer.status, answer.code), (status, code), answer)
        self.assertEqual(answer.headers["Content-Type"], "application/problem+json")
        problem = answer.json
        self.assertEqual(problem["type"], f"urn:rouse:error:{code}")
        self.assertEqual(problem["status"], status)
        self.assertTrue(problem["title"] and problem["detail"], problem)
        return answer

    @contextlib.contextmanager
    def nothing_changes(self, session_id):
        """The session's log is the same before and after."""
        before = self.client.log(session_id)
        yield
        self.assertEqual(self.client.log(session_id), before)


def every(cases):
    """Runs a test method once per case of a table; the method takes a case's values."""
    def mark(test):
        @functools.wraps(test)
        def run(self):
            for name, *values in cases:
                with self.subTest(name):
                    test(self, *values)
        del run.__wrapped__
        return run
    return mark
