"""Parts of a version: runs of output shards with their rows, planned by one worker each.

`utterances.parquet` is one file, or, beyond `package.table_rows` clips, a folder of parts of that
name: `<split>-<number>.parquet` holds the rows of `groups_of_part` tars of a split, in their order.
So parts that a night does not touch are linked, as tars are. The rows of a part come from any group
of work shards: each such group is read once, and its rows are put where the parts find theirs.

    <scratch>/chosen.arrow         the clips of the version (`whole.py`)
    <scratch>/wanted/<g>.arrow     rows of the decided group g that parts need
    <scratch>/rows/<g>.arrow       these rows: a record batch for each part
    <scratch>/parts/<p>.json       groups of part p
    <scratch>/parts/<p>.arrow      digests of its clips, and what formats derive
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks import plugins, storage
from tasks.dataset import versions
from tasks.formats import OutputShard, PublishedFile
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.packaging import decided, plan, published, shard_decisions, whole
from tasks.packaging.decided import Group as Decided
from tasks.packaging.layout import Group
from tasks.packaging.previous import PreviousVersion
from tasks.packaging.published import Published
from tasks.settings import PackageSettings
from tasks.storage import tables

FILE = "utterances.parquet"
FOLDERS = ("parts", "wanted", "rows")  # in the scratch folder
SECONDS_OF_CLIP = 5.0  # about; only the number of tars in a part follows from it
WANTED = pa.schema({"row": pa.int32(), "part": pa.int32(), "at": pa.int64()})

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Member:
    """A group of a part."""

    split: str
    number: int
    generation: int
    count: int
    before: int | None
    whole: bool
    same: bool
    fresh: bool  # its rows come from the decided groups, else from the previous version
    then: int  # its first row in the previous version; -1: it has none to compare


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A part, or one of the previous version that stays; what the flow keeps of it."""

    number: int
    name: str
    file: str  # that tells of the previous version's part, where it stays


def groups_of_part(settings: PackageSettings) -> int:
    """Tars of a part: a power of two, with about `table_rows` clips in all."""
    clips = settings.tar_hours * 3600 / SECONDS_OF_CLIP
    return 1 << round(math.log2(max(settings.table_rows / clips, 1)))


def divided(
    groups: Sequence[Group], settings: PackageSettings, clips: int
) -> list[tuple[str, list[int]]]:
    """(name, indices of its groups) of each part, in the order of the groups."""
    if clips <= settings.table_rows:
        return [(FILE, list(range(len(groups))))]
    size = groups_of_part(settings)
    found: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        name = f"{FILE}/{group.split}-{group.number // size:06d}.parquet"
        found.setdefault(name, []).append(index)
    return list(found.items())


def derives(job: Job) -> bool:
    """Whether a format derives columns from all rows of the version."""
    empty = _published_schema(job).empty_table()
    formats = [plugins.resolve("formats", plugin) for plugin in job.package.formats]
    return any(module.derived(empty, settings) for module, settings in formats)


def derived(job: Job, groups: Sequence[Decided], clips: whole.Clips) -> dict[str, pa.Array]:
    """The columns that formats derive, of all clips in their order, by their names in a plan. All
    rows are held, in the columns that they follow from."""
    found: dict[str, pa.Array] = {}
    schema = _published_schema(job)
    for plugin in job.package.formats:
        module, settings = plugins.resolve("formats", plugin)
        if module.derived(schema.empty_table(), settings):
            names = [name for name in module.COLUMNS if name in schema.names]
            rows = whole.rows_of(groups, clips, names)
            for name, values in module.derived(rows, settings).items():
                found[plan.derived_name(plugin.use, name)] = values
    return found


def all_linkable(job: Job, newest: Path, described: JsonObject) -> bool:
    """Whether the newest version holds all formats as today's settings make them, so that a group
    that did not change needs no rows. A format whose files hold their number may need them."""
    previous = PreviousVersion(newest, described, ())
    return all(
        previous.has_format(plugin) and not plugins.load("formats", plugin.use).NUMBERED
        for plugin in job.package.formats
    )


def _published_schema(job: Job) -> pa.Schema:
    sources = {name for name, _ in plan.SOURCE_COLUMNS}
    fields = shard_decisions.row_schema(job)
    return pa.schema([field for field in fields if field.name not in sources])


