"""Filter hands its PCM to resample, so that a recording is decoded once, not twice.

A bounded, disposable cache of decoded samples on the worker's local disk (in practice: the page
cache), shared by the workers of a host. Losing it costs a second decode and nothing else; what does
not fit is not kept. Measured: a second decode costs about half as much again as the whole rest.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tasks.audio import Clip
from tasks.job import Job
from tasks.recipe import digest

Held = tuple[NDArray[np.float32], int]  # samples [n, channels], rate in Hz


def _path(job: Job, content: str, start: int, end: int) -> Path | None:
    if job.scratch is None:
        return None
    return job.scratch / "handover" / f"{digest(content, start, end)}.npy"


def put(job: Job, content: str, start: int, end: int, clip: Clip) -> None:
    """Keep a clip's samples for `take`, where there is room."""
    path = _path(job, content, start, end)
    if path is None or clip.is_lazy:
        return
    samples = clip.samples()
    path.parent.mkdir(parents=True, exist_ok=True)
    if not _room.take(path.parent, samples.nbytes, job.cache_bytes):
        return
    temp = path.with_suffix(f".{os.getpid()}")
    try:
        with temp.open("wb") as handle:
            np.save(handle, _compact(samples))
            handle.write(np.int64(clip.rate).tobytes())
        os.replace(temp, path)
    except OSError:  # a full disk: the samples are decoded again, nothing is lost
        temp.unlink(missing_ok=True)


def take(job: Job, content: str, start: int, end: int) -> Held | None:
    """Samples and rate that `put` kept, and forget them; None: decode again."""
    path = _path(job, content, start, end)
    if path is None:
        return None
    try:
        with path.open("rb") as handle:
            samples = np.load(handle, allow_pickle=False)
            rate = int(np.frombuffer(handle.read(8), np.int64)[0])
        path.unlink()
    except (OSError, ValueError, IndexError):
        return None
    if samples.dtype == np.int16:
        samples = samples.astype(np.float32) / np.float32(32768.0)
    return samples, rate


def _compact(samples: NDArray[np.float32]) -> NDArray[np.float32] | NDArray[np.int16]:
    """int16 where that is the same to the bit (16-bit sources): half the bytes."""
    if not _is_whole(samples[:4096] * np.float32(32768.0)):
        return samples
    scaled = samples * np.float32(32768.0)
    small = np.clip(scaled, -32768, 32767).astype(np.int16)
    return small if np.array_equal(small.astype(np.float32), scaled) else samples


def _is_whole(scaled: NDArray[np.float32]) -> bool:
    return bool(np.array_equal(scaled, np.rint(scaled)))


class _Room:
    """How full the cache is: looked up once a second, counted on in between."""

    def __init__(self) -> None:
        self.looked = float("-inf")
        self.used = 0

    def take(self, folder: Path, size: int, limit: int) -> bool:
        if time.monotonic() - self.looked > 1.0:
            self.looked, self.used = time.monotonic(), _used(folder)
        if self.used + size > limit:
            return False
        self.used += size
        return True


_room = _Room()


def _used(folder: Path) -> int:
    total = 0
    for path in folder.glob("*.npy"):
        with suppress(FileNotFoundError):  # another worker took it just now
            total += path.stat().st_size
    return total
