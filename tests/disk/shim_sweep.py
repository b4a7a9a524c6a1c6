"""Shim sweep: every file operation of a real process on real files fails, tears or kills in turn.

Sweeps a short run on an empty directory, and the recovery of a directory whose writer was killed.
Errors come once and sticky, as in SQLite's tests. The data is still in the page cache, so the oracle
for errors is what the process does: it reports and stops, and acknowledges nothing afterwards.
"""
import dataclasses
import pathlib
import shutil

from lab import Lab, Trouble, run
from programs import AckBook, Options, Workload, check
from tally import Tally

_SOURCE = pathlib.Path(__file__).resolve().parent / "fault_shim.cc"
_OPS = "write,fsync,fdatasync,syncfs,rename,ftruncate,fallocate,open,mkdir,unlink"
_SYNCS = ("fsync", "fdatasync", "syncfs")
_RUN = Options(sessions=3, checkpoint_every=8, segment_bytes=1 << 16, commits=30)
_PATIENCE_SECONDS = 60


@dataclasses.dataclass(frozen=True)
class Fault:
    act: str
    ops: str = _OPS
    sticky: bool = False

    def __str__(self) -> str:
        return f"{self.act}{' from there on' if self.sticky else ''}"

    def kills(self) -> bool:
        return "KILL" in self.act


_FAULTS = (Fault("KILL_BEFORE"), Fault("KILL_AFTER"), Fault("TORN_KILL", "write"),
           Fault("SHORT", "write"), Fault("EIO"), Fault("EIO", sticky=True),
           Fault("ENOSPC"), Fault("ENOSPC", sticky=True))


@dataclasses.dataclass(frozen=True)
class Start:
    """What the swept process begins with: nothing, or a directory to recover."""
    name: str
    directory: pathlib.Path | None
    acks: list[str]


def shim_sweep(lab: Lab, points: int) -> Tally:
    lab.need("c++")
    library = lab.scratch / "libfault_shim.so"
    run("c++", "-std=c++20", "-O2", "-fPIC", "-shared", "-o", library, _SOURCE)
    plan = []
    for start in (Start("fresh", None, []), _killed_in_the_middle(lab, library)):
        for fault in _FAULTS:
            count = _count(lab, library, start, fault)
            plan += [(start, fault, number) for number in range(1, count + 1)]
    if 0 < points < len(plan):
        plan = lab.rng.sample(plan, points)
    tally = Tally("shim", "points", lab.seed, len(plan))
    for start, fault, number in plan:
        _try(lab, library, start, fault, number, tally)
    return tally


def _run_with(lab: Lab, library, start: Start, fault: Fault, number: int):
    """Runs the workload in a fresh copy of `start`; gives it back with what the shim noted."""
    directory, note = lab.scratch / "data", lab.scratch / "note"
    shutil.rmtree(directory, ignore_errors=True)
    note.unlink(missing_ok=True)
    if start.directory:
        shutil.copytree(start.directory, directory)
    env = {"LD_PRELOAD": str(library), "FAULT_PATH": str(directory), "FAULT_OPS": fault.ops,
           "FAULT_AT": str(number), "FAULT_ACT": fault.act, "FAULT_NOTE": str(note)}
    if fault.sticky:
        env["FAULT_STICKY"] = "1"
    with Workload(lab, directory, _RUN, env) as workload:
        code = workload.wait(_PATIENCE_SECONDS)
    return workload, code, note.read_text().splitlines() if note.exists() else []


def _count(lab: Lab, library, start: Start, fault: Fault) -> int:
    workload, code, note = _run_with(lab, library, start, fault, 0)
    if code != 0 or not note or not note[-1].startswith("count "):
        raise Trouble(f"run without a fault: exit {code}, shim noted {note}: "
                      f"{workload.transcript().tail()}")
    return int(note[-1].split()[1])


def _killed_in_the_middle(lab: Lab, library) -> Start:
    fresh, torn = Start("fresh", None, []), Fault("TORN_KILL", "write")
    middle = _count(lab, library, fresh, torn) * 2 // 3
    workload, _, _ = _run_with(lab, library, fresh, torn, middle)
    kept = lab.scratch / "killed"
    shutil.copytree(lab.scratch / "data", kept)
    return Start("recovery", kept, workload.transcript().acks)


def _try(lab: Lab, library, start: Start, fault: Fault, number: int, tally: Tally) -> None:
    workload, code, note = _run_with(lab, library, start, fault, number)
    transcript = workload.transcript()
    book = AckBook(lab.scratch / "acks")
    book.add(start.acks)
    book.add(transcript.acks)
    hit = next((line for line in note if not line.startswith("count ")), None)
    reason = _judge(fault, code, hit, transcript)
    directory = lab.scratch / "data"
    if not reason:
        directory.mkdir(exist_ok=True)
        reason = check(lab, directory, book)
    where = f"{start.name}: {fault} at operation {number} ({hit or 'not reached'})"
    if tally.count(book.count, reason, where):
        lab.keep(tally.name, f"{where}\n{' '.join(workload.argv[1:])}\n{reason}", directory, book.path)


def _judge(fault: Fault, code: int | None, hit: str | None, transcript) -> str | None:
    """What the process did about the fault. Threads make the count of operations vary a little, so
    a fault near the end may not be reached: then it must have ended well."""
    if code is None:
        return f"no end after {_PATIENCE_SECONDS} s"
    if hit is None or fault.act == "SHORT":
        return None if code == 0 else f"exit {code}: {transcript.tail()}"
    if fault.kills():
        return None if code == -9 else f"exit {code}, expected to be killed"
    operation, path = hit.split(" ", 1)
    # A full disk that shows while the next segment is prepared need not stop a run that ends first.
    if code == 0 and (operation in _SYNCS or fault.act == "EIO" and "/journal/" in path):
        return "exit 0, the error was not reported"
    if code not in (0, 3):
        return f"exit {code}: {transcript.tail()}"
    return transcript.ack_after_message()
