"""Audio of a span, from the published tar, from OUT's blobs, or decoded from its source; and where
speech is in a recording."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flows.explore.corpus import Gone
from tasks import audio, storage
from tasks.audio import decode_int16
from tasks.base.arrays import Int16s
from tasks.base.errors import CorruptManifest, ItemError, UnsafePlace
from tasks.base.json_types import JsonObject
from tasks.base.speech_rate import RATE
from tasks.recording import Locator
from tasks.shard_store import blobs
from tasks.speech import silero

LONGEST = 600.0  # s of a source that one answer holds
ENCODED, DECODED = 400_000_000, 200_000_000  # bytes, samples of a clip: an hour at 48 kHz
HEARD = 3600.0  # s of a source that the voice detector hears for one answer
POINTS = 2000  # of its answer: the largest probability of each stretch


def published(version: Path, row: JsonObject) -> tuple[Int16s, int] | None:
    """The clip from the tar of a local version, if it is in one; int16 [n], Hz."""
    if row.get("shard") is None or row.get("offset") is None:
        return None
    try:
        path = storage.inside(version, row["shard"])
    except UnsafePlace:
        return None
    if not storage.exists(path):
        return None
    with path.open("rb") as file:
        file.seek(row["offset"])
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                for _ in range(3):
                    member = tar.next()
                    if member is None:
                        return None
                    if member.name.endswith((".wav", ".flac")):
                        held = tar.extractfile(member)
                        return decode_int16(held.read(ENCODED), DECODED) if held else None
        except (tarfile.TarError, ItemError, OSError):
            return None
    return None


def of_blob(out: Path, shard: str, row: JsonObject) -> tuple[Int16s, int] | None:
    """The PCM that a run made; None if it is gone."""
    try:
        return blobs.read(out, shard, row), int(row["rate"])
    except (CorruptManifest, OSError):
        return None


def of_source(locator: Locator, start: float, end: float, rate: int) -> tuple[Int16s, int]:
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


def speech(locator: Locator | None, going_on: Callable[[], None]) -> JsonObject:
    """Speech over a recording, as the voice detector hears it: `values` of stretches of `step`
    seconds; Gone if it cannot be decoded. `going_on` ends it by an exception."""
    if locator is None:
        raise Gone("its source is unknown")
    found = []
    try:
        with audio.open_stream(locator) as stream:
            detector = silero.Probabilities(stream.rate)
            for block in stream.blocks():
                going_on()
                found.append(detector.push(block))
                if stream.decoded > HEARD * stream.rate:
                    break
            found.append(detector.finish())
    except (ItemError, OSError) as error:
        raise Gone(f"its source cannot be decoded: {error}") from None
    values = np.concatenate(found)
    width = max(-(-len(values) // POINTS), 1)
    stretches = np.maximum.reduceat(values, np.arange(0, len(values), width))
    return {
        "step": width * silero.WINDOW / RATE,
        "values": np.round(stretches.astype(float), 3).tolist(),
    }


def part(size: int, asked: str | None) -> tuple[int, int, int, dict[str, str]]:
    """(first byte, bytes, status, headers) for a `Range` (RFC 9110, 14) of `size` bytes: one range,
    else the whole."""
    headers = {"Accept-Ranges": "bytes"}
    ranged = re.fullmatch(r"\s*bytes\s*=([0-9]{0,18})-([0-9]{0,18})", asked or "")
    first, last = ranged.groups() if ranged else ("", "")
    if not (first or last):
        return 0, size, 200, headers
    low = int(first) if first else max(size - int(last), 0)
    high = min(int(last), size - 1) if first and last else size - 1
    if low >= size or low > high:
        return 0, 0, 416, {**headers, "Content-Range": f"bytes */{size}"}
    return low, high + 1 - low, 206, {**headers, "Content-Range": f"bytes {low}-{high}/{size}"}
