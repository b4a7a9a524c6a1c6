"""Negative controls: stores broken on purpose must be caught, or the campaigns prove nothing."""
import dataclasses

from block_replay import block_replay
from lab import Lab
from power_cut import power_cut
from programs import Options
from tally import Tally

# A checkpoint syncs everything; with few of them a missing sync shows. With small segments and many
# checkpoints the journal is recycled all the time.
_CALM = Options(sessions=8, checkpoint_every=5000, segment_bytes=1 << 22)
_RESTLESS = Options(sessions=8, checkpoint_every=10, segment_bytes=1 << 16)

# planted bug → (options, the campaigns of which one must catch it, each with the trials it gets)
_CAUGHT_BY = {
    "no_fdatasync": (_CALM, ((power_cut, 60),)),
    "no_dir_fsync": (_RESTLESS, ((block_replay, 300),)),
    "no_syncfs": (_RESTLESS, ((power_cut, 60), (block_replay, 300))),
}


_SOUND_TRIALS = 15


@dataclasses.dataclass
class ControlTally:
    seed: int
    caught: int = 0
    missed: int = 0

    def line(self) -> str:
        return f"controls: {self.caught} caught, {self.missed} missed (seed {self.seed})"

    def fine(self) -> bool:
        return self.missed == 0


def controls(lab: Lab, times: int) -> ControlTally:
    result = ControlTally(lab.seed)
    for _ in range(times):
        for breakage, (options, campaigns) in _CAUGHT_BY.items():
            caught = any(_catches(lab, breakage, options, *campaign) for campaign in campaigns)
            result.caught += caught
            result.missed += not caught
    return result


def _catches(lab: Lab, breakage: str, options: Options, campaign, trials: int) -> bool:
    """A catch counts only when the sound store gets through with the same options."""
    sound = _run(lab, "none", options, campaign, _SOUND_TRIALS)
    if sound.lost:
        print(f"  {breakage}: says nothing, {sound.name} finds fault with the sound store too")
        return False
    tally = _run(lab, breakage, options, campaign, trials)
    outcome = "caught" if tally.lost else "NOT caught"
    print(f"  {breakage}: {outcome} by {tally.name} after {tally.trials} {tally.unit}", flush=True)
    return tally.lost > 0


def _run(lab: Lab, breakage: str, options: Options, campaign, trials: int) -> Tally:
    before, lab.break_ = lab.break_, breakage
    try:
        return campaign(lab, trials, options=options, stop_at_first=True)
    finally:
        lab.break_ = before
