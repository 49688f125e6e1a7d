"""How many channels of its own recording an utterance's speakers have, one each: 2 or 1.

2: its recording has two channels, and by the turns of `speakers` everybody who speaks does so in
one of them. The format `duplex` sets this filter. Null without diarization.
"""

from ..audio import Clip
from ..settings import StageSettings, Threshold

VERSION = 1
AFTER_ALL = True
COLUMNS = {"tracks": ("1", "channels that its speakers have to themselves, 2 or 1")}
REASONS = {"tracks": ("no_own_channels", "own_channels")}


class Settings(StageSettings):
    min: float | None = Threshold(2, "Fewest channels kept.", ge=0)
    max: float | None = Threshold(None, "Most channels kept.", ge=0)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if clip.turns is None:
        return {"tracks": None}
    apart = (
        clip.channels == 2 and clip.turns and all(turn.channel is not None for turn in clip.turns)
    )
    return {"tracks": 2.0 if apart else 1.0}
