"""Decoded length of the utterance, in seconds, and the error of the recording's header.

The difference is that of the whole recording, the same for each of its utterances; null if the
header gives no length.
"""

from ..audio import Clip
from ..settings import StageSettings, Threshold

VERSION = 3
AFTER_ALL = True
COLUMNS = {
    "duration": ("s", "decoded samples divided by the native rate"),
    "duration_difference": ("s", "decoded length of the whole recording minus the header's"),
}
REASONS = {
    "duration": ("too_short", "too_long"),
    "duration_difference": ("header_mismatch", "header_mismatch"),
}


class Settings(StageSettings):
    min: float | None = Threshold(0.1, "Shortest utterance kept, s.", ge=0)
    max: float | None = Threshold(30.0, "Longest utterance kept, s.", gt=0)
    min_difference: float | None = Threshold(None, "Least excess over the header kept, s.")
    max_difference: float | None = Threshold(None, "Largest excess over the header kept, s.")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    header = clip.header_seconds
    return {
        "duration": clip.seconds,
        "duration_difference": None if header is None else clip.recording_seconds - header,
    }
