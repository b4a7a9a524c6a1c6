"""The server as a process, and a client that knows what it did not hear.

A `Site` is where the server is at the moment: it comes and goes with kills, and each start has a
port of its own. Clients wait for it to come back.
"""
import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from lab import Trouble, die_with_parent

_ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
_START_SECONDS = 30
_ANSWER_SECONDS = 30
_STOP_SECONDS = 20


class Broken(Exception):
    """The connection ended before the answer: what was asked may have happened or not."""


class Silent(Exception):
    """The server is up and does not answer."""


class Crashed(Trouble):
    """The server did not start, not stop, or ended by itself: a violation, and no more to run."""


class Ended(Exception):
    """The campaign is over: there is no server any more."""


def take_binary(into: pathlib.Path) -> pathlib.Path:
    """A copy of the program, so that a build in the meantime changes nothing in this run."""
    source = pathlib.Path(os.environ.get("ROUSE_BINARY", _ROOT / "build/release/rouse"))
    if not os.access(source, os.X_OK):
        raise Trouble(f"{source} is missing: build the release preset first, or set ROUSE_BINARY")
    target = into / "rouse"
    while True:
        before = source.stat().st_mtime_ns
        if not shutil.which("strip") or \
                subprocess.run(["strip", "-o", target, source], capture_output=True).returncode:
            shutil.copy(source, target)
        runs = subprocess.run([target, "version"], capture_output=True).returncode == 0
        if runs and source.stat().st_mtime_ns == before:
            return target
        time.sleep(1)  # it is being linked


class Site:
    """The address of the moment. `up` is cleared before the server dies, so that whatever is heard
    while it is set was heard from a living one."""

    def __init__(self):
        self._changed = threading.Condition()
        self._address = None
        self._ended = False
        self.token = ""
        self.up = threading.Event()

    def opened(self, port: int, token: str) -> None:
        with self._changed:
            self._address, self.token = ("127.0.0.1", port), token
            self.up.set()
            self._changed.notify_all()

    def closed(self) -> None:
        with self._changed:
            self.up.clear()
            self._address = None

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def address(self) -> tuple[str, int]:
        """Waits until there is one."""
        with self._changed:
            while self._address is None and not self._ended:
                self._changed.wait()
            if self._ended:
                raise Ended
            return self._address


class Server:
    """One process after the other on the same data directory."""

    def __init__(self, binary: pathlib.Path, data: pathlib.Path, config: pathlib.Path | None,
                 log: pathlib.Path):
        self.site = Site()
        self.data = data
        self.log = log  # what all the processes said
        self._argv = [str(binary), "serve", "--data", str(data), "--listen", "127.0.0.1:0"]
        if config:
            self._argv += ["--config", str(config)]
        self._process = None

    def spawn(self) -> None:
        """Starts a process and does not wait for it."""
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL,
                                             stdout=subprocess.PIPE, stderr=log,
                                             start_new_session=True, preexec_fn=die_with_parent)

    def await_up(self) -> None:
        watchdog = threading.Timer(_START_SECONDS, self._process.kill)
        watchdog.start()
        try:
            for line in self._process.stdout:
                found = re.match(rb"listening on http://127\.0\.0\.1:(\d+)", line)
                if found:
                    self.site.opened(int(found[1]), (self.data / "token").read_text().strip())
                    return
        finally:
            watchdog.cancel()
        raise Crashed(f"the server did not start, exit {self._process.wait()}: {self.last_words()}")

    def start(self) -> None:
        self.spawn()
        self.await_up()

    @contextlib.contextmanager
    def unbroken(self):
        """Nobody kills the server in here, so that a broken connection is its own doing."""
        try:
            yield
        except Broken:
            time.sleep(0.3)
            self.must_run()
            raise Crashed("the server closed a connection without an answer") from None

    def must_run(self) -> None:
        code = self._process.poll()
        if code is not None:
            raise Crashed(f"the server ended by itself, exit {code}: {self.last_words()}")

    def kill(self) -> None:
        self.site.closed()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()

    def stop(self) -> None:
        """Politely; Trouble when it does not go, or not cleanly. What it still says counts."""
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise Crashed(f"the server does not stop on SIGTERM within {_STOP_SECONDS} s") from None
        finally:
            self.site.closed()
        self._process.stdout.close()
        if code != 0:
            raise Crashed(f"stopped with SIGTERM, the server says {code}: {self.last_words()}")

    def end(self) -> None:
        """However the campaign ended: no process and no waiting client is left."""
        self.site.end()
        if self._process and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        return " | ".join(self.log.read_text(errors="replace").splitlines()[-4:])


def verify(binary: pathlib.Path, data: pathlib.Path) -> dict:
    """What `rouse verify` has to say."""
    done = subprocess.run([binary, "verify", "--json", data], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Trouble(f"verify: exit {done.returncode}: {done.stderr.strip()[-400:]}") from None


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    body: dict
    replayed: bool = False

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def code(self) -> str:
        return self.body.get("code", "")


class Client:
    """One connection at a time, opened again whenever it broke. Not for two threads."""

    def __init__(self, site: Site):
        self._site = site
        self._connection = None
        self._address = None

    def close(self) -> None:
        if self._connection:
            self._connection.close()
        self._connection = None

    def ask(self, method: str, path: str, body: dict | None = None,
            key: str | None = None) -> Answer:
        """The answer, or Broken when it is not known what happened."""
        address = self._site.address()
        if address != self._address:
            self.close()
        if not self._connection:
            self._connect(address)
        headers = {"Authorization": f"Bearer {self._site.token}"}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        if key:
            headers["Idempotency-Key"] = key
        try:
            self._connection.request(method, path, data, headers)
            response = self._connection.getresponse()
            text = response.read()
        except TimeoutError:
            self.close()
            if self._site.up.is_set():
                raise Silent(f"{method} {path}: no answer within {_ANSWER_SECONDS} s") from None
            raise Broken from None
        except (OSError, http.client.HTTPException):
            self.close()
            raise Broken from None
        if not self._site.up.is_set():
            # Heard from a server that is being killed: whoever dies with it has heard nothing.
            raise Broken
        if response.will_close:
            self.close()
        replayed = response.getheader("Idempotency-Replayed") == "true"
        return Answer(response.status, json.loads(text) if text else {}, replayed)

    def _connect(self, address: tuple[str, int]) -> None:
        self._address = address
        connection = http.client.HTTPConnection(*address, timeout=_ANSWER_SECONDS)
        try:
            connection.connect()
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            time.sleep(0.002)
            raise Broken from None
        self._connection = connection

    def settled(self, method: str, path: str, body: dict | None = None) -> Answer:
        """Asks until there is an answer. For reading, and for what may be said twice."""
        while True:
            try:
                return self.ask(method, path, body)
            except Broken:
                time.sleep(0.005)
