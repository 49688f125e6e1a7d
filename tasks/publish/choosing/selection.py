"""Selects the clips to package, among those that passed all rules, and assigns their splits.

In this order: the choice by speaker, dataset, language and label; dataset weights; hours per
speaker; splits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ... import storage
from ...base.arrays import Bools, Float64s, Int32s, Int64s, UInt64s
from ...base.logs import log
from ...recording import forgotten
from ...settings import package
from ...settings.job import Job
from ...settings.package import REST
from ...shard_store import clip_choice
from ...storage import sorted_keys, versions
from ..corpus import held_out, rejections
from ..output_shards import layout
from . import splits
from .components import HOUR, KINDS, RECORDING, SPEAKER, Nodes, Sides, SplitTable
from .split_input import Candidates, ListDescriptions


class Parted(NamedTuple):
    clips: dict[str, int]  # clips of each split
    lost: int  # published clips that are dropped, because they would join two splits
    lost_seconds: float
    joining: bool  # some of these for their speaker, recording or samples, and not for their text


class Selection(NamedTuple):
    rows: Int32s  # clips to package, in the order of ids
    split: Sides  # of each clip in `rows`, index into `names`
    names: list[str]
    rejected: pa.Table  # REJECTED: the other clips
    splits: Callable[[], Iterator[pa.Table]] | None  # makes the tables of `splits.parquet`
    lists: ListDescriptions
    parted: Parted | None = None  # None: no splits


def check(job: Job) -> None:
    """Raises ConfigError for wrong settings, before anything is computed."""
    clip_choice.check(job)
    package.read_list(job.package)
    held_out.check(job)


def selects(job: Job) -> bool:
    """Whether the settings select among the clips that passed all rules."""
    package = job.package
    chosen = clip_choice.restricts(package) or bool(package.splits or package.weights)
    return chosen or package.max_hours_per_speaker is not None


def select(job: Job, clips: Candidates, newest: Path | None) -> Selection:
    """Select among `clips`, which must still be open (its database is read)."""
    package = job.package
    rows = clips.order
    rejected = [clips.rejected]
    if package.max_hours_per_speaker is not None:
        most = package.max_hours_per_speaker
        out, hours = over_hours(
            Nodes(clips.names, [SPEAKER], rows).of_row[0],
            clips.turn[rows],
            clips.length[rows],
            clips.published[rows],
            most,
        )
        limit = np.full(int(out.sum()), most)
        rejected.append(
            rejections.rejected(clips.number[rows[out]], "speaker_hours", hours[out], limit)
        )
        rows = rows[~out]
    if not package.splits:
        warn_of_lost_splits(newest)
        split = np.zeros(len(rows), np.int16)
        return Selection(clips.number[rows], split, [REST], pa.concat_tables(rejected), None, {})
    before = _without_forgotten(job, splits.published(None if package.resplit else newest))
    assigned = splits.assign(package, clips, rows, before)
    for note in assigned.notes:
        log.warning("%s", note)
    numbers = clips.number[rows[assigned.joining]]
    rejected.append(rejections.rejected(numbers, "split_conflict", details=assigned.joins))
    numbers = clips.number[rows[assigned.repeating]]
    rejected.append(rejections.rejected(numbers, "text_in_two_splits", details=assigned.repeats))
    kept = assigned.split >= 0
    dropped = rows[~kept]
    lost = dropped[clips.published[dropped]]
    count = np.bincount(assigned.split[kept], minlength=len(assigned.names)).tolist()
    parted = Parted(
        dict(zip(assigned.names, count, strict=True)),
        len(lost),
        float(clips.length[lost].sum()) / 1e6,
        bool(clips.published[rows[assigned.joining]].any()),
    )
    return Selection(
        clips.number[rows[kept]],
        assigned.split[kept],
        assigned.names,
        pa.concat_tables(rejected),
        assigned.table,
        assigned.lists,
        parted,
    )


def _without_forgotten(job: Job, before: SplitTable) -> SplitTable:
    """The table of splits without the names of what was removed on request."""
    gone = forgotten.read(job.out)
    if not gone:
        return before

    def stays(kind: str, name: str) -> bool:
        if kind == KINDS[RECORDING]:
            return not gone.names(name)
        return kind != SPEAKER or not gone.speaks(*name.split("/", 1))

    def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
        for table in before([*dict.fromkeys((*columns, "kind", "name"))]):
            pairs = zip(table["kind"].to_pylist(), table["name"].to_pylist(), strict=True)
            kept = pa.array([stays(kind, name) for kind, name in pairs], pa.bool_())
            yield table.filter(kept).select(columns)

    return parts


class PublishedIds:
    """The utterances of the newest version, by the hashes of their ids."""

    def __init__(self, job: Job, newest: Path | None) -> None:
        self._seed, self._newest = job.package.seed, newest

    @cached_property
    def _sorted(self) -> tuple[UInt64s, UInt64s]:
        if self._newest is None:
            return np.zeros(0, np.uint64), np.zeros(0, np.uint64)
        published = layout.load_published(self._newest, self._seed)
        order = np.argsort(published.high)
        return published.high[order], published.low[order]

    def holding(self, ids: pa.ChunkedArray) -> Bools:
        """Which of these ids are in the newest version; bool [ids]."""
        keys = sorted_keys.hashes(ids.to_pylist(), f"{self._seed}:")
        return sorted_keys.places_of(keys[:, 0], keys[:, 1], *self._sorted) >= 0


def warn_of_lost_splits(newest: Path | None) -> None:
    """Warn that all clips become train, if the newest version has splits."""
    if newest is None or not storage.exists(newest / splits.FILE):
        return
    others = sorted(versions.described(newest)["splits"].keys() - {REST})
    if others:
        log.warning(
            "package.splits is not set: what %s has as %s becomes %s",
            newest.name,
            " and ".join(others),
            REST,
        )


def over_hours(
    speaker: Int32s, turn: UInt64s, length: Int64s, published: Bools, most: float
) -> tuple[Bools, Float64s]:
    """Which clips exceed `most` hours of their speaker, and the speaker's hours up to the end of
    each clip: published clips come first, then the others, in the order of their draws (`turn`),
    so that a higher cap only adds clips. `speaker`: number of each clip's speaker, -1: none, not
    capped; `length`: µs."""
    order = np.lexsort((turn, ~published, speaker))
    summed = np.cumsum(length[order])
    first = sorted_keys.first_of_runs(speaker[order])
    before = np.maximum.accumulate(np.where(first, summed - length[order], 0))
    hours = np.empty(len(order))
    hours[order] = (summed - before) / HOUR
    return (speaker >= 0) & (hours > most), hours
