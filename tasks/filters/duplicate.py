"""The same recording twice: the same samples, or the same sound in another encoding.

A filter of the whole corpus. Workers take a print of each clip (`fingerprint`); which clips are
copies of which is found in package by `tasks/duplicates.py`, from the prints of all sources and of
earlier runs. Settings that are thresholds decide there, and cost nothing to change.

Measured on 61 real clips of 0.5 to 120 s and on what 30 encodings and changes make of them: copies
have at most 0.13 of their bits wrong (MP3 of 32 kbit/s, Opus of 24, A-law, telephone), 0.17
(ADPCM at 8 kHz), 0.19 (WMA of 32 kbit/s), 0.21 (Opus of 12), 0.24 (quiet speech in 8 bits), and
drift by at most 5 ms, 8 ms where less than a second sounds. Different utterances of like length
have 0.375 or more; one sentence by two voices of espeak-ng 0.18. What one such voice says at
another speed (150 and 152 words a minute) has 0.1, but drifts by 12 ms or more.
"""

from __future__ import annotations

from pydantic import Field

from tasks.audio import Clip
from tasks.filters import _fingerprint
from tasks.rules import Rule
from tasks.settings import THRESHOLD, StageSettings

VERSION = 1
COLUMNS: dict[str, tuple[str, str]] = {}


class Settings(StageSettings):
    """What is a copy."""

    seconds: float = Field(
        600.0, gt=0, le=600, description="So much of a clip's beginning goes into its print, s."
    )
    max_error: float = Field(
        0.175, ge=0, lt=0.5, json_schema_extra=THRESHOLD,
        description="Largest share of the print's bits in which a copy differs; 0.5 is chance. "
        "0: only clips of the same samples.",
    )  # fmt: skip
    max_drift: float = Field(
        0.008, ge=0, json_schema_extra=THRESHOLD,
        description="Most by which a copy may lead or lag in one quarter more than in another, s. "
        "A voice that says the same faster is no copy.",
    )  # fmt: skip
    max_padding: float = Field(
        0.35, ge=0, le=1, json_schema_extra=THRESHOLD,
        description="Most that a copy may be longer or shorter, s. A part of a longer recording "
        "is no copy of it.",
    )  # fmt: skip
    min_sound: float = Field(
        0.5, ge=0.1, json_schema_extra=THRESHOLD,
        description="Clips with less sound are compared by their samples only, s.",
    )  # fmt: skip


def fingerprint(clip: Clip, settings: Settings) -> bytes:
    """The clip's print: 28 bytes, 100 for each second, at most 144 more. Of a clip of silence it is
    28 bytes long and says only what its samples are."""
    return _fingerprint.fingerprint(clip, settings.seconds)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    """No number of one clip tells that it is a copy."""
    return {}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    """No rule on one clip tells it either."""
    return ()
