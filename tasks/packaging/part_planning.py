"""Plans the parts of a version in one process: the files for its workers (listed in `parts.py`)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks import storage
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.packaging import whole
from tasks.packaging.layout import ClipGroup, PlannedGroup
from tasks.packaging.parts import SPEAKER, Ints, PlannedPart, write_batches
from tasks.packaging.published import Published, TablePart

TOGETHER = 8  # decided groups whose rows lie in one file, some 40,000 rows
WANTED = pa.schema({"group": pa.int32(), "row": pa.int32(), "part": pa.int32(), "at": pa.int64()})

Places = Mapping[tuple[str, int], tuple[str, int]]  # file and first row, by split and number


def save(
    job: Job,
    scratch: Path,
    divided: Sequence[tuple[str, list[int]]],
    groups: Sequence[ClipGroup],
    found: whole.Chosen,
    content: NDArray[np.uint64],
    more: dict[str, pa.Array],
    spoken: pa.Array | None,
    before: Published | None,
    linkable: bool,
    damaged: Sequence[str],
) -> tuple[list[PlannedPart], list[int]]:
    """Save what workers need to know about each part; returns the parts, and the numbers of the
    files of rows that they need. `more`: columns that formats derive, and `spoken`: names of
    speakers over all recordings, both for all clips. `linkable`: unchanged groups need no rows;
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
            if linkable and name not in damaged and not more and _stays(old, own):
                planned.append(PlannedPart(number, name, old.file if old else ""))
                continue
            planned.append(PlannedPart(number, name, ""))
            readable = not any(_place(places, group)[0] in damaged for group in own)
            members = [_member(each, _place(places, each), linkable, readable) for each in own]
            at = 0
            for group, member in zip(own, members, strict=True):
                if member.fresh:
                    wanted.append((group.rows, number, at))
                    at += member.clips
            every = np.concatenate([group.rows for group in own])
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
        needed = sorted({file for files in sources.values() for file in files})
        for number, told in described.items():
            told["sources"] = sources.get(number, [])
            (home / f"parts/{number}.json").write_text(json.dumps(told))
    return planned, needed


def _stays(old: TablePart | None, groups: Sequence[ClipGroup]) -> bool:
    """Whether a part of the previous version still holds just these groups."""
    return (
        old is not None
        and bool(old.file)
        and len(old.groups) == len(groups)
        and all(group.same and group.number == group.before for group in groups)
    )


def _member(
    group: ClipGroup, place: tuple[str, int], linkable: bool, readable: bool
) -> PlannedGroup:
    """A group of a part. `readable`: the previous version's files of the part can be read."""
    fresh = not (group.same and linkable and readable)
    file, then = place
    compared = bool(file) and readable and (not fresh or group.whole)
    return replace(
        group.planned(),
        same=group.same and readable,
        fresh=fresh,
        file=file if compared else "",
        then=then,
    )


def places_of(before: Published) -> Places:
    """(file, first row in it) of each group of the previous version, by its split and number."""
    return {
        (group.split, group.number): (part.name, group.first - part.groups[0].first)
        for part in before.parts
        for group in part.groups
    }


def _place(places: Places, group: ClipGroup) -> tuple[str, int]:
    """Where the previous version has the group; ("", 0): nowhere."""
    return ("", 0) if group.before is None else places.get((group.split, group.before), ("", 0))


def _save_wanted(
    home: Path, clips: whole.CorpusClips, wanted: list[tuple[Ints, int, int]]
) -> dict[int, list[int]]:
    """Save which rows each file has to hold for the parts; returns the files of each part."""
    if not wanted:
        return {}
    numbers = np.array([number for _, number, _ in wanted], np.int32)
    firsts = np.array([first for _, _, first in wanted])
    ends = np.cumsum([len(rows) for rows, _, _ in wanted])
    begins = ends - [len(rows) for rows, _, _ in wanted]
    index = np.concatenate([rows for rows, _, _ in wanted])
    wanted.clear()  # the same once more
    file = clips.group[index] // TOGETHER
    order = np.argsort(file, kind="stable")  # in a file, by part and place
    edges = np.searchsorted(file, np.arange(len(np.bincount(file)) + 1), sorter=order)
    sources: dict[int, list[int]] = {}
    for number in np.flatnonzero(np.diff(edges)).tolist():
        some = order[edges[number] : edges[number + 1]]
        run = np.searchsorted(ends, some, side="right")
        at = some - begins[run] + firsts[run]
        part, rows = numbers[run], index[some]
        table = pa.table([clips.group[rows], clips.row[rows], part, at], schema=WANTED)
        write_batches(home / f"wanted/{number}.arrow", [table])
        for each in np.unique(part).tolist():
            sources.setdefault(each, []).append(number)
    return sources
