"""Finds copies among a shard's recordings: files of the same bytes, of which one is processed.

A copy is in the shard of its original, so the shard accounts for its seconds by what was decoded of
the original. A copy states no more than its original: the same spans, and the same text, speaker,
language, turns and labels, or none. A recording that states anything else is processed itself.

Only new recordings are marked, so that clips stay; and marked ones once their original is gone: the
first copy then becomes the original.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.arrays import UInt64s
from ...base.counting import counted
from ...base.schema import RecordingRow
from ...recording import Locator
from ...recording.guard import LOCAL_GUARD, identity
from ...settings.job import Job
from ...shard_store.stored_shard import part_of
from ...storage import sorted_keys

#: Columns that a copy may leave empty.
STATED = ("text", "speaker", "language", "rttm", "rttm_error", "labels")
SPANS = ("segments", "length", "film_time", "captions")  # columns that a copy shares


def former(rows: Iterable[RecordingRow]) -> dict[str, RecordingRow]:
    """Copies of rows by name: committing changes the rows themselves."""
    return {row["recording"]: row.copy() for row in rows}


class NewCopy(NamedTuple):
    path: str  # for people, as that of its original
    original: str
    recording: str


def in_words(new_copies: Sequence[NewCopy]) -> Iterator[str]:
    if new_copies:
        first = min(new_copies)
        one = len(new_copies) == 1
        have, are = ("has", "is") if one else ("have", "are")
        yield (
            f"{counted(len(new_copies), 'new recording')} {have} the bytes of "
            f"{'another' if one else 'others'} and {are} not processed again "
            f"(filter.duplicate), such as {first.path}, which equals {first.original}; "
            "filter.duplicate_files: keep does"
        )


def mark(rows: Sequence[RecordingRow], before: Mapping[str, RecordingRow]) -> list[NewCopy]:
    """Set `copy_of` in the rows of one shard; returns those that were no copies before. `before`:
    the shard's previous rows."""
    groups: dict[str, list[RecordingRow]] = {}
    for row in rows:
        marked, row["copy_of"] = row.get("copy_of"), None
        if row["present"] and not row["error_code"] and row.get("content"):
            row["copy_of"] = marked
            groups.setdefault(part_of(row), []).append(row)
    for group in groups.values():
        if len(group) > 1:
            _mark_group(group, before)
        else:
            group[0]["copy_of"] = None
    new: list[NewCopy] = []
    paths = {row["recording"]: row["source_path"] for row in rows}
    for row in rows:
        then = before.get(row["recording"])
        if row["copy_of"] and not (then and then.get("copy_of")):
            new.append(NewCopy(row["source_path"], paths[row["copy_of"]], row["recording"]))
    return new


def _mark_group(group: list[RecordingRow], before: Mapping[str, RecordingRow]) -> None:
    stays: list[RecordingRow] = []
    back: list[RecordingRow] = []
    fresh: list[RecordingRow] = []
    for row in group:
        then = before.get(row["recording"])
        if then is None or then.get("content") != row["content"] or then.get("copy_of"):
            fresh.append(row)
        else:
            (stays if then["present"] else back).append(row)
        row["copy_of"] = None
    # A recording that has come back is a copy only of one that replaced it meanwhile.
    originals = [*stays]
    for row in back:
        row["copy_of"] = _original(row, stays)
        if row["copy_of"] is None:
            originals.append(row)

    def order(row: RecordingRow) -> tuple[bool, int, str]:
        """Known ones first, then those that state more."""
        unsaid = sum(row.get(name) is None for name in STATED)
        return row["recording"] not in before, unsaid, row["recording"]

    for row in sorted(fresh, key=order):
        row["copy_of"] = _original(row, originals)
        if row["copy_of"] is None:
            originals.append(row)


def _original(row: RecordingRow, originals: Iterable[RecordingRow]) -> str | None:
    """The first of `originals` that states everything that `row` states."""
    for other in originals:
        same = all(other.get(name) == row.get(name) for name in SPANS)
        if same and all(row.get(name) in (None, other.get(name)) for name in STATED):
            return other["recording"]
    return None


# Finds recordings that two sources list: their audio would be packaged twice, under two names.
# Files are identified by their guard, so that links and other mounts are found, too. Two lists may
# cut different segments from one file, such as train and test: that is not double audio, so
# recordings with segments are compared segment by segment.


