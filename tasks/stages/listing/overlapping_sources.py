"""Finds recordings that two sources list: their audio would be packaged twice, under two names.

Files are identified by their guard, so that links and other mounts are found, too. Two lists may
cut different segments from one file, such as train and test: that is not double audio, so
recordings with segments are compared segment by segment.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.arrays import UInt64s
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
        if len(self._names) == 1:
            return
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
