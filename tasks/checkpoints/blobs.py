"""The resampled audio: int16 little-endian PCM of many utterances in one file per part.

One file per part instead of one per utterance keeps a corpus of millions of clips from being
millions of files. What is read is compared with the hash that the manifest holds: at once, or, of
what package copies, when the copy is read back.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks import storage
from tasks.errors import CorruptManifest

Pcm = NDArray[np.int16]
OPEN = 128  # local blobs at once
AHEAD_BYTES = 16 << 20  # PCM that is fetched from an object store at once


def folder(out: Path, shard: str) -> Path:
    return out / "audio" / shard


def sha256(pcm: Pcm) -> str:
    return hashlib.sha256(np.ascontiguousarray(pcm, dtype="<i2").tobytes()).hexdigest()


def present(out: Path, shard: str, row: Mapping[str, Any], sizes: dict[str, int]) -> bool:
    """Whether the blob of an audio row is there, long enough; `sizes` remembers the stats."""
    name = row["blob"]
    if name not in sizes and storage.is_remote(out):
        sizes.update(storage.sizes(folder(out, shard)))  # one request for all blobs
        sizes.setdefault(name, -1)
    elif name not in sizes:
        path = folder(out, shard) / name
        sizes[name] = path.stat().st_size if path.is_file() else -1
    return bool(sizes[name] >= row["offset"] + 2 * row["num_samples"])


def read(out: Path, shard: str, row: Mapping[str, Any]) -> Pcm:
    """PCM of one utterance, int16 [num_samples]; CorruptManifest when the bytes are not those."""
    planned = {**row, "work_shard": shard, "blob_offset": row["offset"]}
    with reading(out, [planned]) as pcm:
        return pcm(planned)


@contextmanager
def reading(
    out: Path, rows: Sequence[Mapping[str, Any]], proved: bool = True
) -> Iterator[Callable[[Mapping[str, Any]], Pcm]]:
    """Gives the PCM of rows of a plan, int16 [num_samples], meant for calls in the order of `rows`:
    local blobs stay open, and from an object store many spans are fetched at once. CorruptManifest
    when the bytes are not those or, of what need not be `proved`, not as many."""
    with _at_store(out, rows) if storage.is_remote(out) else _at_hand(out) as data:
        yield lambda row: _sound(data(row), out, row, proved)


Data = Callable[[Mapping[str, Any]], bytes | None]  # None: the blob is gone


@contextmanager
def _at_hand(out: Path) -> Iterator[Data]:
    held: dict[str, int] = {}

    def data(row: Mapping[str, Any]) -> bytes | None:
        name = _name(row)
        if name not in held:
            if len(held) == OPEN:
                os.close(held.pop(next(iter(held))))
            try:
                held[name] = os.open(f"{out}/{name}", os.O_RDONLY)
            except FileNotFoundError:
                return None
        return os.pread(held[name], 2 * row["num_samples"], row["blob_offset"])

    try:
        yield data
    finally:
        for file in held.values():
            os.close(file)


@contextmanager
def _at_store(out: Path, rows: Sequence[Mapping[str, Any]]) -> Iterator[Data]:
    places = {_span(row): at for at, row in enumerate(rows)}
    held: dict[Span, bytes | None] = {}

    def data(row: Mapping[str, Any]) -> bytes | None:
        wanted = _span(row)
        if wanted not in held:
            some = [_span(each) for each in rows[places[wanted] :]]
            ends = accumulate(high - low for _, low, high in some)
            ahead = [each for each, end in zip(some, ends, strict=True) if end <= AHEAD_BYTES]
            ahead = ahead or [wanted]
            held.clear()
            held.update(zip(ahead, storage.ranges(out, ahead), strict=True))
        return held[wanted]

    yield data


Span = tuple[str, int, int]  # name below OUT, first byte, end


def _span(row: Mapping[str, Any]) -> Span:
    low = row["blob_offset"]
    return _name(row), low, low + 2 * row["num_samples"]


def _name(row: Mapping[str, Any]) -> str:
    return f"audio/{row['work_shard']}/{row['blob']}"


def _sound(data: bytes | None, out: Path, row: Mapping[str, Any], proved: bool) -> Pcm:
    if data is None:
        raise CorruptManifest(f"audio blob {out}/{_name(row)} is gone", f"{out}/{_name(row)}")
    whole = len(data) == 2 * row["num_samples"]
    if not whole or (proved and hashlib.sha256(data).hexdigest() != row["sha256"]):
        path = f"{out}/{_name(row)}"
        raise CorruptManifest(f"audio blob {path} does not match its manifest", path)
    return np.frombuffer(data, dtype="<i2")
