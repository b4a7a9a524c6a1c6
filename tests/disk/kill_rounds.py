"""SIGKILL at random moments under load, restart, check.

What a dead process wrote is still in the page cache, so this says nothing about durability. It
tests recovery, over and over on the same directory.
"""
import pathlib
import shutil
import time

from lab import Lab
from programs import AckBook, Options, Workload, check
from tally import Tally

_LIVES = 10  # kills that one directory goes through


def kill_rounds(lab: Lab, rounds: int) -> Tally:
    tally = Tally("kill", "rounds", lab.seed, rounds)
    directory, examined = lab.scratch / "data", lab.scratch / "examined"
    lives = _LIVES
    while tally.trials < rounds:
        if lives == _LIVES:
            _replace(directory, None)
            book, lives = AckBook(lab.scratch / "acks"), 0
        lives += 1
        with Workload(lab, directory, Options.varied(lab.rng)) as workload:
            # One kill in four falls into the opening of the store.
            quick = lab.rng.random() < 0.25
            time.sleep(lab.rng.uniform(0, 0.02) if quick else lab.rng.uniform(0.02, 0.15))
            workload.must_run()
        acks, command = workload.transcript().acks, " ".join(workload.argv[1:])
        book.add(acks)

        _replace(examined, directory)
        reason = check(lab, examined, book)
        if tally.count(len(acks), reason, f"life {lives}, {book.count} acks, {command}"):
            lab.keep(tally.name, f"{command}\n{reason}", directory, book.path)
            lives = _LIVES
        elif lab.rng.random() < 0.5:
            # The next life begins with what the check recovered and closed, else with the raw kill.
            _replace(directory, examined)
    return tally


def _replace(target: pathlib.Path, source: pathlib.Path | None) -> None:
    """Makes `target` a copy of `source`; an empty directory when there is none."""
    shutil.rmtree(target, ignore_errors=True)
    if source:
        shutil.copytree(source, target)
    else:
        target.mkdir()
