"""The resampled audio: int16 little-endian PCM of many utterances in one file per part.

One file per part instead of one per utterance keeps a corpus of millions of clips from being
millions of files. What is read is compared with the hash that the manifest holds: at once, or, of
what package copies, when the copy is read back.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks import storage
from tasks.errors import CorruptManifest

Pcm = NDArray[np.int16]
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


def read(out: Path, shard: str, row: Mapping[str, Any], proved: bool = True) -> Pcm:
    """PCM of one utterance, int16 [num_samples]; CorruptManifest when the bytes are not those, or,
    of what need not be `proved`, not as many."""
    path = f"{out}/audio/{shard}/{row['blob']}"  # a Path would take as long as the hash
    if storage.is_remote(out):
        [data] = storage.ranges(out, [_range(shard, row)])
        return _sound(data, row, path, proved)
    try:
        blob = os.open(path, os.O_RDONLY)  # half of what an `open` takes
        try:
            data = os.pread(blob, 2 * row["num_samples"], row["offset"])
        finally:
            os.close(blob)
    except FileNotFoundError:
        raise CorruptManifest(f"audio blob {path} is gone", path) from None
    return _sound(data, row, path, proved)


def reader(
    out: Path, rows: Sequence[Mapping[str, Any]], proved: bool = True
) -> Callable[[Mapping[str, Any]], Pcm]:
    """`read` of rows that name their `work_shard`, meant for calls in the order of `rows`: from an
    object store many are fetched at once. Not `proved`: whoever asks compares the hashes later."""
    if not storage.is_remote(out):
        return lambda row: read(out, row["work_shard"], row, proved)
    places = {_range(row["work_shard"], row): at for at, row in enumerate(rows)}
    held: dict[Any, bytes | None] = {}

    def pcm(row: Mapping[str, Any]) -> Pcm:
        wanted = _range(row["work_shard"], row)
        if wanted not in held:
            some = [_range(r["work_shard"], r) for r in rows[places[wanted] :]]
            ends = accumulate(high - low for _, low, high in some)
            ahead = [each for each, end in zip(some, ends, strict=True) if end <= AHEAD_BYTES]
            ahead = ahead or [wanted]
            held.clear()
            held.update(zip(ahead, storage.ranges(out, ahead), strict=True))
        return _sound(held[wanted], row, f"{out}/{wanted[0]}", proved)

    return pcm


def _range(shard: str, row: Mapping[str, Any]) -> tuple[str, int, int]:
    """(name below OUT, first byte, end) of an utterance's PCM."""
    low = row["offset"]
    return f"audio/{shard}/{row['blob']}", low, low + 2 * row["num_samples"]


def _sound(data: bytes | None, row: Mapping[str, Any], path: str, proved: bool) -> Pcm:
    if data is None:
        raise CorruptManifest(f"audio blob {path} is gone", path)
    whole = len(data) == 2 * row["num_samples"]
    if not whole or (proved and hashlib.sha256(data).hexdigest() != row["sha256"]):
        raise CorruptManifest(f"audio blob {path} does not match its manifest", path)
    return np.frombuffer(data, dtype="<i2")