@dataclass(frozen=True, slots=True)
class Shared:
    """The number of recordings of the source `second` that the source `first` lists too; and an
    example."""

    first: str
    second: str
    recordings: int
    example: str

    def __str__(self) -> str:
        verb = "is" if self.recordings == 1 else "are"
        return (
            f"{counted(self.recordings, 'recording')} of the source {self.second!r} {verb} in "
            f"the source {self.first!r}, too, such as {self.example}"
        )


class SharedRecordings:
    """10 bytes for each file and each segment. Sources come one after the other."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._bits = np.zeros(0, np.uint64)  # hashes in earlier sources, sorted
        self._sources = np.zeros(0, np.int16)  # the source of each
        self._new: list[UInt64s] = []  # hashes in the current source
        self._at = 0
        self._counts: dict[tuple[int, int], int] = {}
        self._examples: dict[tuple[int, int], str] = {}

    def at(self, rows: pa.Table, source: int) -> None:
        """Add rows of RECORDINGS of the source with this number."""
        self._turn(source)
        rows = rows.filter(pc.and_(pc.is_null(rows["error_code"]), pc.not_equal(rows["guard"], "")))
        flat = pc.list_flatten(rows["segments"])
        times = zip(*(pc.struct_field(flat, n).to_pylist() for n in ("start", "end")), strict=True)
        row, wanted, new = list[int](), list[int](), list[int]()
        columns = (rows["guard"], rows["locator"], pc.list_value_length(rows["segments"]))
        listed = zip(*(column.to_pylist() for column in columns), strict=True)
        for number, (guard, locator, segments) in enumerate(listed):
            file = _identity(guard, locator)
            whole, cut = _hash(file), _hash(f"cut {file}")
            spans = [_hash(f"{file} {start} {end}") for start, end in islice(times, segments or 0)]
            looked = [whole, cut] if segments is None else [whole, *spans]
            wanted += looked
            row += [number] * len(looked)
            new += [whole] if segments is None else [cut, *spans]
        first = np.full(len(rows), -1, np.int64)
        sources = sorted_keys.value_of(self._bits, self._sources, np.array(wanted, np.uint64))
        np.maximum.at(first, np.array(row, np.int64), sources)
        self._new.append(np.array(new, np.uint64))
        for number in np.unique(first[first >= 0]).tolist():
            places, pair = np.flatnonzero(first == number), (number, source)
            self._counts[pair] = self._counts.get(pair, 0) + len(places)
            self._examples.setdefault(pair, rows["source_path"][int(places[0])].as_py())

    def found(self) -> list[Shared]:
        return [
            Shared(self._names[first], self._names[second], count, self._examples[first, second])
            for (first, second), count in sorted(self._counts.items())
        ]

    def _turn(self, source: int) -> None:
        """Sort the last source's hashes when the next one begins."""
        if source != self._at:
            bits = np.concatenate([self._bits, *self._new])
            new = np.full(len(bits) - len(self._bits), self._at, np.int16)
            order = np.argsort(bits, kind="stable")
            self._bits = bits[order]
            self._sources = np.concatenate([self._sources, new])[order]
            self._new, self._at = [], source


def outcome(job: Job) -> str:
    """What a run does with recordings that two sources list."""
    if any(plugin.use == "duplicate" for plugin in job.filter.filters):
        return "the filter duplicate keeps one copy of each clip"
    if job.filter.duplicate_files == "drop":
        return (
            "what is new is processed once (filter.duplicate), unless they state other texts, "
            "speakers, languages or spans; the filter duplicate keeps one copy of each clip"
        )
    return (
        "their audio is packaged twice; take them out of one of the sources, "
        "or add the filter duplicate, which keeps one copy"
    )


def _identity(guard: str, locator: str) -> str:
    """Identifies a recording's bytes, ignoring the name of a local file."""
    if not LOCAL_GUARD.fullmatch(guard):
        return f"{guard}\0{locator}"
    file = identity(guard)
    if locator.endswith('"}') and '"column": ' not in locator:
        return file  # as a whole
    where = Locator.loads(locator)
    bytes_of = where.offset, where.length, where.row, where.column
    part = where.track, where.channels
    return file if {*bytes_of, *part} == {None} else f"{file}\0{bytes_of} {part}"


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
