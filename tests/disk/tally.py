"""Counts the trials of a campaign, shows that it is alive, and says the result in one line."""
import time

_PROGRESS_SECONDS = 30


class Tally:
    def __init__(self, name: str, unit: str, seed: int, planned: int):
        self.name = name
        self.unit = unit
        self.seed = seed
        self.planned = planned
        self.trials = 0
        self.acks = 0
        self.lost = 0
        self._began = self._shown = time.monotonic()

    def count(self, acks: int, reason: str | None, where: str) -> bool:
        """Notes one trial. True when it was bad."""
        self.trials += 1
        self.acks += acks
        if reason:
            self.lost += 1
            print(f"  {self.name} {self.trials}: {where}: {reason}", flush=True)
        now = time.monotonic()
        if now - self._shown > _PROGRESS_SECONDS:
            self._shown = now
            print(f"  {self.name}: {self.trials} of {self.planned}, {self.lost} lost", flush=True)
        return reason is not None

    def line(self) -> str:
        seconds = time.monotonic() - self._began
        return (f"{self.name}: {self.trials} {self.unit}, {self.lost} lost "
                f"(seed {self.seed}, {self.acks} acks, {seconds:.0f} s)")

    def fine(self) -> bool:
        # A campaign in which nothing was acknowledged has shown nothing.
        return self.lost == 0 and self.acks > 0
