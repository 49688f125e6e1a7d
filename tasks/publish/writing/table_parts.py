"""Plans and writes the parts of a version's `utterances.parquet`: runs of output shards.

`utterances.parquet` is one file or, beyond `package.table_rows` clips, a folder of parts:
`<split>-<number>.parquet` holds the rows of `tars_of_part` tars of a split, in order. So unchanged
parts are linked, as tars are. The rows of a part may come from any shard batch. Each shard batch is
read once, and the rows of TOGETHER batches go to one file with a record batch for each part, so
that the number of files is not that of batches times parts.

    <scratch>/chosen.arrow         the clips of the version (`choosing/corpus_clips.py`)
    <scratch>/wanted/<n>.arrow     WANTED: rows that parts need from the n-th group of batches
    <scratch>/rows/<n>.arrow       these rows: a record batch for each part
    <scratch>/parts/<p>.json       output shards of part p
    <scratch>/parts/<p>.arrow      digests of its clips, derived columns, names of speakers
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ... import plugins, storage
from ...base.arrays import Int64s, UInt64s
from ...base.json_types import DatasetJson
from ...base.schema import LEDGER_FILE, UTTERANCES, UTTERANCES_FILE
from ...settings import PackageSettings
from ...settings.job import Job
from ...storage import tables, versions
from ...storage.versions import Proved
from .. import corpus_labels, previous_version, speakers
from ..choosing import corpus_clips
from ..outcomes import shard_batches, shard_outcomes
from ..outcomes.shard_batches import ShardBatch
from ..output_shards import format_shards, plan
from ..output_shards.format_shards import PreviousVersion
from ..output_shards.layout import PlannedShard, ShardClips
from ..planned_columns import sources_of
from ..previous_version import Published, TablePart
from .shards import linked

TOGETHER = 8  # shard batches whose rows share a file, about 40,000 rows
#: Row `row` of shard batch `group` becomes row `at` of part `part`.
WANTED = pa.schema({"group": pa.int32(), "row": pa.int32(), "part": pa.int32(), "at": pa.int64()})
FOLDERS = ("parts", "wanted", "rows")  # in the scratch folder
SPEAKER = "speaker"  # column of a part's digests
SECONDS_OF_CLIP = 5.0  # assumed mean, to choose the number of tars in a part


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A part of the next version, as it is sent to workers."""

    number: int
    name: str  # path in the version
    file: str  # note on the previous version's part, if that is linked; else empty


class ClipColumns(NamedTuple):
    """Columns of all clips that their shards' rows lack."""

    content: UInt64s  # digests of the rows, including the columns below
    derived: dict[str, pa.Array]  # columns that formats derive
    spoken: pa.Array | None  # names of speakers across recordings; null: the row's own


def tars_of_part(settings: PackageSettings) -> int:
    """The number of tars in a part: a power of two, with about `table_rows` clips in all."""
    clips = settings.tar_hours * 3600 / SECONDS_OF_CLIP
    return 1 << round(math.log2(max(settings.table_rows / clips, 1)))


def rule(settings: PackageSettings) -> dict[str, str | int]:
    """When a table is a file and when a folder of parts, for dataset.json."""
    return {
        "one_file_up_to_rows": settings.table_rows,
        UTTERANCES_FILE: f"a part for every {tars_of_part(settings)} tars of a split",
        LEDGER_FILE: "the fewest parts, a power of two, by hash of the recording; what is new "
        "since then in parts of its own, joined eight at a time",
    }


def _divided(
    shards: Sequence[ShardClips], settings: PackageSettings, clips: int
) -> Mapping[str, Sequence[ShardClips]]:
    """The output shards of each part, by the part's name, in order."""
    if clips <= settings.table_rows:
        return {UTTERANCES_FILE: shards}
    size = tars_of_part(settings)
    divided: dict[str, list[ShardClips]] = {}
    for shard in shards:
        name = f"{UTTERANCES_FILE}/{shard.split}-{shard.number // size:06d}.parquet"
        divided.setdefault(name, []).append(shard)
    return divided


def derived(
    job: Job, batches: Sequence[ShardBatch], clips: corpus_clips.CorpusClips
) -> dict[str, pa.Array]:
    """The columns that formats derive, for all clips in order. If there are any, the columns from
    which they are derived are in memory for all rows."""
    sources = sources_of(job)
    fields = [field for field in shard_outcomes.row_schema(job) if field.name not in sources]

    def read(names: list[str]) -> pa.Table:
        return corpus_clips.rows_of(batches, clips, names)

    return format_shards.all_derived(job, pa.schema(fields), read)


