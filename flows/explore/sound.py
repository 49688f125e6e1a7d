"""Audio of a span as WAV: from the published tar, from OUT's blobs, or decoded from its source."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.explore.corpus import Gone
from tasks import audio, storage
from tasks.audio import decode_int16
from tasks.checkpoints import blobs
from tasks.errors import CorruptManifest, ItemError
from tasks.json_types import JsonObject
from tasks.recording import Locator

Pcm = NDArray[np.int16]
LONGEST = 600.0  # s of a source that one answer holds


def published(version: Path, row: Mapping[str, Any]) -> tuple[Pcm, int] | None:
    """The clip from the version's tar, if it is in one; int16 [n], Hz."""
    if row.get("shard") is None or row.get("offset") is None:
        return None
    path = version / row["shard"]
    if storage.of(path).remote or not path.is_file():
        return None
    with path.open("rb") as file:
        file.seek(int(row["offset"]))
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                for _ in range(3):
                    member = tar.next()
                    if member is None:
                        return None
                    if member.name.endswith((".wav", ".flac")):
                        held = tar.extractfile(member)
                        return decode_int16(held.read()) if held else None
        except (tarfile.TarError, ItemError, OSError):
            return None
    return None


def of_blob(out: Path, shard: str, row: JsonObject) -> tuple[Pcm, int] | None:
    """The PCM that a run made; None if it is gone."""
    try:
        return blobs.read(out, shard, row), int(row["rate"])
    except (CorruptManifest, OSError):
        return None


def of_source(locator: Locator, start: float, end: float, rate: int) -> tuple[Pcm, int]:
    """Seconds of a recording, mono; Gone, with the reason, if it cannot be decoded."""
    end = min(end, start + LONGEST)
    try:
        found = audio.read_span(locator, round(start * rate), round(end * rate))
    except ItemError as error:
        raise Gone(f"its source cannot be decoded: {error.detail or error.code}") from None
    except OSError as error:
        raise Gone(f"its source cannot be read: {error}") from None
    mono = found.mean(axis=1, dtype=np.float32)
    return (mono * 32767).round().clip(-32768, 32767).astype(np.int16), rate


def part(data: bytes, asked: str | None) -> tuple[bytes, int, dict[str, str]]:
    """Bytes, status and headers for a `Range` (RFC 9110, 14): one range, else the whole."""
    size = len(data)
    headers = {"Accept-Ranges": "bytes"}
    unit, _, spec = (asked or "").partition("=")
    first, dash, last = spec.partition("-")
    if unit.strip() != "bytes" or not dash or "," in spec or not (first or last).isdigit():
        return data, 200, headers
    low = int(first) if first else max(size - int(last), 0)
    high = min(int(last), size - 1) if first and last.isdigit() else size - 1
    if low >= size or low > high:
        return b"", 416, {**headers, "Content-Range": f"bytes */{size}"}
    return data[low : high + 1], 206, {**headers, "Content-Range": f"bytes {low}-{high}/{size}"}
