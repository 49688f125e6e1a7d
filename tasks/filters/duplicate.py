"""The same recording twice: the same samples, or the same sound in another encoding.

A filter over the whole corpus. Workers take a fingerprint of each clip; the package stage compares
those of all sources and of earlier runs (`_copies.py`). The threshold settings apply there, so
changing them recomputes nothing else.

Measured on 61 real clips of 0.5 to 120 s and 30 encodings and changes of each: copies have at most
0.13 of their bits wrong (MP3 at 32 kbit/s, Opus at 24, A-law, telephone), 0.17 (ADPCM at 8 kHz),
0.19 (WMA at 32 kbit/s), 0.21 (Opus at 12), 0.24 (quiet speech in 8 bits), and drift by at most
5 ms. Different utterances of similar length have 0.375 or more; one sentence by two voices of
espeak-ng 0.18. One such voice at another speed (150 and 152 words a minute) has 0.1, but drifts by
12 ms or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ..audio import Clip
from ..base.arrays import Float64s
from ..base.json_types import JsonObject
from ..plugins.contracts.base import Rows
from ..plugins.rules import Rejection
from ..settings import StageSettings, Threshold
from . import _fingerprints
from ._fingerprints import StoredFingerprints, Thresholds

if TYPE_CHECKING:
    from ._copies import Copies

VERSION = 1
COLUMNS: dict[str, tuple[str, str]] = {}
LOSSY = 1.0
ROUNDS = 4  # one is enough, unless a comparison finds a copy from one side only
#: Lossless codecs by bits per sample.
CODECS = {
    8.0: ("pcm_u8", "pcm_s8"),
    16.0: ("pcm_16", "alac_16", "alac", "wavpack"),
    24.0: ("pcm_24", "alac_24"),
    25.0: ("pcm_32", "float", "double"),
}
BITS = {codec: bits for bits, codecs in CODECS.items() for codec in codecs}


class Settings(StageSettings):
    seconds: float = Field(
        600.0, gt=0, le=600, description="Length of a clip's start that is fingerprinted, s."
    )
    max_error: float = Threshold(
        0.175,
        "Largest share of wrong fingerprint bits in a copy; 0.5 is chance. "
        "0: only clips of the same samples.",
        ge=0,
        lt=0.5,
    )
    max_drift: float = Threshold(
        0.008,
        "Most by which a copy may lead or lag in one quarter more than in another, s. "
        "The same words spoken faster are not a copy.",
        ge=0,
    )
    max_padding: float = Threshold(
        0.35,
        "Most that a copy may be longer or shorter, s. A part of a longer recording "
        "is not a copy of it.",
        ge=0,
        le=1,
    )
    min_sound: float = Threshold(
        0.9,
        "Least sound of clips that are compared by sound, s; shorter ones only by samples: one "
        "word that a synthetic voice says twice would be a copy.",
        ge=0.1,
    )

    drop: bool = Threshold(
        True, "Whether copies are dropped; off: fingerprints only serve package.exclude."
    )

    def thresholds(self) -> Thresholds:
        return Thresholds(self.max_error, self.max_drift, self.max_padding, self.min_sound)


def fingerprint(clip: Clip, settings: Settings) -> bytes:
    """28 bytes, 100 per second, and up to 144 more; for silence, only 28 with the digest."""
    return _fingerprints.fingerprint(clip, settings.seconds)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {}  # a clip alone does not show that it is a copy


def reject(
    rows: Rows, settings: Settings, frozen: JsonObject
) -> tuple[Iterable[tuple[int, Rejection]], JsonObject]:
    """Rejects the copies among the kept rows. One of each group stays, a published one first."""
    if not settings.drop:
        return [], {}
    from ._copies import find_copies  # SciPy, for the package stage only

    with StoredFingerprints() as prints:
        kept, published, rank = (np.zeros(len(rows), kind) for kind in (bool, bool, np.float64))
        start = 0
        for table in rows.tables("print", "kept", "published", "native_rate", "format"):
            portion = slice(start, start + len(table))
            start = portion.stop
            kept[portion], published[portion] = (table[n].to_numpy() for n in ("kept", "published"))
            rank[portion] = quality(table)
            prints.add(pc.if_else(table["kept"], table["print"], None))
        prints.finish()
        by_id = rows.by_id()
        for _ in range(ROUNDS + 1):
            best_first = by_id[np.lexsort((-rank[by_id], ~published[by_id]))]
            copies = find_copies(prints, best_first, settings.thresholds())
            # What stays now is published next time and then ranks first. Ranking it first already
            # now makes a later run without changes name the same originals.
            stays = kept.copy()
            stays[copies.row] = False
            if (stays == published)[kept].all():
                break
            published = stays
    return _rejections(rows, copies, settings), {}


class Met(NamedTuple):
    row: int
    item: int  # index of the sound
    error: float  # share of wrong fingerprint bits
    exact: bool  # the same samples


def met(prints: pa.ChunkedArray, rows: Rows, settings: Settings) -> Iterator[Met]:
    """The kept rows that are copies of known sounds, by their fingerprints."""
    from ._copies import find_copies

    items = len(prints)
    with StoredFingerprints() as stored:
        stored.add(prints)
        for table in rows.tables("print", "kept"):
            stored.add(pc.if_else(table["kept"], table["print"], None))
        stored.finish()
        order = np.concatenate([np.arange(items), items + rows.by_id()])  # items are originals
        copies = find_copies(stored, order, settings.thresholds())
    for place in np.flatnonzero((copies.row >= items) & (copies.original < items)).tolist():
        row, item = int(copies.row[place]) - items, int(copies.original[place])
        yield Met(row, item, float(copies.error[place]), bool(copies.exact[place]))


def _rejections(rows: Rows, copies: Copies, settings: Settings) -> Iterator[tuple[int, Rejection]]:
    originals, place = np.unique(copies.original, return_inverse=True)
    names = [pa.array([], pa.large_string())]
    first = 0
    for table in rows.tables("id"):
        low, high = np.searchsorted(originals, [first, first + len(table)])
        ids = table["id"].take(originals[low:high] - first).cast(pa.large_string())
        names += ids.chunks
        first += len(table)
    of = pa.concat_arrays(names)
    for number, row in enumerate(copies.row.tolist()):
        relation = "the samples" if copies.exact[number] else "a copy"
        detail = f"{relation} of {of[int(place[number])].as_py()}"
        yield row, Rejection("duplicate", float(copies.error[number]), settings.max_error, detail)


def quality(rows: pa.Table) -> Float64s:
    """Higher is better: the sample rate, then lossless codecs, then more bits per sample."""
    codec = rows["format"].to_pylist()
    best = [BITS.get((name or "").partition("#")[0].rpartition("/")[2], LOSSY) for name in codec]
    rates: Float64s = rows["native_rate"].to_numpy().astype(np.float64)
    return rates + np.array(best, np.float64) / 100