def all_linkable(job: Job, newest: Path, described: DatasetJson) -> bool:
    """Whether all formats of the newest version are as the current settings would write them, so
    that unchanged shards need no rows. False for formats whose files contain their number, for
    tables of early versions without all columns, and for damaged tables."""
    try:
        columns = tables.schema(newest / UTTERANCES_FILE).names
    except (OSError, pa.ArrowInvalid):  # damaged: written again
        return False
    if not {*UTTERANCES.names} <= {*columns}:
        return False
    previous = PreviousVersion(newest, described, ())
    return all(
        previous.has_format(plugin, job.package.publish)
        and not plugins.FORMATS.load(plugin.use).NUMBERED
        for plugin in job.package.formats
    )


def save(
    job: Job,
    scratch: Path,
    shards: Sequence[ShardClips],
    chosen_clips: corpus_clips.Chosen,
    clip_columns: ClipColumns,
    before: Published | None,
    linkable: bool,
    damaged: Sequence[str],
) -> tuple[list[PlannedPart], list[int]]:
    """Save the plan of each part for the workers; returns the parts, and the numbers of the files
    of rows (`scatter`) that they need. `before`: the previous version; `linkable`: unchanged shards
    need no rows; `damaged`: files of the previous version that cannot be read."""
    content, derived, spoken = clip_columns
    parts_then = {} if before is None else {part.name: part for part in before.parts}
    planned, wanted = [], []
    members_of: dict[int, list[PlannedShard]] = {}
    with storage.of(scratch).writing(scratch) as home:
        for folder in ("parts", "wanted"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        divided = _divided(shards, job.package, len(chosen_clips.split))
        for number, (name, part_shards) in enumerate(divided.items()):
            old = parts_then.get(name)
            if linkable and name not in damaged and not derived and _stays(old, part_shards):
                planned.append(PlannedPart(number, name, old.file if old else ""))
                continue
            planned.append(PlannedPart(number, name, ""))
            readable = not any(s.before and s.before.file in damaged for s in part_shards)
            members = [_member(shard, linkable, readable) for shard in part_shards]
            begin = 0
            for shard, member in zip(part_shards, members, strict=True):
                if member.fresh:
                    wanted.append((shard.rows, number, begin))
                    begin += member.clips
            every = np.concatenate([shard.rows for shard in part_shards])
            columns: dict[str, pa.Array | NDArray[np.generic]] = {
                "high": chosen_clips.clips.high[every],
                "low": chosen_clips.clips.low[every],
                "content": content[every],
            }
            columns |= {name: values.take(pa.array(every)) for name, values in derived.items()}
            if spoken is not None:
                columns[SPEAKER] = spoken.take(pa.array(every))
            tables.write_arrow(home / f"parts/{number}.arrow", [pa.table(columns)])
            members_of[number] = members
        sources = _save_wanted(home, chosen_clips.clips, wanted)
        needed = sorted({file for files in sources.values() for file in files})
        for number, members in members_of.items():
            entries = [asdict(member) for member in members]
            description = {"members": entries, "sources": sources.get(number, [])}
            (home / f"parts/{number}.json").write_text(json.dumps(description))
    return planned, needed


def _stays(old: TablePart | None, shards: Sequence[ShardClips]) -> bool:
    """Whether the previous version's part holds exactly these shards, unchanged."""
    return (
        old is not None
        and bool(old.file)
        and len(old.shards) == len(shards)
        and all(s.same and s.before and s.number == s.before.number for s in shards)
    )


def _member(shard: ShardClips, linkable: bool, readable: bool) -> PlannedShard:
    """The plan of a shard. `readable`: whether the previous version's files with the part's rows
    can be read."""
    same, before = shard.same and readable, shard.before
    planned = replace(shard.planned(), same=same, fresh=not (same and linkable))
    if before is None:
        return planned
    compared = readable and (not planned.fresh or shard.whole)
    return replace(planned, file=before.file if compared else "", then=before.place)


def _save_wanted(
    home: Path, clips: corpus_clips.CorpusClips, wanted: list[tuple[Int64s, int, int]]
) -> dict[int, list[int]]:
    """Save WANTED for each file of rows; returns the numbers of the files that each part needs.
    `wanted`: (rows, part, place of the first in the part) of runs of clips; emptied to free
    memory."""
    if not wanted:
        return {}
    numbers = np.array([number for _, number, _ in wanted], np.int32)
    firsts = np.array([first for _, _, first in wanted])
    ends = np.cumsum([len(rows) for rows, _, _ in wanted])
    begins = ends - [len(rows) for rows, _, _ in wanted]
    index = np.concatenate([rows for rows, _, _ in wanted])
    wanted.clear()
    file = clips.batch[index] // TOGETHER
    order = np.argsort(file, kind="stable")  # within a file, by part and place
    edges = np.searchsorted(file, np.arange(len(np.bincount(file)) + 1), sorter=order)
    sources: dict[int, list[int]] = {}
    for number in np.flatnonzero(np.diff(edges)).tolist():
        some = order[edges[number] : edges[number + 1]]
        run = np.searchsorted(ends, some, side="right")
        place = some - begins[run] + firsts[run]
        part, rows = numbers[run], index[some]
        table = pa.table([clips.batch[rows], clips.row[rows], part, place], schema=WANTED)
        tables.write_arrow(home / f"wanted/{number}.arrow", [table])
        for part_number in np.unique(part).tolist():
            sources.setdefault(part_number, []).append(number)
    return sources


# On the workers: collect the rows of a part, and write or link it.


def scatter(job: Job, number: int, scratch: Path) -> None:
    """On a worker: write the rows of a group of shard batches into a file, sorted by the part that
    needs them. `number`: of the group and the file."""
    batches = shard_batches.listed(scratch)
    wanted = tables.read_arrow(scratch / f"wanted/{number}.arrow")
    batch, row = wanted["group"].to_numpy(), wanted["row"].to_numpy()
    rows_by_batch = {
        index: batches[index].table("rows.arrow") for index in np.unique(batch).tolist()
    }
    first = np.cumsum([0, *map(len, rows_by_batch.values())])[
        np.searchsorted([*rows_by_batch], batch)
    ]
    rows = (
        pa.concat_tables(rows_by_batch.values()).take(first + row).append_column("at", wanted["at"])
    )
    part = wanted["part"].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)]
    metadata = {"parts": json.dumps(part[edges[:-1]].tolist())}
    rows = rows.replace_schema_metadata(metadata)
    pieces = [rows.slice(low, high - low) for low, high in pairwise(edges)]
    with storage.of(scratch).writing(scratch) as home:
        tables.write_arrow(home / f"rows/{number}.arrow", pieces)


