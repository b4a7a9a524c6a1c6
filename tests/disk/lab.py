"""Where the disk campaigns work: scratch space, disk images, mounts, and helpers that never leak.

Mounts are made in a mount namespace of our own, children die with us (`die_with_parent`), and a
janitor clears up: nothing is left behind, even when a campaign is killed with SIGKILL.
"""
import contextlib
import ctypes
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

_MARK = "ROUSE_DISK_NAMESPACE"
_SCRATCH_MB = 1024

# A minute between the file system's own commits, and none of ext4's kindness to programs that
# rename without fsync: what the store does not sync stays out of the image.
UNKIND = "commit=60,noauto_da_alloc"


class Skip(Exception):
    """This machine cannot run the campaign; the text says what is missing."""


class Trouble(Exception):
    """The harness or a program went wrong in a way that says nothing about lost data."""


def enter_namespace() -> None:
    """Starts this program again, as root in a mount namespace of its own where that is allowed."""
    if os.environ.get(_MARK) or os.geteuid() != 0:
        return
    unshare = ["unshare", "--mount", "--propagation", "private"]
    try:
        probe = subprocess.run([*unshare, "true"], capture_output=True)
    except FileNotFoundError:
        return
    if probe.returncode == 0:
        os.environ[_MARK] = "1"
        os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv])


_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """For preexec_fn: the child gets SIGKILL as soon as the campaign is gone."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def run(*argv: object, accept: tuple[int, ...] = (0,), timeout: float = 60) -> str:
    """Runs a command to its end and returns what it printed; Trouble when it fails."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Trouble(f"{' '.join(words)}: no end after {timeout:.0f} s") from None
    if done.returncode not in accept:
        raise Trouble(f"{' '.join(words)}: exit {done.returncode}: {done.stdout.strip()[-400:]}")
    return done.stdout


def wait_until(condition, what: str, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Trouble(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.005)


def copy_file(source: pathlib.Path, target: pathlib.Path) -> None:
    """Copies an image and leaves its holes holes."""
    run("cp", "--sparse=always", source, target)


def make_image(path: pathlib.Path, megabytes: int) -> pathlib.Path:
    with open(path, "wb") as file:
        file.truncate(megabytes << 20)
    run("mkfs.ext4", "-q", "-F", "-b", "4096", "-m", "0", "-J", "size=4",
        "-E", "lazy_itable_init=0,nodiscard", path)
    return path


def unmount(mount_point: pathlib.Path) -> None:
    """A file system that was just shut down, or whose user just died, is busy for a moment."""
    for _ in range(200):
        if subprocess.run(["umount", mount_point], capture_output=True).returncode == 0:
            return
        time.sleep(0.02)
    run("umount", "--lazy", mount_point)
    raise Trouble(f"{mount_point} stayed busy for 4 s")


@contextlib.contextmanager
def mounted(image: pathlib.Path, mount_point: pathlib.Path, options: str = ""):
    """Mounts an image through a loop device that the kernel frees by itself at the unmount."""
    mount_point.mkdir(exist_ok=True)
    run("mount", "-o", ",".join(filter(None, ("loop", options))), image, mount_point)
    try:
        yield mount_point
    finally:
        unmount(mount_point)


@contextlib.contextmanager
def daemon(*argv: object):
    """A helper process that ends with the block."""
    process = subprocess.Popen([str(word) for word in argv], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True, preexec_fn=die_with_parent)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Lab:
    """Scratch space, the source of randomness, and the place where evidence of a loss is kept."""

    def __init__(self, programs: pathlib.Path, seed: int, evidence: pathlib.Path, break_: str):
        self.programs = programs
        self.seed = seed
        self.rng = random.Random(seed)
        self.break_ = break_
        self._evidence = evidence
        self._kept = 0

    def __enter__(self) -> "Lab":
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="rouse-disk-"))
        janitor = pathlib.Path(__file__).with_name("janitor.py")
        self._janitor = subprocess.Popen([sys.executable, janitor, self.scratch], text=True,
                                         stdin=subprocess.PIPE, start_new_session=True)
        if os.environ.get(_MARK) and _available_mb() > 2 * _SCRATCH_MB:
            # Images in memory: the machine's own disk is neither waited for nor worn.
            run("mount", "-t", "tmpfs", "-o", f"size={_SCRATCH_MB}m", "rouse-disk", self.scratch)
        return self

    def __exit__(self, *error) -> None:
        self._janitor.stdin.close()
        self._janitor.wait()

    @contextlib.contextmanager
    def setting(self, path: pathlib.Path, value: str):
        """A kernel setting with this value during the block; the janitor knows the old one too."""
        before = path.read_text().strip()
        print("restore", path, before, file=self._janitor.stdin, flush=True)
        path.write_text(value)
        try:
            yield
        finally:
            path.write_text(before)

    def restart(self) -> None:
        """Empties the scratch space and rewinds the randomness: campaigns do not see each other."""
        for path in self.scratch.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.rng = random.Random(self.seed)
        self._kept = 0

    def discard(self, path: pathlib.Path) -> None:
        """Frees the space of what a campaign has examined."""
        shutil.rmtree(path)

    def need(self, *tools: str) -> None:
        missing = [tool for tool in tools if not shutil.which(tool)]
        if missing:
            raise Skip(f"not installed: {', '.join(missing)} (scripts/bootstrap test installs them)")

    def need_programs(self) -> None:
        for name in ("store_workload", "store_check"):
            if not os.access(self.programs / name, os.X_OK):
                raise Trouble(f"{self.programs / name} is missing: build the release preset first")

    def need_loop_mounts(self) -> None:
        if os.geteuid() != 0:
            raise Skip("needs root, to mount images")
        if not os.environ.get(_MARK):
            raise Skip("this root may not make a mount namespace (a container without privileges?)")
        self.need("mkfs.ext4", "mount", "umount")
        probe = make_image(self.scratch / "probe.img", 16)
        try:
            with mounted(probe, self.scratch / "probe"):
                pass
        except Trouble as trouble:
            raise Skip(f"cannot mount an image: {trouble}") from None

    def need_fuse(self) -> None:
        if not os.path.exists("/dev/fuse"):
            raise Skip("no /dev/fuse on this machine")

    def keep(self, name: str, note: str, *files: pathlib.Path) -> None:
        """Saves what a person needs to look at a loss again; the first three of a campaign."""
        self._kept += 1
        if self._kept > 3:
            return
        folder = self._evidence / f"{name}-seed{self.seed}-{self._kept}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "note.txt").write_text(note + "\n")
        for file in files:
            run("cp", "--sparse=always", "--recursive", file, folder / file.name)
        print(f"  kept for inspection: {folder}", flush=True)


def _available_mb() -> int:
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) >> 10
    return 0