def save(
    job: Job,
    scratch: Path,
    divided: Sequence[tuple[str, list[int]]],
    groups: Sequence[Group],
    found: whole.Chosen,
    content: NDArray[np.uint64],
    more: dict[str, pa.Array],
    before: Published | None,
    linkable: bool,
    damaged: Sequence[str],
) -> tuple[list[PlannedPart], list[int]]:
    """Save what workers need to know of each part; returns the parts, and the numbers of the
    decided groups that they need rows of. `linkable`: unchanged groups need no rows; `damaged`:
    files of the previous version that cannot be read."""
    firsts = {} if before is None else {(g.split, g.number): g.first for g in before.groups}
    counts = {} if before is None else {part.name: part for part in before.parts}
    planned, wanted = [], []
    described: dict[int, JsonObject] = {}
    with storage.of(scratch).writing(scratch) as home:
        for folder in ("parts", "wanted"):
            (home / folder).mkdir(parents=True, exist_ok=True)
        for number, (name, indices) in enumerate(divided):
            own = [groups[index] for index in indices]
            old = counts.get(name)
            stays = linkable and name not in damaged and old is not None and bool(old.file)
            stays = stays and not more and old is not None and len(old.groups) == len(own)
            stays = stays and all(g.same and g.number == g.before for g in own)
            planned.append(PlannedPart(number, name, old.file if stays and old else ""))
            if stays:
                continue
            readable = not any(_holds(before, group, damaged) for group in own)
            members = []
            rows = []
            at = 0
            for group in own:
                fresh = not (group.same and linkable and readable)
                then = -1 if group.before is None else firsts.get((group.split, group.before), -1)
                compared = then >= 0 and readable and (not fresh or group.whole)
                members.append(
                    Member(
                        group.split,
                        group.number,
                        group.generation,
                        len(group.rows),
                        group.before,
                        group.whole,
                        group.same and readable,
                        fresh,
                        then if compared else -1,
                    )
                )
                rows.append(group.rows)
                if fresh:
                    wanted.append((group.rows, number, at))
                    at += len(group.rows)
            every = np.concatenate(rows)
            columns: dict[str, Any] = {
                "high": found.clips.high[every],
                "low": found.clips.low[every],
                "content": content[every],
            }
            columns |= {name: values.take(pa.array(every)) for name, values in more.items()}
            _write(home / f"parts/{number}.arrow", [pa.table(columns).combine_chunks()])
            described[number] = {"members": [asdict(each) for each in members]}
        sources = _save_wanted(home, found.clips, wanted)
        needed = sorted({group for groups in sources.values() for group in groups})
        for number, told in described.items():
            told["sources"] = sources.get(number, [])
            (home / f"parts/{number}.json").write_text(json.dumps(told))
    return planned, needed


def _holds(before: Published | None, group: Group, damaged: Sequence[str]) -> bool:
    """Whether a damaged part of the previous version holds the group."""
    if before is None or not damaged or group.before is None:
        return False
    return any(
        part.name in damaged
        and (group.split, group.before) in {(g.split, g.number) for g in part.groups}
        for part in before.parts
    )


def _save_wanted(
    home: Path, clips: whole.Clips, wanted: list[tuple[Ints, int, int]]
) -> dict[int, list[int]]:
    """The rows that parts need, by decided group; returns the groups that each part needs."""
    if not wanted:
        return {}
    index = np.concatenate([rows for rows, _, _ in wanted])
    part = np.concatenate([np.full(len(rows), number, np.int32) for rows, number, _ in wanted])
    at = np.concatenate([np.arange(first, first + len(rows)) for rows, _, first in wanted])
    group = clips.group[index]
    order = np.lexsort((at, part, group))
    edges = np.searchsorted(group[order], np.arange(int(group.max()) + 2))
    sources: dict[int, list[int]] = {}
    for number in np.unique(group).tolist():
        some = order[edges[number] : edges[number + 1]]
        table = pa.table([clips.row[index[some]], part[some], at[some]], schema=WANTED)
        _write(home / f"wanted/{number}.arrow", [table])
        for each in np.unique(part[some]).tolist():
            sources.setdefault(each, []).append(number)
    return sources


def _write(path: Path, parts: Sequence[pa.Table]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tables.writing(path, parts[0].schema) as out:
        for table in parts:
            for batch in table.combine_chunks().to_batches():
                out.write_batch(batch)


def scatter(job: Job, number: int, scratch: Path) -> None:
    """On a worker: put the rows of a decided group where parts find theirs."""
    group = decided.listed(job, scratch)[number]
    with tables.arrow(scratch / f"wanted/{number}.arrow") as file:
        wanted = pa.ipc.open_file(file).read_all()
    rows = group.table("rows.arrow").take(wanted["row"]).append_column("at", wanted["at"])
    part = wanted["part"].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)]
    told = {"parts": json.dumps(part[edges[:-1]].tolist())}
    rows = rows.replace_schema_metadata(told)
    pieces = [rows.slice(low, high - low) for low, high in pairwise(edges)]
    with storage.of(scratch).writing(scratch) as home:
        _write(home / f"rows/{number}.arrow", pieces)


