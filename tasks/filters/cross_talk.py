"""Cross-talk: how much of an utterance is the other side of a call, heard faintly in this channel.

Where a file's channels are read apart, the share of the utterance's sound in which another channel
is 10 dB louder: there it holds little more than leakage. Null where channels are mixed. Segmenters
with voice detection leave it out; segments of a source, and clips that are whole recordings, may
hold much of it.
"""

from ..audio import Clip
from ..audio.channels import LOUDER
from ..settings import StageSettings, Threshold

VERSION = 1
AFTER_ALL = True
COLUMNS = {"cross_talk": ("1", "share of its sound in which another channel is 10 dB louder")}
REASONS = {"cross_talk": ("no_cross_talk", "cross_talk")}
RANGE = 35.0  # dB below an utterance's loudest frame; softer frames do not count as its sound


class Settings(StageSettings):
    min: float | None = Threshold(None, "Smallest share kept.", ge=0, le=1)
    max: float | None = Threshold(0.5, "Largest share kept.", ge=0, le=1)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if clip.beside is None or not len(clip.beside):
        return {"cross_talk": None}
    level, others = clip.beside.T
    sounds = level > level.max() - RANGE
    return {"cross_talk": float((others - level >= LOUDER)[sounds].mean())}
