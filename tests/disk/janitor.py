"""Cleans up behind a campaign, however it ended.

  janitor.py SCRATCH      reads standard input to its end, which comes with the campaign's, then
                          unmounts all below SCRATCH and removes it

Lines `restore PATH VALUE` on standard input name settings to write back. The janitor is a process of
its own for a reason: when a campaign is killed together with its FUSE daemons, somebody else must
hold the mount namespace. Else a dying daemon unmounts the file system above itself, waits for its
own answer, and takes every loop device of the machine with it.
"""
import pathlib
import shutil
import signal
import subprocess
import sys
import time


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    scratch = pathlib.Path(sys.argv[1])
    settings = [line.split() for line in sys.stdin]
    for _ in range(400):  # a mount may still be under way, a user just killed not quite dead
        mounts = _mounts_below(scratch)
        if not mounts:
            break
        if subprocess.run(["umount", mounts[0]], capture_output=True).returncode != 0:
            time.sleep(0.02)
    else:
        subprocess.run(["umount", "--recursive", "--lazy", scratch])
    for _, path, value in settings:
        pathlib.Path(path).write_text(value)
    shutil.rmtree(scratch, ignore_errors=True)


def _mounts_below(scratch: pathlib.Path) -> list[str]:
    """The latest first."""
    mounts = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
    return [mount for mount in reversed(mounts) if pathlib.Path(mount).is_relative_to(scratch)]


main()
