"""Block replay: what a disk with a volatile cache may leave behind.

Every block write and flush below a real ext4 is recorded. Then the disk is rebuilt as a power cut
could have left it: cut after any write, with a random part of the unflushed writes missing and one
of them torn. This finds what a shutdown of the file system cannot: a rename without fsync, a
directory that was not synced.
"""
import bisect
import contextlib
import dataclasses
import os
import pathlib
import struct
import subprocess

from lab import (UNKIND, Lab, Trouble, copy_file, daemon, die_with_parent, make_image, mounted, run,
                 unmount, wait_until)
from programs import AckBook, Options, Transcript, check, workload_argv
from tally import Tally

_IMAGE_MB = 256
_POINTS_PER_RECORDING = 50
_SECTOR = 512
_FLUSH, _FUA, _DISCARD = 1, 2, 4


def block_replay(lab: Lab, points: int, *, options: Options | None = None,
                 stop_at_first: bool = False) -> Tally:
    lab.need("qemu-storage-daemon")
    lab.need_fuse()
    lab.need_loop_mounts()
    tally = Tally("block-replay", "points", lab.seed, points)
    while tally.trials < points and not (stop_at_first and tally.lost):
        recording = _record(lab, options or Options.varied(lab.rng))
        _replay(lab, recording, min(_POINTS_PER_RECORDING, points - tally.trials), tally,
                stop_at_first)
    return tally


@dataclasses.dataclass(frozen=True)
class BlockWrite:
    """One entry of the log: a write, a discard, or (with no bytes) a flush."""
    offset: int
    size: int
    flags: int
    data_at: int  # where the bytes are in the log file

    def bytes_from(self, log) -> bytes:
        if self.flags & _DISCARD:
            return bytes(self.size)
        log.seek(self.data_at)
        return log.read(self.size)


@dataclasses.dataclass
class Recording:
    base: pathlib.Path
    log: pathlib.Path
    book: AckBook
    command: str
    acked_at: list[int]  # for each acknowledgement: how many writes were logged when it was seen
    first_cut: int
    last_cut: int
    writes: list[BlockWrite]


def _count_logged(log: pathlib.Path) -> int:
    with open(log, "rb") as file:
        return struct.unpack("<QQQI", file.read(28))[2]


def _read_log(log: pathlib.Path) -> list[BlockWrite]:
    """The dm-log-writes format: a header sector, then a sector and the data for each write."""
    writes = []
    with open(log, "rb") as file:
        _, _, count, sector = struct.unpack("<QQQI", file.read(28))
        at = sector
        for _ in range(count):
            file.seek(at)
            first, sectors, flags, _ = struct.unpack("<QQQQ", file.read(32))
            at += sector
            writes.append(BlockWrite(first * sector, sectors * sector, flags, at))
            if not flags & _DISCARD:
                at += sectors * sector
    return writes


@contextlib.contextmanager
def _recorded_disk(lab: Lab, base: pathlib.Path, log: pathlib.Path):
    """A copy of `base` as a file whose every write and flush is noted in `log`."""
    disk, exported = lab.scratch / "disk.img", lab.scratch / "recorded.img"
    copy_file(base, disk)
    with open(log, "wb") as file:
        file.truncate(2 << 30)
    exported.write_bytes(b"")
    with daemon("qemu-storage-daemon",
                "--blockdev", f"driver=file,node-name=disk,filename={disk}",
                "--blockdev", f"driver=file,node-name=log,filename={log}",
                "--blockdev", "driver=blklogwrites,node-name=both,file=disk,log=log,"
                              "log-super-update-interval=1",
                "--export", f"type=fuse,id=file,node-name=both,mountpoint={exported},writable=on"):
        wait_until(lambda: exported.stat().st_size > 0, "qemu-storage-daemon exports the disk")
        try:
            yield exported
        finally:
            unmount(exported)


def _record(lab: Lab, options: Options) -> Recording:
    """Two lives of a store: one killed in the middle, then a recovery that ends by itself."""
    base, log = make_image(lab.scratch / "base.img", _IMAGE_MB), lab.scratch / "log.img"
    book, acked_at = AckBook(lab.scratch / "acks"), []
    commits = lab.rng.randrange(100, 500)
    with _recorded_disk(lab, base, log) as device:
        with mounted(device, lab.scratch / "mnt", UNKIND) as mount_point:
            directory = mount_point / "data"
            directory.mkdir()
            run("sync", "--file-system", mount_point)
            first_cut = _count_logged(log)
            for life, stop_after in ((options, commits),
                                     (dataclasses.replace(options, commits=commits), None)):
                argv = workload_argv(lab, directory, life)
                acks, seen_at = _follow(argv, log, stop_after)
                book.add(acks)
                acked_at += seen_at
            last_cut = _count_logged(log)
    return Recording(base, log, book, " ".join(argv[1:]), acked_at, first_cut, last_cut,
                     _read_log(log))


