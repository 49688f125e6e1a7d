"""Number of decode faults that touch the utterance: damage, or missing samples.

A fault is a span of the recording: a page or frame with a wrong checksum, a packet that the decoder
rejects, a gap in a stream's timestamps, an error after which a decoder continued. A gap of known
length is filled with silence, so that what follows keeps its time. If the length or place of a
fault is unknown, everything after it counts as damaged. Formats without checksums and timestamps
(WAV, AAC) show only what breaks their decoder, or contradicts the lengths in their headers.
"""

from ..audio import Clip
from ..settings import StageSettings, Threshold

VERSION = 1
AFTER_ALL = True
COLUMNS = {"decode_faults": ("1", "faults of the recording that the utterance touches or follows")}
REASONS = {"decode_faults": ("undamaged", "damaged")}


class Settings(StageSettings):
    """Limits on the number of faults. With `max: null`, damaged audio is kept."""

    min: float | None = Threshold(
        None, "Fewest faults in an utterance that is kept: to study only damaged audio.", ge=0
    )
    max: float | None = Threshold(
        0, "Most faults in an utterance that is kept; null: any number.", ge=0
    )


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"decode_faults": None if clip.faults is None else float(clip.faults)}
