"""The same recording twice: the same samples, or the same sound in another encoding.

A filter of the whole corpus. Workers take a print of each clip (`fingerprint`); which clips are
copies of which is found in package by `tasks/filters/_copies.py`, from the prints of all
sources and of earlier runs. Settings that are thresholds decide there, and cost nothing to change.

Measured on 61 real clips of 0.5 to 120 s and on what 30 encodings and changes make of them: copies
have at most 0.13 of their bits wrong (MP3 of 32 kbit/s, Opus of 24, A-law, telephone), 0.17
(ADPCM at 8 kHz), 0.19 (WMA of 32 kbit/s), 0.21 (Opus of 12), 0.24 (quiet speech in 8 bits), and
drift by at most 5 ms. Different utterances of like length have 0.375 or more; one sentence by two
voices of espeak-ng 0.18. What one such voice says at another speed (150 and 152 words a minute)
has 0.1, but drifts by 12 ms or more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from tasks.audio import Clip
from tasks.filters import _fingerprint
from tasks.plugins.rules import Rejection, Rule
from tasks.settings import THRESHOLD, StageSettings

VERSION = 1
COLUMNS: dict[str, tuple[str, str]] = {}
LOSSY = 1.0
ROUNDS = 4  # one settles it, but where a copy is found from one side only
#: Codecs that lose nothing, by bits of a sample.
BITS = {
    "pcm_u8": 8.0, "pcm_s8": 8.0, "pcm_16": 16.0, "pcm_24": 24.0, "pcm_32": 25.0, "float": 25.0,
    "double": 25.0, "alac_16": 16.0, "alac_24": 24.0, "alac": 16.0, "wavpack": 16.0,
}  # fmt: skip


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
        0.9, ge=0.1, json_schema_extra=THRESHOLD,
        description="Clips with less sound are compared by their samples only, s: one word that "
        "a voice of a synthesiser says twice would be a copy.",
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


def decide(
    rows: pa.Table, settings: Settings, frozen: dict[str, Any]
) -> tuple[dict[str, Rejection], dict[str, Any]]:
    """Copies among the rows that are kept: of each group one stays, published ones first."""
    from tasks.filters import _copies as duplicates

    kept = rows.filter(rows["kept"])
    rank = quality(kept)

    def find(first: NDArray[np.bool_]) -> duplicates.Found:
        return duplicates.find(kept["print"], kept["id"], rank, first, settings)

    published = kept["published"].to_numpy()
    found = find(published)
    # What stays is published next, and comes first then: told apart that way already now, a run
    # with nothing to do names the same originals.
    for _ in range(ROUNDS):
        stays = found.original < 0
        if (stays == published).all():
            break
        published = stays
        found = find(published)
    ids = kept["id"].to_pylist()
    return {
        ids[row]: Rejection(
            "duplicate", float(found.error[row]), settings.max_error,
            f"{'the samples' if found.exact[row] else 'a copy'} of {ids[found.original[row]]}",
        )
        for row in np.flatnonzero(found.original >= 0)
    }, {}  # fmt: skip


def quality(rows: pa.Table) -> NDArray[np.float64]:
    """The higher the better: sample rate first, then codecs that lose nothing, then more bits."""
    codec = rows["format"].to_pylist()
    best = [BITS.get((name or "").rpartition("/")[2], LOSSY) for name in codec]
    rates: NDArray[np.float64] = rows["native_rate"].to_numpy().astype(np.float64)
    return rates + np.array(best, np.float64) / 100
