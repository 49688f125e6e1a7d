"""Counts the published clips that a run writes again, because the content of their tar changes: the
next version, as far as it is known, is laid out and compared with the newest one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...accounting.ledger import PENDING
from ...base.arrays import Bools, Int64s
from ...publish import foreseen, package, published_columns
from ...publish.outcomes.shard_batches import WAITING
from ...publish.output_shards import format_shards
from ...publish.output_shards.format_shards import PreviousVersion
from ...settings.job import Job
from ...shard_store import decision_log, recipe
from ...storage import queries, versions

#: Columns of a version that follow from what sources and people say of a recording.
DESCRIBED = ("source_id", "text", "text_source", "speaker", "language", "labels")
SAID = "said"  # names a hash of these columns
#: Of a clip of the next version: its text is still to be recognised, nothing of it is still to be
#: computed, people or sources say something else of it now.
FLAGS = pa.schema(dict.fromkeys(("waits", "decided", "stated"), pa.bool_()))


class Rewriting(NamedTuple):
    """Numbers of clips, and seconds of audio."""

    clips: int  # in the newest version
    staying: int = 0  # known ones of the next version
    written: int = 0  # of `staying`, those that are written to new tars
    seconds: float = 0.0  # of `written`
    coming: int = 0  # of the next version, those that are still to be transcribed
    coming_seconds: float = 0.0
    differing: int = 0  # published ones of which people or sources say something else now


def of_version(job: Job, version: foreseen.Foreseen, redescribed: Set[str]) -> Rewriting:
    """The clips of the next version, and those of them that are written again. `redescribed`:
    recordings of which their sources say something else now. A clip counts as staying as it is
    while only its filters or further recognisers have work."""
    clips, newest = version.choice.clips, versions.newest(job.out)
    flags = pa.concat_tables([FLAGS.empty_table(), *_flags(version, redescribed)]).take(clips.row)
    waits, decided, stated = (flags[name].to_numpy() for name in FLAGS.names)
    stays, coming = int((~waits).sum()), int(waits.sum())
    later = coming, float(clips.seconds[waits].sum())
    if newest is None:
        return Rewriting(0, stays, stays, float(clips.seconds[~waits].sum()), *later)
    previous = PreviousVersion(newest)
    of_formats = format_shards.compared(job, published_columns.row_schema(job), previous)
    linked = recipe.across_recordings(job) is not None
    describing = [name for name in DESCRIBED if not (linked and name == "speaker")]
    before = package.published_before(version.choice)
    former = np.full(len(waits), -1)  # the row of each clip in the newest version
    former[before.now[before.now >= 0]] = np.flatnonzero(before.now >= 0)
    shards = package.laid_out(job, version.choice, before, previous) if len(waits) else ()
    written = ~waits
    differing = (former >= 0) & decided & stated
    # A tar that has lost a clip is written, whatever the others contain.
    whole = [shard for shard in shards if shard.before is not None and shard.whole]
    if len(of_formats) < len(job.package.formats):
        whole = []
    compared = differing.copy()
    for shard in whole:
        compared[shard.rows] = decided[shard.rows]
    same = _equal(version, previous, {**of_formats, SAID: describing}, compared, former)
    differing &= ~same.pop(SAID)
    for shard in whole:
        rows = shard.rows
        if not waits[rows].any() and all(one[rows[decided[rows]]].all() for one in same.values()):
            written[rows] = False
    counts = len(before.now), stays, int(written.sum())
    return Rewriting(*counts, float(clips.seconds[written].sum()), *later, int(differing.sum()))


def _flags(version: foreseen.Foreseen, redescribed: Set[str]) -> Iterator[pa.Table]:
    """FLAGS of the rows of the next version, a batch at a time."""
    names = pa.array([*redescribed], pa.string())
    reviewed = pa.array([*{one.id for one in decision_log.of(version.job.out)}], pa.string())
    for batch in version.batches:
        facts = batch.utterances(("id", "recording", "transcribed", "outcome"))
        facts = facts.filter(pc.is_in(facts["outcome"], WAITING))
        pending = pc.equal(facts["outcome"], PENDING)
        waiting = pc.and_(pending, pc.invert(facts["transcribed"]))
        stated = pc.or_(pc.is_in(facts["recording"], names), pc.is_in(facts["id"], reviewed))
        yield pa.table([waiting, pc.invert(pending), stated], schema=FLAGS)


def _equal(
    version: foreseen.Foreseen,
    previous: PreviousVersion,
    columns: Mapping[str, Sequence[str]],
    compared: Bools,
    former: Int64s,
) -> dict[str, Bools]:
    """By list of columns, which of the clips that are `compared` have the same content as in the
    previous version, where their rows are `former`; bool [clips]."""
    same = {name: np.zeros(len(compared), bool) for name in columns}
    if not compared.any():
        return same
    rows = version.choice.clips.row[compared]
    place = np.searchsorted(np.sort(rows), rows)
    every = published_columns.row_schema(version.job)
    wanted = [name for name in dict.fromkeys(chain(*columns.values())) if name in every.names]
    schema = pa.schema([every.field(name) for name in wanted])
    chosen = version.rows(wanted, np.isin(np.arange(version.count), rows))
    with queries.tables() as database:
        then = format_shards.published_contents(version.job, previous, columns, database)
        now = format_shards.contents(database, chosen, schema, columns)
    for name, flags in same.items():
        flags[compared] = now[name][place] == then[name][former[compared]]
    return same
