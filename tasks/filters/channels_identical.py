"""How similar the channels are: the share of their energy that remains in their mean.

For n channels, the variance of their sum divided by n times the sum of their variances; for two,
the energy of mid / (mid + side). 1: all channels are the same (mono stored as stereo). 1/n: they
are unrelated, or only one is not silent. 0: they cancel, so that the mono mean is silent. Null for
one channel and for silence.
"""

from ..audio import Clip
from ..settings import StageSettings, Threshold
from ._derived import levels

VERSION = 1
COLUMNS = {"channels_identical": ("1", "share of the energy that the mean of the channels keeps")}
REASONS = {"channels_identical": ("channels_cancel", "channels_identical")}


class Settings(StageSettings):
    """Limits on the share. Equal channels do not harm a mono mean, channels that cancel do."""

    min: float | None = Threshold(0.01, "Least share kept in the mean.", ge=0, le=1)
    max: float | None = Threshold(
        None, "Largest share kept; 0.9999 drops mono stored as stereo.", ge=0, le=1
    )


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    level = levels(clip)
    if level is None or len(clip.in_mix) < 2:
        return {"channels_identical": None}
    energy = len(clip.in_mix) * float(level.variance.sum())
    if not energy:
        return {"channels_identical": None}
    return {"channels_identical": min(level.sum_variance / energy, 1.0)}
