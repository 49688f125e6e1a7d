"""Finds recordings that two sources list: their audio would be packaged twice, under two names.

Files are identified by their guard, so that links and other mounts are found, too. Two lists may
cut different segments from one file, such as train and test: that is not double audio, so
recordings with segments are compared segment by segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.arrays import Int64s, UInt64s
from ...base.counting import counted
from ...recording import Locator
from ...recording.guard import LOCAL_GUARD, identity
from ...settings.job import Job
from ...storage import sorted_keys


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
    """Compares listed recordings, source by source."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._whole, self._cut, self._spans = _Seen(), _Seen(), _Seen()
        self._counts: dict[tuple[int, int], int] = {}
        self._examples: dict[tuple[int, int], str] = {}

    def at(self, rows: pa.Table, source: int) -> None:
        """Add rows of RECORDINGS of the source with this number; sources come one after the
        other."""
        if len(self._names) == 1:
            return
        rows = rows.filter(pc.and_(pc.is_null(rows["error_code"]), pc.not_equal(rows["guard"], "")))
        given = pc.is_valid(rows["segments"])
        whole, cut = rows.filter(pc.invert(given)), rows.filter(given)
        files = _files(whole)
        first = np.maximum(self._whole.source_of(files, source), self._cut.source_of(files, source))
        self._note(whole, first, source)
        self._whole.add(files, source)
        files = _files(cut)
        spans, row = _spans(cut, files)
        first = self._whole.source_of(files, source)
        np.maximum.at(first, row, self._spans.source_of(spans, source))
        self._note(cut, first, source)
        self._cut.add(files, source)
        self._spans.add(spans, source)

    def found(self) -> list[Shared]:
        """The results by pair of sources, in order."""
        return [
            Shared(self._names[first], self._names[second], count, self._examples[first, second])
            for (first, second), count in sorted(self._counts.items())
        ]

    def _note(self, rows: pa.Table, first: Int64s, source: int) -> None:
        for number in np.unique(first[first >= 0]).tolist():
            places = np.flatnonzero(first == number)
            pair = number, source
            self._counts[pair] = self._counts.get(pair, 0) + len(places)
            self._examples.setdefault(pair, rows["source_path"][int(places[0])].as_py())


class _Seen:
    """Hashes with the number of their source: sorted for earlier sources, unsorted for the current
    one."""

    def __init__(self) -> None:
        self._bits, self._sources = np.zeros(0, np.uint64), np.zeros(0, np.int16)
        self._new: list[UInt64s] = []
        self._at = 0

    def add(self, bits: UInt64s, source: int) -> None:
        self._turn(source)
        self._new.append(bits)

    def source_of(self, bits: UInt64s, source: int) -> Int64s:
        """An earlier source that has each hash; -1: none."""
        self._turn(source)
        return sorted_keys.value_of(self._bits, self._sources, bits).astype(np.int64)

    def _turn(self, source: int) -> None:
        """Sort the last source's hashes when the next one begins."""
        if source == self._at:
            return
        new = np.concatenate([np.zeros(0, np.uint64), *self._new])
        bits = np.concatenate([self._bits, new])
        sources = np.concatenate([self._sources, np.full(len(new), self._at, np.int16)])
        order = np.argsort(bits, kind="stable")
        self._bits, self._sources = bits[order], sources[order]
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


def _files(rows: pa.Table) -> UInt64s:
    """A hash of the identity of each recording's bytes, ignoring the name of a local file."""
    columns = (rows[name].to_pylist() for name in ("guard", "locator"))
    return np.fromiter((_hash(_place(*key)) for key in zip(*columns, strict=True)), np.uint64)


def _place(guard: str, locator: str) -> str:
    if not LOCAL_GUARD.fullmatch(guard):
        return f"{guard}\0{locator}"
    file = identity(guard)
    if locator.endswith('"}') and '"column": ' not in locator:
        return file  # as a whole
    where = Locator.loads(locator)
    bytes_of = where.offset, where.length, where.row, where.column
    part = where.track, where.channels
    return file if {*bytes_of, *part} == {None} else f"{file}\0{bytes_of} {part}"


def _spans(rows: pa.Table, files: UInt64s) -> tuple[UInt64s, Int64s]:
    """A hash of each segment of each file, and the segment's row."""
    if not len(rows):
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    segments = rows["segments"].combine_chunks()
    row: Int64s = pc.list_parent_indices(segments).to_numpy(zero_copy_only=False)
    flat = pc.list_flatten(segments)
    times = [flat.field(name).to_pylist() for name in ("start", "end")]
    given = zip(files[row].tolist(), *times, strict=True)
    hashes = np.fromiter((_hash(f"{file} {a} {b}") for file, a, b in given), np.uint64)
    return hashes, row.astype(np.int64)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
