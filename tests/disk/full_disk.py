"""Full disk: the store runs until a small file system has no block left.

It must stop with an error and keep what it acknowledged. Once there is room again it must go on.
"""
import dataclasses
import os
import pathlib

from lab import Lab, copy_file, make_image, mounted, run
from programs import AckBook, Options, Workload, check
from tally import Tally

_IMAGE_MB = 24
_GROWN_MB = 256
_PATIENCE_SECONDS = 180


def full_disk(lab: Lab, fills: int) -> Tally:
    lab.need("e2fsck", "resize2fs")
    lab.need_loop_mounts()
    tally = Tally("full-disk", "fills", lab.seed, fills)
    while tally.trials < fills:
        disk = make_image(lab.scratch / "disk.img", _IMAGE_MB)
        book = AckBook(lab.scratch / "acks")
        options = Options(sessions=lab.rng.choice((1, 8, 64)), segment_bytes=1 << 20,
                          checkpoint_every=lab.rng.choice((50, 500)))
        room = lab.rng.randrange(5 << 20, 12 << 20, 4096)
        with mounted(disk, lab.scratch / "mnt") as mount_point:
            reason, command = _fill(lab, mount_point, room, book, options)
        reason = reason or _examine(lab, disk, book, options)
        if tally.count(book.count, reason, f"{room >> 10} KiB of room, {command}"):
            lab.keep(tally.name, f"{command}\n{reason}", disk, book.path)
    return tally


def _fill(lab: Lab, mount_point: pathlib.Path, room: int, book: AckBook,
          options: Options) -> tuple[str | None, str]:
    stat = run("stat", "--file-system", "--format=%a %S", mount_point).split()
    free = int(stat[0]) * int(stat[1])
    run("fallocate", "--length", free - room, mount_point / "filler")
    with Workload(lab, mount_point / "data", options) as workload:
        code = workload.wait(_PATIENCE_SECONDS)
    transcript = workload.transcript()
    book.add(transcript.acks)
    command = " ".join(workload.argv[1:])
    if code is None:
        return f"still running after {_PATIENCE_SECONDS} s", command
    if code == 0:
        return "exit 0 on a full disk", command
    if code < 0 or code > 127:
        return f"crashed, exit {code}: {transcript.tail()}", command
    return transcript.ack_after_message(), command


def _examine(lab: Lab, disk: pathlib.Path, book: AckBook, options: Options) -> str | None:
    """A store need not open while the disk is full, but people like to know; with room it must."""
    full = lab.scratch / "full.img"
    copy_file(disk, full)
    with mounted(full, lab.scratch / "mnt") as mount_point:
        while_full = check(lab, mount_point / "data", book)
        if while_full:
            print(f"  full-disk: note: does not open while the disk is full: {while_full}")

    os.truncate(disk, _GROWN_MB << 20)
    run("e2fsck", "-fy", disk, accept=(0, 1))
    run("resize2fs", disk)
    with mounted(disk, lab.scratch / "mnt") as mount_point:
        directory = mount_point / "data"
        reason = check(lab, directory, book)
        if reason:
            return f"with room again: {reason}"
        with Workload(lab, directory, dataclasses.replace(options, commits=50)) as workload:
            code = workload.wait(_PATIENCE_SECONDS)
        if code != 0:
            return f"with room again: workload exit {code}: {workload.transcript().tail()}"
        book.add(workload.transcript().acks)
        return check(lab, directory, book)
