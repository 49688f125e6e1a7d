"""Counts the published clips that a run writes again, because the content of their tar changes: the
next version, as far as it is known, is laid out and compared with the newest one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...accounting.ledger import PENDING
from ...base.arrays import Bools, UInt64s
from ...base.schema import UTTERANCES_FILE
from ...publish import foreseen, package, published_columns
from ...publish.output_shards import format_shards
from ...publish.output_shards.format_shards import PreviousVersion
from ...settings.job import Job
from ...shard_store import decision_log, recipe
from ...storage import queries, tables, versions

#: Columns of a version that follow from what sources and people say of a recording.
DESCRIBED = ("source_id", "text", "text_source", "speaker", "language", "labels")
SAID = ""  # stands for these columns beside the names of formats


class Rewriting(NamedTuple):
    """Numbers of clips, and seconds of audio."""

    clips: int  # in the newest version
    staying: int = 0  # known ones of the next version
    written: int = 0  # of `staying`, those that are written to new tars
    seconds: float = 0.0  # of `written`
    coming: int = 0  # of the next version, those that are still to be transcribed
    coming_seconds: float = 0.0
    differing: int = 0  # published ones of which people or sources say something else now


class _Known(NamedTuple):
    """The clips of the next version, by the numbers of their rows (`next_version`)."""

    waiting: Bools  # its text is still to be recognised
    decided: Bools  # nothing of it is still to be computed
    stated: Bools  # people or sources say something else of its recording now


def of_version(job: Job, version: foreseen.Foreseen, redescribed: Set[str]) -> Rewriting:
    """The clips of the next version, and those of them that are written again. `redescribed`:
    recordings of which their sources say something else now. A clip counts as staying as it is
    while only its filters or further recognisers have work."""
    clips, newest = version.choice.clips, versions.newest(job.out)
    if newest is None:
        facts, _ = _known(version, {}, redescribed)
        waits = facts.waiting[clips.row]
        stays, seconds = int((~waits).sum()), float(clips.seconds[~waits].sum())
        coming = int(waits.sum()), float(clips.seconds[waits].sum())
        return Rewriting(0, stays, stays, seconds, *coming)
    described_then = versions.described(newest)
    names = tuple(tables.schema(newest / UTTERANCES_FILE).names)
    previous = PreviousVersion(newest, described_then, names)
    of_formats = format_shards.compared(job, published_columns.row_schema(job), previous)
    linked = recipe.across_recordings(job) is not None
    describing = [name for name in DESCRIBED if not (linked and name == "speaker")]
    columns = {**of_formats, SAID: describing}
    facts, now = _known(version, columns, redescribed)
    with queries.tables() as database:
        then = format_shards.published_contents(job, previous, columns, database)
    waits, decided, stated = (flags[clips.row] for flags in facts)
    before = package.published_before(job, version.choice, newest)
    former = np.full(len(waits), -1)  # the row of each clip in the newest version
    former[before.now[before.now >= 0]] = np.flatnonzero(before.now >= 0)
    was = former >= 0

    def equal(name: str) -> Bools:
        same: Bools = now[name][clips.row] == np.append(then[name], 0)[former]
        return same

    same = was & ~waits
    for name in of_formats:
        same &= ~decided | equal(name)
    differing = was & decided & stated & ~equal(SAID)
    written = np.zeros(len(waits), bool)
    shards = package.laid_out(job, version.choice, before, described_then) if len(waits) else ()
    for shard in shards:
        whole = shard.before is not None and shard.whole and bool(same[shard.rows].all())
        written[shard.rows] = len(of_formats) < len(job.package.formats) or not whole
    written &= ~waits
    counts = len(before.now), int((~waits).sum()), int(written.sum())
    coming = int(waits.sum()), float(clips.seconds[waits].sum())
    return Rewriting(*counts, float(clips.seconds[written].sum()), *coming, int(differing.sum()))


def _known(
    version: foreseen.Foreseen, columns: Mapping[str, Sequence[str]], redescribed: Set[str]
) -> tuple[_Known, dict[str, UInt64s]]:
    """Of all rows, and their `format_shards.contents`; those of clips that the version does not
    have are arbitrary."""
    names = pa.array([*redescribed], pa.string())
    reviewed = pa.array([*{one.id for one in decision_log.of(version.job.out)}], pa.string())
    flags = [_Known(*(np.zeros(0, bool) for _ in _Known._fields))]
    hashed = [dict.fromkeys(columns, np.zeros(0, np.uint64))]
    wanted = dict.fromkeys(("id", "recording", *chain(*columns.values())))
    with queries.tables() as database:
        for rows, facts in version.rows([name for name in wanted if name in version.columns]):
            pending = pc.equal(facts["outcome"], PENDING)
            waiting = pc.and_(pending, pc.invert(facts["transcribed"]))
            stated = pc.or_(pc.is_in(rows["recording"], names), pc.is_in(rows["id"], reviewed))
            masks = (waiting, pc.invert(pending), stated)
            flags.append(_Known(*(np.asarray(mask, bool) for mask in masks)))
            hashed.append(format_shards.contents(database, rows, columns))
    whole = _Known(*map(np.concatenate, zip(*flags, strict=True)))
    return whole, {name: np.concatenate([part[name] for part in hashed]) for name in columns}
