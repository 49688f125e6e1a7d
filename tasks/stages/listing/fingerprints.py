"""Hashes that show whether a listed recording is known, unchanged, and described as before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import cast

import numpy as np
import pyarrow as pa

from ...base.arrays import Bools, FixedBytes, UInt64s
from ...base.schema import AnyRow, SegmentRow
from ...shard_store import recipe
from ...storage import sorted_keys

#: Columns that a source fills in for every recording.
DESCRIBED = (
    *("recording", "dataset", "path", "source_path", "locator", "present", "source_id"),
    *("text", "speaker", "language", "length", "rttm_error", "error_code", "error_detail"),
    *("segments", "rttm", "labels", "film_time", "captions"),
)
NESTED = (
    "segments",
    "rttm",
    "labels",
    "length",
    "film_time",
)  # columns that are no texts, and mostly null
KEY = "S16"  # 128 bits of a recording's name: no collisions in ten million


def key(name: str) -> bytes:
    """A hash of 16 bytes of a recording's name, or of a similar text."""
    return blake2b(name.encode(), digest_size=16).digest()


def keys(names: Iterable[str]) -> FixedBytes:
    return np.frombuffer(b"".join(map(key, names)), KEY)


def states(guards: Iterable[str], locators: Iterable[str]) -> UInt64s:
    """64 bits that identify each recording's location and guard."""
    joined = b"".join(
        blake2b(f"{guard}\0{locator}".encode(), digest_size=8).digest()
        for guard, locator in zip(guards, locators, strict=True)
    )
    return np.frombuffer(joined, np.uint64)


def heads(digests: Iterable[str | None]) -> UInt64s:
    """The first 64 bits of each hexadecimal digest; 0 if there is none."""
    return np.fromiter((int((digest or "0")[:16], 16) for digest in digests), np.uint64)


def listed(row: AnyRow) -> str:
    """A hash of the source's description of a recording: a row of RECORDINGS without its guard, its
    size, and the columns that probing fills in."""
    described = {name: row.get(name) for name in DESCRIBED}
    if segments := cast("list[SegmentRow] | None", row["segments"]):
        described["segments"] = [
            {**segment, "labels": segment.get("labels") or None} for segment in segments
        ]
    return recipe.digest(described)


def listed_columns(columns: Mapping[str, Sequence[object]]) -> list[str]:
    """`listed` of each row."""
    count = len(next(iter(columns.values())))
    if all(columns[name].count(None) == count for name in NESTED if name in columns):
        texts = {name: columns.get(name, [None] * count) for name in DESCRIBED}  # most sources
        return recipe.digests_of_texts(cast("dict[str, Sequence[str | bool | None]]", texts))
    return [
        listed(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
    ]


class Seen:
    """Keys seen so far, in sorted runs that are merged once they have similar sizes."""

    def __init__(self) -> None:
        self._runs: list[FixedBytes] = []

    def again(self, listed_keys: FixedBytes) -> Bools:
        """Which keys were seen before or occur earlier in `listed_keys`; marks all as seen."""
        _, first = np.unique(listed_keys, return_index=True)
        repeated = np.ones(len(listed_keys), bool)
        repeated[first] = False
        for run in self._runs:
            repeated |= sorted_keys.index_in(run, listed_keys) >= 0
        self._runs.append(np.sort(listed_keys[~repeated]))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]))
        return repeated


def texts(table: pa.Table, column: str) -> list[str]:
    return table[column].to_pylist()  # type: ignore[no-any-return]
