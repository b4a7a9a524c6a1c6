"""Power cuts: the file system is shut down under the running store.

The shutdown ioctl of ext4 drops all that is not on the disk and answers EIO from then on; the next
mount replays the file system's own journal. That is a power cut with a well-behaved disk.

The call is made from here and not by a tool: the few milliseconds until a tool has started are
enough for a careless store to sync what it had acknowledged too early.
"""
import contextlib
import fcntl
import os
import pathlib
import struct
import time

from lab import UNKIND, Lab, Skip, copy_file, make_image, mounted, run
from programs import AckBook, Options, Workload, check
from tally import Tally

_IMAGE_MB = 256
_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32)
_WITHOUT_LOG_FLUSH = struct.pack("I", 2)
_LIVES = 4  # cuts that one disk goes through, so that recovered stores are cut as well


def power_cut(lab: Lab, cycles: int, *, options: Options | None = None,
              stop_at_first: bool = False) -> Tally:
    lab.need_loop_mounts()
    tally = Tally("power-cut", "cuts", lab.seed, cycles)
    base = make_image(lab.scratch / "base.img", _IMAGE_MB)
    disk, examined = lab.scratch / "disk.img", lab.scratch / "examined.img"
    lives = _LIVES
    while tally.trials < cycles:
        if lives == _LIVES:
            copy_file(base, disk)
            book, lives = AckBook(lab.scratch / "acks"), 0
        lives += 1
        chosen = options or Options.varied(lab.rng)
        acks, command = _run_and_cut(lab, disk, book, chosen)

        copy_file(disk, examined)
        with mounted(examined, lab.scratch / "mnt") as mount_point:
            reason = check(lab, mount_point / "data", book)
        if tally.count(acks, reason, f"life {lives}, {book.count} acks, {command}"):
            if stop_at_first:
                break
            lab.keep(tally.name, f"{command}\n{reason}", disk, book.path)
            lives = _LIVES
        elif lab.rng.random() < 0.5:
            # The next life begins with what the check recovered and closed, else with the raw cut.
            copy_file(examined, disk)
    return tally


def _run_and_cut(lab: Lab, disk: pathlib.Path, book: AckBook, options: Options) -> tuple[int, str]:
    mount_options = lab.rng.choice((UNKIND, UNKIND, f"{UNKIND},data=writeback"))
    # One cut in four falls into the opening of the store.
    seconds = lab.rng.uniform(0.001, 0.03) if lab.rng.random() < 0.25 else lab.rng.uniform(0.03, 0.35)
    with mounted(disk, lab.scratch / "mnt", mount_options) as mount_point:
        directory = mount_point / "data"
        directory.mkdir(exist_ok=True)
        run("sync", "--file-system", mount_point)
        with power_switch(mount_point) as cut, Workload(lab, directory, options) as workload:
            time.sleep(seconds)
            workload.must_run()
            # Counted before the cut: a sync that races with the shutdown may return 0, but nobody
            # outside a dead machine has seen its acknowledgement.
            printed = workload.printed_bytes()
            cut()
    acks = workload.transcript(until=printed).acks
    book.add(acks)
    return len(acks), f"{seconds * 1000:.0f} ms of {' '.join(workload.argv[1:])}"


@contextlib.contextmanager
def power_switch(mount_point: pathlib.Path):
    root = os.open(mount_point, os.O_RDONLY)

    def cut() -> None:
        try:
            fcntl.ioctl(root, _SHUTDOWN, _WITHOUT_LOG_FLUSH)
        except OSError as error:
            raise Skip(f"this kernel does not shut an ext4 down: {error.strerror}") from None

    try:
        yield cut
    finally:
        os.close(root)
