"""Power cuts under the running server: its disk is an image whose file system is shut down.

As in tests/disk/power_cut.py: what was not synced is gone, and the next mount replays the file
system's own journal. What clients heard before the cut must be there afterwards, and what tools did
outside must be in the log: nothing leaves before it is durable.
"""
import contextlib
import pathlib
import time

from book import Book
from findings import Findings
from killing import Crew, finish, keeping, live_on
from kit import Server, take_binary, verify
from lab import UNKIND, Lab, make_image, mounted, run
from power_cut import power_switch
from world import World

_IMAGE_MB = 384
_LIVES = 10  # cuts that one disk goes through before it is examined


def power(lab: Lab, cuts: int) -> Findings:
    lab.need_loop_mounts()
    findings = Findings("power", lab.seed)
    disks = 0
    while findings.counts.get("cuts", 0) < cuts and not findings.found:
        disks += 1
        home = lab.scratch / f"power{disks}"
        home.mkdir()
        lives = min(_LIVES, cuts - findings.counts.get("cuts", 0))
        _wear_out_a_disk(lab, findings, home, lives)
        lab.discard(home)
    return findings


def _wear_out_a_disk(lab: Lab, findings: Findings, home: pathlib.Path, lives: int) -> None:
    binary = take_binary(home)
    world = World(home / "world")
    book = Book(home / "book.jsonl")
    image = make_image(home / "disk.img", _IMAGE_MB)
    mount_point = home / "disk"
    server = Server(binary, mount_point / "data", world.config, home / "server.log")
    with keeping(lab, findings, home, book), contextlib.ExitStack() as stack:
        stack.callback(server.end)
        crew = Crew(lab, server, book, f"{home.name}.")
        for _ in range(lives):
            _run_and_cut(lab, findings, server, image, mount_point)
            crew.must_work()
            findings.count("cuts")
            findings.progress(f"{findings.counts['cuts']} cuts, {book.acks()} acks")
            _look_at(findings, binary, image, mount_point, server)
        with mounted(image, mount_point):
            while not live_on(findings, server.start):
                server.kill()
            crew.stop()
            finish(findings, server, binary, world, book)


def _run_and_cut(lab: Lab, findings: Findings, server: Server, image: pathlib.Path,
                 mount_point: pathlib.Path) -> None:
    options = lab.rng.choice((UNKIND, UNKIND, f"{UNKIND},data=writeback"))
    with mounted(image, mount_point, options):
        server.data.mkdir(mode=0o700, exist_ok=True)
        run("sync", "--file-system", mount_point)
        with power_switch(mount_point) as cut:
            live_on(findings, lambda: _one_life(lab, server))
            server.site.closed()  # from here on nobody has heard anything
            cut()
            server.kill()


def _one_life(lab: Lab, server: Server) -> None:
    server.spawn()
    chosen = lab.rng.random()
    if chosen < 0.2:  # while it opens the store and recovers
        time.sleep(lab.rng.uniform(0.001, 0.06))
        return
    server.await_up()
    time.sleep(lab.rng.uniform(0, 0.03) if chosen < 0.35 else lab.rng.uniform(0.03, 0.8))
    server.must_run()


def _look_at(findings: Findings, binary: pathlib.Path, image: pathlib.Path,
             mount_point: pathlib.Path, server: Server) -> None:
    """A cut leaves a torn end, which recovery mends; anything else is damage."""
    with mounted(image, mount_point):
        if not (server.data / "format").exists():
            return
        report = verify(binary, server.data)
        findings.add([f"verify after the cut: {finding}" for finding in report.get("findings", [])
                      if finding["kind"] == "damage"])
