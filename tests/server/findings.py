"""The result of a campaign: counts for the line at the end, and what was found."""
import time

_SHOWN = 30  # complaints of a campaign; the evidence has all of them
_WIDTH = 600


class Findings:
    def __init__(self, name: str, seed: int):
        self.name = name
        self.seed = seed
        self.counts: dict[str, int] = {}
        self.found: list[str] = []
        self._began = self._shown = time.monotonic()

    def add(self, complaints: list[str]) -> bool:
        """True when there are any."""
        for number, complaint in enumerate(complaints, len(self.found) + 1):
            if number <= _SHOWN:
                print(f"  {self.name}: {complaint[:_WIDTH]}", flush=True)
        self.found += complaints
        return bool(complaints)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def progress(self, text: str) -> None:
        now = time.monotonic()
        if now - self._shown > 30:
            self._shown = now
            print(f"  {self.name}: {text}, {len(self.found)} violations", flush=True)

    def line(self) -> str:
        counts = ", ".join(f"{number} {what}" for what, number in self.counts.items())
        seconds = time.monotonic() - self._began
        return (f"{self.name}: {counts}, {len(self.found)} violations "
                f"(seed {self.seed}, {seconds:.0f} s)")

    def fine(self) -> bool:
        # A campaign in which nothing happened has shown nothing.
        return not self.found and all(self.counts.values())
