"""Parts of a version: runs of output shards with their rows, planned by one worker each.

`utterances.parquet` is one file, or, beyond `package.table_rows` clips, a folder of parts of that
name: `<split>-<number>.parquet` holds the rows of `groups_of_part` tars of a split, in their order.
So parts that a night does not touch are linked, as tars are. The rows of a part come from any group
of work shards: each such group is read once, and its rows are put where the parts find theirs.

    <scratch>/chosen.arrow         the clips of the version (`whole.py`)
    <scratch>/wanted/<g>.arrow     rows of the decided group g that parts need
    <scratch>/rows/<g>.arrow       these rows: a record batch for each part
    <scratch>/parts/<p>.json       groups of part p
    <scratch>/parts/<p>.arrow      digests of its clips, what formats derive, and who speaks
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks import plugins, storage
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.packaging import plan, shard_decisions, whole
from tasks.packaging.decided import Group as Decided
from tasks.packaging.layout import Group
from tasks.packaging.previous import PreviousVersion
from tasks.packaging.published import Published
from tasks.settings import PackageSettings
from tasks.storage import tables

FILE = "utterances.parquet"
FOLDERS = ("parts", "wanted", "rows")  # in the scratch folder
SPEAKER = "speaker"  # column of a part's digests
SECONDS_OF_CLIP = 5.0  # about; only the number of tars in a part follows from it
WANTED = pa.schema({"row": pa.int32(), "part": pa.int32(), "at": pa.int64()})

Ints = NDArray[np.int64]
Places = Mapping[tuple[str, int], tuple[str, int]]  # file and first row, by split and number


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
    file: str  # of the previous version, that has its rows; empty: there are none to compare
    then: int  # its first row there


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


def rule(settings: PackageSettings) -> JsonObject:
    """What of the settings decides whether a table is a file or a folder of parts, for
    dataset.json."""
    return {
        "one_file_up_to_rows": settings.table_rows,
        "utterances.parquet": f"a part for every {groups_of_part(settings)} tars of a split",
        "ledger.parquet": "the fewest parts, a power of two, by hash of the recording; what is new "
        "since then in parts of its own, joined eight at a time",
    }


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
    sources = {name for name, _ in plan.sources_of(job)}
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
    spoken: pa.Array | None,
    before: Published | None,
    linkable: bool,
    damaged: Sequence[str],
) -> tuple[list[PlannedPart], list[int]]:
    """Save what workers need to know of each part; returns the parts, and the numbers of the
    decided groups that they need rows of. `more`: columns that formats derive, `spoken`: names of
    speakers over all recordings, of all clips. `linkable`: unchanged groups need no rows;
    `damaged`: files of the previous version that cannot be read."""
    places = {} if before is None else places_of(before)
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
            readable = not any(_place(places, group)[0] in damaged for group in own)
            members = []
            rows = []
            at = 0
            for group in own:
                fresh = not (group.same and linkable and readable)
                file, then = _place(places, group)
                compared = bool(file) and readable and (not fresh or group.whole)
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
                        file if compared else "",
                        then,
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
            if spoken is not None:
                columns[SPEAKER] = spoken.take(pa.array(every))
            write_batches(home / f"parts/{number}.arrow", [pa.table(columns).combine_chunks()])
            described[number] = {"members": [asdict(each) for each in members]}
        sources = _save_wanted(home, found.clips, wanted)
        needed = sorted({group for groups in sources.values() for group in groups})
        for number, told in described.items():
            told["sources"] = sources.get(number, [])
            (home / f"parts/{number}.json").write_text(json.dumps(told))
    return planned, needed


def places_of(before: Published) -> Places:
    """(file, first row in it) of each group of the previous version, by its split and number."""
    return {
        (group.split, group.number): (part.name, group.first - part.groups[0].first)
        for part in before.parts
        for group in part.groups
    }


def _place(places: Places, group: Group) -> tuple[str, int]:
    """Where the previous version has the group; ("", 0): nowhere."""
    return ("", 0) if group.before is None else places.get((group.split, group.before), ("", 0))


def _save_wanted(
    home: Path, clips: whole.Clips, wanted: list[tuple[Ints, int, int]]
) -> dict[int, list[int]]:
    """The rows that parts need, by decided group; returns the groups that each part needs."""
    if not wanted:
        return {}
    numbers = np.array([number for _, number, _ in wanted], np.int32)
    firsts = np.array([first for _, _, first in wanted])
    ends = np.cumsum([len(rows) for rows, _, _ in wanted])
    begins = ends - [len(rows) for rows, _, _ in wanted]
    index = np.concatenate([rows for rows, _, _ in wanted])
    wanted.clear()  # the same once more
    group = clips.group[index]
    order = np.argsort(group, kind="stable")  # in a group, by part and place
    edges = np.searchsorted(group, np.arange(len(np.bincount(group)) + 1), sorter=order)
    sources: dict[int, list[int]] = {}
    for number in np.flatnonzero(np.diff(edges)).tolist():
        some = order[edges[number] : edges[number + 1]]
        run = np.searchsorted(ends, some, side="right")
        at = some - begins[run] + firsts[run]
        part = numbers[run]
        table = pa.table([clips.row[index[some]], part, at], schema=WANTED)
        write_batches(home / f"wanted/{number}.arrow", [table])
        for each in np.unique(part).tolist():
            sources.setdefault(each, []).append(number)
    return sources


def write_batches(path: Path, parts: Sequence[pa.Table]) -> None:
    """An Arrow file of a record batch for each table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tables.writing(path, parts[0].schema) as out:
        for table in parts:
            for batch in table.combine_chunks().to_batches():
                out.write_batch(batch)