class Damaged(NamedTuple):
    """Files of the previous version that differ from what was published. Parts that need them must
    be planned again without them."""

    files: tuple[str, ...]


def write(
    job: Job, part: PlannedPart, scratch: Path, staging: Path, newest: Path | None
) -> tuple[str, int] | Damaged:
    """On a worker: write a part and plan its output shards, or link it; returns (sha256, bytes) of
    its file."""
    # A file that a dead worker left may be a link into a published version.
    storage.of(staging).detach(staging / part.name)
    if part.file:
        return _link(job, part, staging, newest)
    digests = tables.read_arrow(scratch / f"parts/{part.number}.arrow")
    planned = json.loads(storage.read(scratch / f"parts/{part.number}.json"))
    members = [PlannedShard(**member) for member in planned["members"]]
    previous = _with_rows(newest, members) if newest is not None else None
    if isinstance(previous, Damaged):
        return previous
    rows = _rows(job, members, _fresh(planned["sources"], part.number, scratch), previous)
    if SPEAKER in digests.column_names:
        rows = speakers.called(rows, digests[SPEAKER])
    rows = corpus_labels.labelled(job, rows, scratch)
    other = {*previous_version.DIGESTS.names, SPEAKER}
    derived = {name: digests[name] for name in digests.column_names if name not in other}
    with storage.of(staging).writing(staging, job.scratch) as home:
        table = plan.write(job, home, members, rows, derived, previous, part.number)
        target = home / part.name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target, compression="zstd")
        hashed = storage.hashed(target)
        shards = plan.shards_of(home, part.number)
        runs = [(m.split, m.generation, m.clips) for m in members]
        note = previous_version.tell(digests.select(previous_version.DIGESTS.names), runs, shards)
        (home / plan.PLAN / plan.part_name(part.number) / "told.arrow").write_bytes(note)
    return hashed


