"""The two programs that every campaign drives, and the book of what was acknowledged.

  store_workload   commits and prints `ack <k> <session> <seq>` for each durable commit; exit 3 and
                   a message on stderr when the store reports a failure, no ack after that
  store_check      recovers a directory and compares it with such lines; exit 1 and a reason when
                   something acknowledged is missing or broken
"""
import dataclasses
import os
import pathlib
import random
import signal
import subprocess

from lab import Lab, Trouble, die_with_parent

_CHECK_SECONDS = 120


@dataclasses.dataclass(frozen=True)
class Options:
    sessions: int = 8
    checkpoint_every: int = 100
    segment_bytes: int = 1 << 20
    commits: int | None = None  # None: until it is stopped

    @staticmethod
    def varied(rng: random.Random) -> "Options":
        return Options(sessions=rng.choice((1, 4, 16, 64)),
                       checkpoint_every=rng.choice((10, 50, 250, 1000)),
                       segment_bytes=rng.choice((1 << 16, 1 << 18, 1 << 20, 1 << 22)))

    def argv(self) -> list[str]:
        words = ["--sessions", str(self.sessions), "--checkpoint-every", str(self.checkpoint_every),
                 "--segment-bytes", str(self.segment_bytes)]
        return words if self.commits is None else [*words, "--commits", str(self.commits)]


def workload_argv(lab: Lab, directory: pathlib.Path, options: Options) -> list[str]:
    argv = [str(lab.programs / "store_workload"), "--dir", str(directory),
            "--seed", str(lab.rng.randrange(1, 1 << 31)), *options.argv()]
    return argv if lab.break_ == "none" else [*argv, "--break", lab.break_]


class Transcript:
    """What a workload printed, both streams in one file, so that the order of lines is known."""

    def __init__(self, text: str):
        whole = text[:text.rfind("\n") + 1]  # a line without its end was never said
        self.lines = whole.splitlines()
        self.acks = [line for line in self.lines if line.startswith("ack ")]
        # The store's own log (JSON lines) may run ahead of acknowledgements that other threads are
        # about to print; the workload's message may not.
        self.messages = [line for line in self.lines if not line.startswith(("ack ", "{"))]

    def ack_after_message(self) -> str | None:
        """A reason when an acknowledgement follows a message: the store had failed by then."""
        if not self.messages:
            return None
        report = self.lines.index(self.messages[0])
        late = [line for line in self.lines[report:] if line.startswith("ack ")]
        return f"{len(late)} acks after '{self.messages[0]}', first: {late[0]}" if late else None

    def tail(self) -> str:
        return " | ".join(line for line in self.lines[-5:] if not line.startswith("ack ")) or \
            "(no message)"


class Workload:
    """A running store_workload. Its transcript lies outside the file system that is harmed."""

    def __init__(self, lab: Lab, directory: pathlib.Path, options: Options,
                 extra_env: dict[str, str] | None = None):
        self.argv = workload_argv(lab, directory, options)
        self.path = lab.scratch / "transcript"
        with open(self.path, "wb") as out:
            self._process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, **(extra_env or {})}, start_new_session=True,
                preexec_fn=die_with_parent)

    def __enter__(self) -> "Workload":
        return self

    def __exit__(self, *error) -> None:
        self.kill()

    def transcript(self, since: int = 0, until: int | None = None) -> Transcript:
        """What was printed between two values of `printed_bytes`."""
        return Transcript(self.path.read_bytes()[since:until].decode(errors="replace"))

    def printed_bytes(self) -> int:
        return self.path.stat().st_size

    def exit_code(self) -> int | None:
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None when it still runs after that time."""
        try:
            return self._process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def must_run(self) -> None:
        code = self.exit_code()
        if code is not None:
            raise Trouble(f"the workload ended by itself, exit {code}: {self.transcript().tail()}"
                          f" ({' '.join(self.argv)})")


class AckBook:
    """All acknowledgements that one directory must still honour, over several lives of it."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.count = 0
        path.write_text("")

    def add(self, acks: list[str]) -> None:
        with open(self.path, "a") as file:
            file.writelines(line + "\n" for line in acks)
        self.count += len(acks)


def check(lab: Lab, directory: pathlib.Path, book: AckBook, acked: int | None = None) -> str | None:
    """None when all is there, else the reason. Changes the directory: it recovers it."""
    argv = [str(lab.programs / "store_check"), "--dir", str(directory), "--acks", str(book.path),
            "--acked", str(book.count if acked is None else acked)]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=_CHECK_SECONDS, preexec_fn=die_with_parent)
    except subprocess.TimeoutExpired:
        return f"store_check: no end after {_CHECK_SECONDS} s"
    if done.returncode == 0:
        return None
    reason = " | ".join(done.stdout.strip().splitlines()[-3:])
    if done.returncode == 1:
        return reason or "store_check: exit 1 without a reason"
    raise Trouble(f"store_check: exit {done.returncode}: {reason}")
