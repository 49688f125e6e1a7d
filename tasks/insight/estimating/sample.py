"""Draws a stratified sample of recordings; the same input gives the same sample.

Strata are (dataset, format, length class). If EACH recordings of every stratum would exceed twice
the requested sample, formats are merged, then lengths. The recordings of a stratum are ordered by a
hash of seed and name, so that a larger sample contains a smaller one, and new recordings change the
sample little.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from ...base.schema import RecordingRow
from ...stages.listing.balance import seconds_of

LENGTHS = (5.0, 30.0, 600.0)  # s: bounds of the length classes
EACH = 2  # recordings of every stratum, at least, if it has them


@dataclass(frozen=True, slots=True)
class Member:
    """The facts on a recording that a draw uses; `seconds` from its header, or guessed from its
    size."""

    recording: str
    shard: str
    dataset: str
    format: str
    seconds: float

    @property
    def length(self) -> int:
        """Index of the recording's length class."""
        return sum(self.seconds >= bound for bound in LENGTHS)


Key = tuple[str | int, ...]
#: Ways to divide recordings, from fine to coarse; the first with few enough strata is used.
KEYS: tuple[Callable[[Member], Key], ...] = (
    lambda m: (m.dataset, m.format, m.length),
    lambda m: (m.dataset, m.length),
    lambda m: (m.dataset,),
    lambda m: (),
)


def member(row: RecordingRow, shard: str) -> Member:
    """A member from a row of RECORDINGS; its format is the extension or, without one, the codec."""
    ending = PurePosixPath(row["path"]).suffix.lower().lstrip(".") or str(row["format"] or "")
    return Member(row["recording"], shard, row["dataset"], ending, max(seconds_of(row), 0.01))


def size(population: int, fraction: float, least: int) -> int:
    """The number of recordings to draw."""
    return min(population, max(least, round(fraction * population)))


def strata(members: Iterable[Member], wanted: int) -> dict[Key, list[Member]]:
    """The recordings by stratum, for a sample of about `wanted`."""
    every = list(members)
    for key in KEYS:
        by_key: dict[Key, list[Member]] = {}
        for recording in every:
            by_key.setdefault(key(recording), []).append(recording)
        if sum(min(EACH, len(stratum)) for stratum in by_key.values()) <= 2 * wanted:
            break
    return dict(sorted(by_key.items()))


def draw(members: Iterable[Member], wanted: int, seed: int) -> dict[Key, list[Member]]:
    """The sample by stratum, in proportion to the strata's audio, at least EACH of each; `wanted`
    in total, or more if the strata need it."""
    population = strata(members, wanted)
    counts = allocate(
        [len(stratum) for stratum in population.values()],
        [sum(m.seconds for m in stratum) for stratum in population.values()],
        wanted,
    )
    return {
        key: sorted(stratum, key=lambda m: _place(seed, m.recording))[:count]
        for (key, stratum), count in zip(population.items(), counts, strict=True)
    }


def allocate(sizes: Sequence[int], seconds: Sequence[float], wanted: int) -> list[int]:
    """The number of recordings to draw from each stratum: the next one always comes from the
    stratum in which a sampled recording represents the most audio (highest averages, D'Hondt)."""
    counts = [min(EACH, size) for size in sizes]
    open_ = {i for i, size in enumerate(sizes) if counts[i] < size}
    for _ in range(wanted - sum(counts)):
        if not open_:
            break
        best = max(open_, key=lambda i: (seconds[i] / (counts[i] + 1), -i))
        counts[best] += 1
        if counts[best] == sizes[best]:
            open_.remove(best)
    return counts


def _place(seed: int, recording: str) -> bytes:
    return hashlib.sha256(f"{seed} {recording}".encode()).digest()
