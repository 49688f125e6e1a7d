"""Counts the published clips that a run writes again, because the content of their tar changes: the
next version, as far as it is known, is laid out and compared with the newest one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import plugins
from ...accounting.ledger import PENDING
from ...base.arrays import Bools, UInt64s
from ...base.schema import UTTERANCES_FILE
from ...publish import foreseen, package, published_columns
from ...publish.output_shards import format_shards
from ...publish.output_shards.format_shards import PreviousVersion
from ...settings.job import Job
from ...shard_store import decision_log, recipe
from ...storage import queries, tables, versions
from ...storage.versions import Proved

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Columns of a version that follow from what sources and people say of a recording.
DESCRIBED = ("source_id", "text", "text_source", "speaker", "language", "labels")


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
    content: UInt64s  # hash of the columns that formats write
    described: UInt64s  # hash of DESCRIBED


def of_version(job: Job, version: foreseen.Foreseen, redescribed: Set[str]) -> Rewriting:
    """The clips of the next version, and those of them that are written again. `redescribed`:
    recordings of which their sources say something else now. A clip counts as staying as it is
    while only its filters or further recognisers have work."""
    clips, newest = version.choice.clips, versions.newest(job.out)
    columns, all_differ = _compared(job, newest)
    linked = recipe.across_recordings(job) is not None
    describing = [name for name in DESCRIBED if not (linked and name == "speaker")]
    with queries.tables() as database:
        facts = _known(version, columns, describing, redescribed, database)
        rows: Any = clips.row
        clip_facts = _Known(*(column[rows] for column in facts))
        stays = ~clip_facts.waiting
        coming = int(clip_facts.waiting.sum()), float(clips.seconds[clip_facts.waiting].sum())
        if newest is None:
            count = int(stays.sum())
            return Rewriting(0, count, count, float(clips.seconds[stays].sum()), *coming)
        before = package.published_before(job, version.choice, newest)
        places = before.now
        former = np.full(len(stays), -1)  # the row of each clip in the newest version
        former[places[places >= 0]] = np.flatnonzero(places >= 0)
        published = _of(newest, columns, describing, database)
        content, described = (np.append(values, 0)[former] for values in published)
    was = former >= 0
    same = was & stays & (~clip_facts.decided | (clip_facts.content == content))
    differing = was & clip_facts.decided & clip_facts.stated & (clip_facts.described != described)
    written = np.zeros(len(stays), bool)
    described_then = versions.described(newest)
    shards = package.laid_out(job, version.choice, before, described_then) if len(stays) else ()
    for shard in shards:
        whole = shard.before is not None and shard.whole and bool(same[shard.rows].all())
        written[shard.rows] = all_differ or not whole
    written &= stays
    seconds = float(clips.seconds[written].sum())
    counts = len(places), int(stays.sum()), int(written.sum()), seconds
    return Rewriting(*counts, *coming, int(differing.sum()))


def _compared(job: Job, newest: Path | None) -> tuple[list[str], bool]:
    """The columns that formats write into the files of clips, and whether all files differ."""
    if newest is None:
        return [], True
    now = published_columns.row_schema(job).empty_table()
    then = tables.schema(newest / UTTERANCES_FILE).empty_table()
    previous = PreviousVersion(newest, versions.described(newest), tuple(then.column_names))
    columns, differ = dict[str, None](), False
    for plugin in job.package.formats:
        module, settings = plugins.FORMATS.resolve(plugin)
        depending = set(module.columns(settings))
        measured = [set(table.column_names) & depending for table in (now, then)]
        differ |= measured[0] != measured[1] or not previous.has_format(plugin, job.package.publish)
        columns |= dict.fromkeys(format_shards.visible(module, now, settings=settings).column_names)
    return [name for name in columns if name in then.column_names], differ


def _known(
    version: foreseen.Foreseen,
    columns: Sequence[str],
    describing: Sequence[str],
    redescribed: Set[str],
    database: DuckDBPyConnection,
) -> _Known:
    """Of all rows; those of clips that the version does not have are arbitrary."""
    names = pa.array([*redescribed], pa.string())
    decisions = decision_log.read(decision_log.stored(version.job.out))
    reviewed = pa.array([*{decision.id for decision in decisions}], pa.string())
    kinds = (bool, bool, bool, np.uint64, np.uint64)
    parts = [_Known(*(np.zeros(0, kind) for kind in kinds))]
    wanted = dict.fromkeys(("id", "recording", *columns, *describing))
    for rows, facts in version.rows([name for name in wanted if name in version.columns]):
        pending = pc.equal(facts["outcome"], PENDING)
        waiting = pc.and_(pending, pc.invert(facts["transcribed"]))
        stated = pc.or_(pc.is_in(rows["recording"], names), pc.is_in(rows["id"], reviewed))
        flags = (waiting, pc.invert(pending), stated)
        waits, decided, differs = (np.asarray(flag, bool) for flag in flags)
        hashed = _hashes(database, rows, columns, describing)
        parts.append(_Known(waits, decided, differs, *hashed))
    return _Known(*map(np.concatenate, zip(*parts, strict=True)))


def _of(
    newest: Path, columns: Sequence[str], describing: Sequence[str], database: DuckDBPyConnection
) -> tuple[UInt64s, UInt64s]:
    """Hashes of `columns` and of `describing` of the newest version's rows."""
    place = newest / UTTERANCES_FILE
    published = tables.schema(place).names
    wanted = [name for name in dict.fromkeys(("id", *columns, *describing)) if name in published]
    parts = [(np.zeros(0, np.uint64), np.zeros(0, np.uint64))]
    for rows in tables.row_groups(place, wanted, Proved(newest)):
        content, described = _hashes(database, rows, columns, describing)
        parts.append((content, described))
    content, described = map(np.concatenate, zip(*parts, strict=True))
    return content, described


def _hashes(
    database: DuckDBPyConnection, rows: pa.Table, *several: Sequence[str]
) -> Iterator[UInt64s]:
    """For each list of columns, a hash of them of each row; columns that the table lacks count as
    null."""
    hashed = list[str]()
    for columns in several:
        names = (queries.identifier(n) if n in rows.column_names else "NULL" for n in columns)
        hashed.append(f"hash({', '.join(['0', *names])})")
    table = queries.joined(database, rows, f"SELECT {', '.join(hashed)} FROM given")
    return (column.to_numpy() for column in table.columns)