def _follow(argv: list[str], log: pathlib.Path, stop_after: int | None) -> tuple[list[str], list[int]]:
    """Reads the acknowledgements as they come, each with the length of the log at that moment."""
    seen_at, lines = [], []
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace",
                               preexec_fn=die_with_parent)
    try:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("ack "):
                seen_at.append(_count_logged(log))
            if stop_after is not None and len(seen_at) >= stop_after:
                process.kill()
                break
        code = process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    transcript = Transcript("".join(lines))
    if stop_after is None and code != 0 or not transcript.acks:
        raise Trouble(f"the recorded workload ended with {code}: {transcript.tail()}")
    return transcript.acks, seen_at[:len(transcript.acks)]


def _replay(lab: Lab, recording: Recording, points: int, tally: Tally, stop_at_first: bool) -> None:
    """Goes through random cuts in rising order, so that what was flushed is applied only once."""
    durable, image = lab.scratch / "durable.img", lab.scratch / "cut.img"
    copy_file(recording.base, durable)
    applied = 0
    for cut in _choose_cuts(lab, recording, points):
        flushed = max((n for n in range(applied, cut) if recording.writes[n].flags & _FLUSH),
                      default=applied)
        _apply(durable, recording, [(n, None) for n in range(applied, flushed)])
        applied = flushed
        kept = _choose(lab, recording, flushed, cut)
        copy_file(durable, image)
        _apply(image, recording, kept)

        acked = bisect.bisect_right(recording.acked_at, cut)
        with _mounted_after_cut(image, lab.scratch / "mnt") as mount_point:
            reason = check(lab, mount_point / "data", recording.book, acked)
        where = (f"cut after write {cut} of {len(recording.writes)}, {len(kept)} of {cut - flushed} "
                 f"unflushed kept, {acked} acks, {recording.command}")
        if tally.count(acked, reason, where):
            if stop_at_first:
                return
            copy_file(durable, image)
            _apply(image, recording, kept)
            lab.keep(tally.name, f"{where}\n{reason}", image, recording.book.path)


def _choose_cuts(lab: Lab, recording: Recording, points: int) -> list[int]:
    """Half of them anywhere, half just before a flush, where the most is at stake."""
    anywhere = range(recording.first_cut, recording.last_cut + 1)
    risky = [n for n in anywhere[:-1] if recording.writes[n].flags & _FLUSH] or anywhere
    return sorted(lab.rng.choice(lab.rng.choice((anywhere, risky))) for _ in range(points))


def _choose(lab: Lab, recording: Recording, flushed: int, cut: int) -> list[tuple[int, list | None]]:
    """Which unflushed writes survive, each whole (None) or with a list of its sectors."""
    survival = lab.rng.choice((0.1, 0.5, 0.9))
    loose = [n for n in range(flushed, cut) if recording.writes[n].size]
    kept = [n for n in loose
            if recording.writes[n].flags & _FUA or lab.rng.random() < survival]
    torn = lab.rng.choice(kept) if kept and lab.rng.random() < 0.4 else None
    return [(n, _some_sectors(lab, recording.writes[n]) if n == torn else None) for n in kept]


def _some_sectors(lab: Lab, write: BlockWrite) -> list[int]:
    sectors = range(write.size // _SECTOR)
    middle = lab.rng.randrange(len(sectors) + 1)
    return lab.rng.choice((list(sectors[:middle]), list(sectors[middle:]),
                           [n for n in sectors if lab.rng.random() < 0.5]))


def _apply(image: pathlib.Path, recording: Recording, chosen: list[tuple[int, list | None]]) -> None:
    with open(recording.log, "rb") as log, open(image, "r+b") as disk:
        for number, sectors in chosen:
            write = recording.writes[number]
            data = write.bytes_from(log)
            if sectors is None:
                os.pwrite(disk.fileno(), data, write.offset)
                continue
            for sector in sectors:
                at = sector * _SECTOR
                os.pwrite(disk.fileno(), data[at:at + _SECTOR], write.offset + at)


@contextlib.contextmanager
def _mounted_after_cut(image: pathlib.Path, mount_point: pathlib.Path):
    """A torn superblock is ext4's affair, not the store's: it gets its repair, as at a boot."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(mounted(image, mount_point))
        except Trouble:
            run("e2fsck", "-fy", image, accept=(0, 1, 2))
            stack.enter_context(mounted(image, mount_point))
        yield mount_point
