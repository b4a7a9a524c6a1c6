"""Failing disk: writes below a real ext4 begin to fail while the store runs.

After a failed fsync ext4 marks the pages clean and the next fsync returns 0, although the data never
reached the disk. A store that tries again and acknowledges is caught here: whatever it has ever
acknowledged must be on the disk once the disk is well again.
"""
import contextlib
import pathlib
import time

from lab import Lab, copy_file, daemon, make_image, mounted, run, unmount, wait_until
from programs import AckBook, Options, Workload, check
from tally import Tally

_IMAGE_MB = 256
_PAGE_KB = "4"
_PATIENCE_SECONDS = 20  # the kernel's own retries are over long before
_BLIP_SECONDS = 0.2


def failing_disk(lab: Lab, cycles: int, *, options: Options | None = None,
                 stop_at_first: bool = False) -> Tally:
    lab.need("nbdkit", "nbdfuse", "e2fsck")
    lab.need_fuse()
    lab.need_loop_mounts()
    tally = Tally("failing-disk", "failures", lab.seed, cycles)
    base, disk = make_image(lab.scratch / "base.img", _IMAGE_MB), lab.scratch / "disk.img"
    while tally.trials < cycles and not (stop_at_first and tally.lost):
        copy_file(base, disk)
        book = AckBook(lab.scratch / "acks")
        chosen = options or Options.varied(lab.rng)
        reason, command = _run_and_fail(lab, disk, book, chosen)

        run("e2fsck", "-fy", disk, accept=(0, 1, 2))
        examined = lab.scratch / "examined.img"
        copy_file(disk, examined)
        with mounted(examined, lab.scratch / "mnt") as mount_point:
            reason = reason or check(lab, mount_point / "data", book)
        if tally.count(book.count, reason, command):
            lab.keep(tally.name, f"{command}\n{reason}", disk, book.path, lab.scratch / "transcript")
    return tally


@contextlib.contextmanager
def _fallible_disk(lab: Lab, disk, switch):
    """`disk` as a file whose writes fail with EIO as long as the file `switch` exists."""
    socket, exported = lab.scratch / "nbd.sock", lab.scratch / "fallible.img"
    socket.unlink(missing_ok=True)
    exported.write_bytes(b"")
    with contextlib.ExitStack() as stack:
        stack.enter_context(daemon(
            "nbdkit", "--foreground", "--unix", socket, "--filter=error", "file", disk,
            "error=EIO", "error-pwrite-rate=100%", "error-zero-rate=100%", f"error-file={switch}"))
        wait_until(socket.exists, "nbdkit listens")
        stack.enter_context(daemon("nbdfuse", exported, f"nbd+unix:///?socket={socket}"))
        wait_until(lambda: exported.stat().st_size > 0, "nbdfuse exports the disk")
        stack.callback(unmount, exported)
        yield exported


def _request_limit(mount_point: pathlib.Path) -> pathlib.Path:
    """The setting that bounds a request to the loop device.

    With requests of one page each fails or succeeds as a whole. FUSE answers with a short count when
    a request of several pages fails halfway, and the loop driver takes that for success (seen with
    Linux 6.18): fsync then returns 0 for data that is lost, and no store could know.
    """
    device = run("findmnt", "--noheadings", "--output", "SOURCE", mount_point).strip()
    return pathlib.Path("/sys/block", pathlib.Path(device).name, "queue/max_sectors_kb")


def _run_and_fail(lab: Lab, disk, book: AckBook, options: Options) -> tuple[str | None, str]:
    switch = lab.scratch / "failing"
    switch.unlink(missing_ok=True)
    for_good = lab.rng.random() < 0.5
    on_error = lab.rng.choice(("errors=continue", "errors=remount-ro"))
    with _fallible_disk(lab, disk, switch) as device:
        with mounted(device, lab.scratch / "mnt", on_error) as mount_point:
            with (lab.setting(_request_limit(mount_point), _PAGE_KB),
                  Workload(lab, mount_point / "data", options) as workload):
                wait_until(lambda: workload.transcript().acks or workload.exit_code() is not None,
                           "the first acknowledgement")
                time.sleep(lab.rng.uniform(0, 0.4))
                workload.must_run()
                before = workload.printed_bytes()
                switch.touch()
                if not for_good:
                    time.sleep(_BLIP_SECONDS)
                    switch.unlink()
                code = workload.wait(_PATIENCE_SECONDS)
            switch.unlink(missing_ok=True)
    book.add(workload.transcript().acks)
    kind = "for good" if for_good else f"for {_BLIP_SECONDS} s"
    where = f"writes fail {kind}, {on_error}, {' '.join(workload.argv[1:])}"
    return _judge(code, workload.transcript(before)), where


def _judge(code: int | None, since_fault) -> str | None:
    if code is None:
        return (f"still running {_PATIENCE_SECONDS} s after the fault, "
                f"{len(since_fault.acks)} acks since")
    if code != 3:
        return f"exit {code} after the fault, not 3: {since_fault.tail()}"
    if not since_fault.messages:
        return "exit 3 after the fault without a message"
    return since_fault.ack_after_message()