def write(
    job: Job, part: PlannedPart, scratch: Path, staging: Path, newest: Path | None
) -> tuple[str, int] | None:
    """On a worker: plan a part and write its rows, or link it; digest of its file. None where a
    file of the previous version is damaged: it has to be planned again without that."""
    # A dead worker's may be a link into a published version, which must not be written through.
    storage.of(staging).detach(staging / part.name)
    if part.file:
        return _link(job, part, staging, newest)
    with tables.arrow(scratch / f"parts/{part.number}.arrow") as file:
        digests = pa.ipc.open_file(file).read_all()
    told = json.loads(storage.read(scratch / f"parts/{part.number}.json"))
    members = [Member(**each) for each in told["members"]]
    previous = None
    if newest is not None:
        columns = tuple(tables.schema(newest / FILE).names)
        previous = PreviousVersion(newest, versions.described(newest), columns)
        previous = _with_rows(previous, members)
        if previous is None:
            return None
    rows = _rows(job, members, _fresh(told["sources"], part.number, scratch), previous)
    ends = np.cumsum([0, *(each.count for each in members)]).tolist()
    groups = [
        Group(m.split, m.number, m.generation, np.arange(low, high), m.before, m.whole, m.same)
        for m, low, high in zip(members, ends[:-1], ends[1:], strict=True)
    ]
    more = {name: digests[name].combine_chunks() for name in digests.column_names[3:]}
    derived: dict[str, dict[str, pa.Array]] = {}
    for plugin in job.package.formats:
        head = plan.derived_name(plugin.use, "")
        derived[plugin.use] = {
            n.removeprefix(head): a for n, a in more.items() if n.startswith(head)
        }
    with storage.of(staging).writing(staging, job.scratch) as home:
        table = plan.write(job, home, groups, rows, previous, part.number, derived)
        target = home / part.name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target, compression="zstd")
        hashed = storage.hashed(target)
        shards = plan.shards_of(home, part.number)
        runs = [(m.split, m.generation, m.count) for m in members]
        known = published.tell(digests.select(published.DIGESTS.names), runs, shards)
        (home / plan.PLAN / plan.part_name(part.number) / "told.arrow").write_bytes(known)
    return hashed


def _link(
    job: Job, part: PlannedPart, staging: Path, newest: Path | None
) -> tuple[str, int] | None:
    """The part as it was, and its output shards, whose files are linked."""
    assert newest is not None
    described = versions.described(newest)
    entry = described["files"].get(part.name)
    if entry is None or not versions.link(
        newest / part.name, staging / part.name, entry["sha256"], entry["bytes"]
    ):
        return None
    previous = PreviousVersion(newest, described, ())
    shards = []
    for shard in published.shards(job.out, part.file):
        unchanged: tuple[PublishedFile, ...] = previous.files(shard.files)
        if not unchanged and shard.files:
            return None
        fields = (shard.format, shard.split, shard.number, shard.group, shard.clips, shard.files)
        shards.append(OutputShard(*fields, unchanged))
    with storage.of(staging).writing(staging, job.scratch) as home:
        folder = home / plan.PLAN / plan.part_name(part.number)
        folder.mkdir(parents=True, exist_ok=True)
        plan.save_shards(folder, shards)
    return entry["sha256"], entry["bytes"]


def _with_rows(previous: PreviousVersion, members: Sequence[Member]) -> PreviousVersion | None:
    """The previous version with the rows of these groups; None where they cannot be read."""
    asked = sorted((m.then, m.count, m.split, m.before or 0) for m in members if m.then >= 0)
    if not asked:
        return previous
    held = tables.Slices(previous.home / FILE)
    for number in held.touched([(first, count) for first, count, _, _ in asked]):
        path = held.files[number]
        name = FILE if path.name == FILE else f"{FILE}/{path.name}"
        entry = previous.described["files"].get(name)
        if entry is None or storage.hashed(path) != (entry["sha256"], entry["bytes"]):
            return None
    found, places, at = [], {}, 0
    for first, count, split, number in asked:
        found.append(held.read(first, count))
        places[split, number] = at, count
        at += count
    rows = pa.concat_tables(found)
    return PreviousVersion(previous.home, previous.described, previous.columns, rows, places)


def _fresh(sources: Sequence[int], part: int, scratch: Path) -> pa.Table | None:
    """Rows of a part from the decided groups, in order."""
    batches = []
    for group in sources:
        with tables.arrow(scratch / f"rows/{group}.arrow") as file:
            held = pa.ipc.open_file(file)
            number = json.loads(held.schema.metadata[b"parts"]).index(part)
            batches.append(held.get_batch(number).replace_schema_metadata())
    if not batches:
        return None
    table = pa.Table.from_batches(batches)
    order = np.argsort(table["at"].to_numpy(), kind="stable")
    return table.drop_columns(["at"]).take(order)


def _rows(
    job: Job, members: Sequence[Member], fresh: pa.Table | None, previous: PreviousVersion | None
) -> pa.Table:
    """All rows of a part, in the order of its groups."""
    schema = shard_decisions.row_schema(job)
    pieces, at = [], 0
    for each in members:
        if each.fresh:
            assert fresh is not None
            piece = fresh.slice(at, each.count)
            at += each.count
            piece = _in_split(piece, each.split)
        else:
            assert previous is not None
            assert previous.rows is not None
            first, count = previous.places[each.split, each.before or 0]
            piece = previous.rows.slice(first, count)
            for field in schema:
                if field.name not in piece.column_names:
                    piece = piece.append_column(field, pa.nulls(count, field.type))
            piece = piece.select(schema.names)
        pieces.append(piece.cast(schema).replace_schema_metadata())
    return pa.concat_tables(pieces).combine_chunks().cast(schema)


def _in_split(rows: pa.Table, split: str) -> pa.Table:
    at = rows.column_names.index("split")
    return rows.set_column(
        at, rows.schema.field("split"), pa.array([split] * len(rows), pa.string())
    )
