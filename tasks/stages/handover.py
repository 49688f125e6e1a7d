"""Filter hands resample its PCM, so that a recording is decoded once, not twice.

While filter has a kept utterance in memory, the samples are converted as resample would do it (one
channel at the target rate in int16: a tenth of what was decoded) and put on the worker's local disk
(in practice: the page cache) under the recipe of that PCM, so that a changed setting never finds a
stale one. Resample takes it, checks its hash, and stores it. Losing an entry costs a second decode
and nothing else; what does not fit, or cannot be converted, is not kept: resample meets it itself.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Container
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from tasks import recipe
from tasks.audio import Clip
from tasks.checkpoints import blobs
from tasks.job import Job
from tasks.stages import pcm

PENDING = "-pending"  # end of names of what is of a recording that is still being read
DIGEST_BYTES = 32  # sha256 of the PCM, before it in the file


@dataclass(slots=True)
class Offers:
    """What filter hands over of one recording; `stored` holds the recipes of PCM that is there."""

    job: Job
    content: str
    stored: Container[str] = frozenset()
    _made: dict[Path, Path] = field(default_factory=dict)  # temporary name by final name

    def add(self, start: int, end: int, clip: Clip) -> None:
        """Keep the PCM of a clip that is in memory for `take`, where there is room."""
        audio = recipe.of_audio(self.job.resample, self.content, start, end)
        path = _path(self.job, audio)
        if path is None or clip.is_lazy or audio in self.stored:
            return
        length = pcm.resampled_length(clip.num_samples, clip.rate, self.job.resample.rate)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not _room.take(path.parent, DIGEST_BYTES + 2 * length, self.job.cache_bytes):
            return
        try:
            samples = pcm.of_clip(clip, self.job.resample)
        except Exception:  # whatever it is, it is resample's: raised again there, and said there
            return
        temp = path.with_suffix(f".{os.getpid()}{PENDING}")
        try:
            with temp.open("wb") as handle:
                data = samples.astype("<i2", copy=False).tobytes()
                handle.write(hashlib.sha256(data).digest())
                handle.write(data)
            self._made[path] = temp
        except OSError:  # a full disk: the samples are decoded again, nothing is lost
            temp.unlink(missing_ok=True)

    def drop(self, start: int, end: int) -> None:
        """Forget a clip that turned out not to be kept."""
        path = _path(self.job, recipe.of_audio(self.job.resample, self.content, start, end))
        if path is not None and (temp := self._made.pop(path, None)) is not None:
            temp.unlink(missing_ok=True)

    def publish(self) -> None:
        """The recording did not change while it was read: they are of its content."""
        for path, temp in self._made.items():
            with suppress(OSError):
                os.replace(temp, path)
        self._made.clear()

    def withdraw(self) -> None:
        """It did change, or it cannot be used: forget them."""
        for temp in self._made.values():
            temp.unlink(missing_ok=True)
        self._made.clear()


def holds(job: Job, audio: str) -> bool:
    """Whether there is something for `take` under this recipe; it may yet prove damaged."""
    path = _path(job, audio)
    return path is not None and path.exists()


def take(job: Job, audio: str) -> tuple[blobs.Pcm, str] | None:
    """PCM of a recipe with its sha256 in hex, and forget it; None: decode again."""
    path = _path(job, audio)
    if path is None:
        return None
    try:
        data = path.read_bytes()
        path.unlink()
    except OSError:
        return None
    held = memoryview(data)[DIGEST_BYTES:]
    sha = hashlib.sha256(held)
    if sha.digest() != data[:DIGEST_BYTES]:
        return None
    return np.frombuffer(held, dtype="<i2"), sha.hexdigest()


def _path(job: Job, audio: str) -> Path | None:
    return None if job.scratch is None else job.scratch / "handover" / f"{audio}.pcm"


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
    """Bytes of all entries, those that are still pending too; a dead worker's are removed."""
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another worker took it just now
            owner = path.name.removesuffix(PENDING).rpartition(".")[2]
            if path.name.endswith(PENDING) and not psutil.pid_exists(int(owner)):
                path.unlink()
                continue
            total += path.stat().st_size
    return total
