"""The resampled audio: int16 little-endian PCM of many utterances in one file per part.

One file per part instead of one per utterance keeps a corpus of millions of clips from being
millions of files. Every read checks the hash that the manifest holds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.errors import CorruptManifest

Pcm = NDArray[np.int16]


def folder(out: Path, shard: str) -> Path:
    return out / "audio" / shard


def sha256(pcm: Pcm) -> str:
    return hashlib.sha256(np.ascontiguousarray(pcm, dtype="<i2").tobytes()).hexdigest()


def present(out: Path, shard: str, row: Mapping[str, Any], sizes: dict[str, int]) -> bool:
    """Whether the blob of an audio row is there, long enough; `sizes` remembers the stats."""
    name = row["blob"]
    if name not in sizes:
        path = folder(out, shard) / name
        sizes[name] = path.stat().st_size if path.is_file() else -1
    return bool(sizes[name] >= row["offset"] + 2 * row["num_samples"])


def read(out: Path, shard: str, row: Mapping[str, Any]) -> Pcm:
    """PCM of one utterance, int16 [num_samples]; CorruptManifest when the bytes are not those."""
    path = f"{out}/audio/{shard}/{row['blob']}"  # a Path would take as long as the hash
    try:
        with open(path, "rb", buffering=0) as blob:
            blob.seek(row["offset"])
            data = blob.read(2 * row["num_samples"])
    except FileNotFoundError:
        raise CorruptManifest(f"audio blob {path} is gone", path) from None
    if hashlib.sha256(data).hexdigest() != row["sha256"]:
        raise CorruptManifest(f"audio blob {path} does not match its manifest", path)
    return np.frombuffer(data, dtype="<i2")