def _link(
    job: Job, part: PlannedPart, staging: Path, newest: Path | None
) -> tuple[str, int] | Damaged:
    """Link an unchanged part of the previous version with the files of its output shards; returns
    (sha256, bytes) of the part."""
    assert newest is not None
    files, guards = versions.files(newest), previous_version.guards(job.out, newest)
    entry = files.get(part.name)
    guard = previous_version.guard(guards, newest, part.name)
    try:
        old = storage.inside(newest, part.name)
        noted = previous_version.shards(job.out, part.file)
    except (OSError, ValueError, KeyError, TypeError):
        return Damaged((part.name,))
    if entry is None or not storage.of(newest).link(
        old, staging / part.name, entry["sha256"], entry["bytes"], guard
    ):
        return Damaged((part.name,))
    previous = PreviousVersion(newest, {"files": files}, ())
    shards = [replace(shard, unchanged=previous.files(shard.files)) for shard in noted]
    if not all(linked(staging, shard, newest, guards) for shard in shards if shard.files):
        for path in (path for shard in shards for path in shard.files):
            storage.remove(staging / path)
        return Damaged((part.name,))
    with storage.of(staging).writing(staging, job.scratch) as home:
        folder = home / plan.PLAN / plan.part_name(part.number)
        folder.mkdir(parents=True, exist_ok=True)
        plan.save_shards(folder, shards)
    return entry["sha256"], entry["bytes"]


def _with_rows(newest: Path, members: Sequence[PlannedShard]) -> PreviousVersion | Damaged:
    """The previous version with the rows of these shards."""
    described, proved = versions.described(newest), Proved(newest)
    files = sorted({member.file for member in members if member.file})
    if damaged := [name for name in files if not proved.holds(name)]:
        return Damaged(tuple(damaged))
    pieces, places, begin = [], {}, 0
    for name in files:
        table = tables.read(newest / name)
        for member in members:
            if member.file == name:
                pieces.append(table.slice(member.then, member.clips))
                places[member.split, member.before] = begin, member.clips
                begin += member.clips
    if not pieces:
        return PreviousVersion(newest, described, ())
    rows = pa.concat_tables(pieces)
    return PreviousVersion(newest, described, tuple(rows.column_names), rows, places)


def _fresh(sources: Sequence[int], part: int, scratch: Path) -> pa.Table | None:
    """The rows of a part from the shard batches, in order; `sources`: numbers of files of rows."""
    batches = []
    for source in sources:
        with tables.arrow(scratch / f"rows/{source}.arrow") as file:
            stored = pa.ipc.open_file(file)
            number = json.loads(stored.schema.metadata[b"parts"]).index(part)
            batches.append(stored.get_batch(number).replace_schema_metadata())
    if not batches:
        return None
    table = pa.Table.from_batches(batches)
    order = np.argsort(table["at"].to_numpy(), kind="stable")
    return table.drop_columns(["at"]).take(order)


def _rows(
    job: Job,
    members: Sequence[PlannedShard],
    fresh: pa.Table | None,
    previous: PreviousVersion | None,
) -> pa.Table:
    """All rows of a part, in the order of its shards. `fresh`: rows from the shard batches; the
    other rows come from `previous`."""
    schema = shard_outcomes.row_schema(job)
    pieces, begin = [], 0
    for is_fresh, some in groupby(members, lambda member: member.fresh):
        run = [*some]
        count = sum(member.clips for member in run)
        if is_fresh:
            assert fresh is not None
            splits = np.repeat([member.split for member in run], [member.clips for member in run])
            piece, begin = fresh.slice(begin, count), begin + count
            place = piece.schema.get_field_index("split")
            piece = piece.set_column(
                place, piece.schema.field(place), pa.array(splits, pa.string())
            )
        else:  # from the previous version
            assert previous is not None
            assert previous.rows is not None
            firsts = [previous.places[member.split, member.before][0] for member in run]
            slices = zip(firsts, (member.clips for member in run), strict=True)
            piece = pa.concat_tables(previous.rows.slice(*span) for span in _runs(slices))
            piece = tables.conformed(piece, schema)
        pieces.append(piece.cast(schema).replace_schema_metadata())
    return pa.concat_tables(pieces).combine_chunks().cast(schema)


def _runs(slices: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(first row, rows) of each slice, with adjacent slices joined, because slicing takes time."""
    runs: list[tuple[int, int]] = []
    for first, count in slices:
        if runs and sum(runs[-1]) == first:
            runs[-1] = runs[-1][0], runs[-1][1] + count
        else:
            runs.append((first, count))
    return runs
