"""The handover cache: filter leaves its PCM for resample, so that a recording is decoded once.

While filter has a kept utterance in memory, it converts the samples as resample would (one channel
at the target rate in int16: a tenth of the decoded size) and keeps them under the recipe of that
PCM, so that a changed setting never finds a stale entry: in memory if resample follows in the same
call (`in_memory`), otherwise, or if there are too many, on the worker's local disk (in practice the
page cache), within a limit for all workers of a machine. Resample takes the entry, checks its hash
and stores it. A lost entry costs a second decode and nothing else. Clips that do not fit or cannot
be converted are left to resample.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import numpy as np
import psutil

from ..audio import Clip
from ..base.arrays import Int16s
from ..settings.job import Job
from ..shard_store import blobs, recipe
from . import pcm
from .cutting import TooEarly

PENDING = "-pending"  # suffix of entries of a recording that is still being decoded


class DiskBudget:
    """The cache's size: measured once a second, estimated in between."""

    def __init__(self) -> None:
        self.looked = float("-inf")
        self.used = 0
        self.folder: Path | None = None

    def take(self, folder: Path, size: int, limit: int) -> bool:
        """Whether a folder has room for so many bytes; creates the folder."""
        if folder != self.folder or time.monotonic() - self.looked > 1.0:
            folder.mkdir(parents=True, exist_ok=True)
            self.folder, self.looked, self.used = folder, time.monotonic(), _used(folder)
        if self.used + size > limit:
            return False
        self.used += size
        return True


def _used(folder: Path) -> int:
    """Bytes of all entries, including pending ones; removes those of dead workers."""
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another worker took it just now
            owner = path.name.removesuffix(PENDING).rpartition(".")[2]
            if path.name.endswith(PENDING) and not psutil.pid_exists(int(owner)):
                path.unlink()
                continue
            total += path.stat().st_size
    return total


READER = "pcm"  # name of the reader that writes the PCM of a long clip
HELD_BACK = 1024  # samples; a resampler may return a few too many
DIGEST_BYTES = 32  # sha256 of the PCM, stored before it
MOST_IN_MEMORY = 64 << 20  # bytes: half an hour at 16 kHz


@dataclass(slots=True)
class _Memory:
    """PCM by recipe that the same call uses; `room` in bytes."""

    room: int
    held: dict[str, blobs.Pcm] = field(default_factory=dict)


_memory: ContextVar[_Memory | None] = ContextVar("handover", default=None)
_room = DiskBudget()


@contextmanager
def in_memory(job: Job) -> Iterator[None]:
    """Inside, this thread's entries stay in memory, up to MOST_IN_MEMORY at once, and within the
    cache's limit. Entries not taken by the end are lost."""
    token = _memory.set(_Memory(min(MOST_IN_MEMORY, job.cache_bytes)))
    try:
        yield
    finally:
        _memory.reset(token)


@dataclass(slots=True)
class Writer:
    """Writes the entries of one recording; `stored` has the recipes of PCM that exists already."""

    job: Job
    content: str
    stored: Container[str] = frozenset()
    _held: dict[str, blobs.Pcm] = field(default_factory=dict)  # unpublished PCM, by recipe
    _made: dict[Path, Path] = field(default_factory=dict)  # temporary name by final name
    _long: list[Path] = field(default_factory=list)  # temporary names of long clips

    def add(
        self, start: int, end: int, clip: Clip, read: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Write the PCM of a clip in memory, if there is room; for a long one, use the result of
        `reading`."""
        audio = recipe.of_audio(self.job.resample, self.content, start, end)
        # Already there: a span given twice.
        if self.job.scratch is None or audio in self.stored or audio in self._held:
            return
        if (long := read.get(READER)) is not None:
            self._long.remove(long)
            self._made[_path(self.job.scratch, audio)] = long
        if clip.is_lazy:
            return
        length = pcm.resampled_length(clip.num_samples, clip.rate, self.job.resample.rate)
        memory = _memory.get()
        near = memory is not None and 2 * length <= memory.room
        path = None if near else _path(self.job.scratch, audio)
        if path is not None and not _room.take(
            path.parent, DIGEST_BYTES + 2 * length, self.job.cache_bytes
        ):
            return
        try:
            samples = pcm.of_clip(clip, self.job.resample)
        except Exception:  # resample will meet the same error, and report it
            return
        if path is None:
            assert memory is not None
            self._held[audio] = samples.astype("<i2", copy=False)
            memory.room -= samples.nbytes
            return
        temp = path.with_suffix(f".{os.getpid()}{PENDING}")
        try:
            with temp.open("wb") as handle:
                data = samples.astype("<i2", copy=False).data
                handle.write(hashlib.sha256(data).digest())
                handle.write(data)
            self._made[path] = temp
        except OSError:  # a full disk: the samples are decoded again
            temp.unlink(missing_ok=True)

    def reading(self) -> dict[str, Callable[[Clip], Path | None]]:
        """The reader, for `Readers`, that writes the PCM of a long clip while it arrives."""
        return {} if self.job.scratch is None else {READER: self._read}

    def _read(self, clip: Clip) -> Path | None:
        """Write the PCM of an arriving clip; None if it does not fit, or cannot be converted block
        by block."""
        assert self.job.scratch is not None
        folder = self.job.scratch / "handover"
        folder.mkdir(parents=True, exist_ok=True)
        temp = folder / f"long-{uuid4().hex}.{os.getpid()}{PENDING}"
        self._long.append(temp)
        try:
            if self._write_long(clip, temp):
                return temp
        except TooEarly:
            raise
        except Exception:  # resample will meet the same error, and report it
            pass
        self._long.remove(temp)
        temp.unlink(missing_ok=True)
        return None

    def _write_long(self, clip: Clip, temp: Path) -> bool:
        blocks = pcm.streamed(clip, self.job.resample)
        if blocks is None:
            return False
        sha = hashlib.sha256()
        written, last = 0, np.zeros(0, "<i2")
        with temp.open("wb") as handle:
            handle.seek(DIGEST_BYTES)

            def write(samples: Int16s) -> None:
                nonlocal written
                data = samples.astype("<i2", copy=False).tobytes()
                sha.update(data)
                handle.write(data)
                written += len(samples)

            for block in blocks:
                if not _room.take(temp.parent, 2 * len(block), self.job.cache_bytes):
                    return False
                # Hold back samples that may exceed the final length.
                if len(block) < HELD_BACK:
                    last = np.concatenate([last, block])
                else:
                    write(last)
                    last = block
            due = pcm.resampled_length(clip.num_samples, clip.rate, self.job.resample.rate)
            pcm.check_length(written + len(last), due, clip.rate, self.job.resample)
            kept = due - written
            write(np.pad(last[:kept], (0, max(kept - len(last), 0))))
            handle.seek(0)
            handle.write(sha.digest())
        return True

    def drop(self, start: int, end: int) -> None:
        """Remove a clip that turned out to be rejected."""
        audio = recipe.of_audio(self.job.resample, self.content, start, end)
        if audio in self._held:
            _give_back(self._held.pop(audio))
            return
        if self.job.scratch is None:
            return
        if (temp := self._made.pop(_path(self.job.scratch, audio), None)) is not None:
            temp.unlink(missing_ok=True)

    def publish(self) -> None:
        """Make the entries visible, once the recording has not changed while it was read."""
        if (memory := _memory.get()) is not None:
            for audio, samples in self._held.items():
                if memory.held.setdefault(audio, samples) is not samples:
                    _give_back(samples)  # an equal recording has it
            self._held.clear()
        for path, temp in self._made.items():
            with suppress(OSError):
                os.replace(temp, path)
        self._made.clear()
        self.discard()  # entries of a long clip that is not kept

    def discard(self) -> None:
        """Remove the entries, because the recording changed while it was read, or cannot be
        used."""
        for temp in (*self._made.values(), *self._long):
            temp.unlink(missing_ok=True)
        for samples in self._held.values():
            _give_back(samples)
        self._made.clear()
        self._long.clear()
        self._held.clear()


def holds(job: Job, audio: str) -> bool:
    """Whether there is an entry under this recipe; it may still prove damaged."""
    memory = _memory.get()
    if memory is not None and audio in memory.held:
        return True
    return job.scratch is not None and _path(job.scratch, audio).exists()


def take(job: Job, audio: str) -> tuple[blobs.Pcm, str] | None:
    """Remove an entry and return its PCM with the sha256 in hex; None: decode again."""
    memory = _memory.get()
    if memory is not None and (samples := memory.held.pop(audio, None)) is not None:
        _give_back(samples)
        return samples, blobs.sha256(samples)
    if job.scratch is None:
        return None
    path = _path(job.scratch, audio)
    try:
        data = path.read_bytes()
        path.unlink()
    except OSError:
        return None
    pcm_bytes = memoryview(data)[DIGEST_BYTES:]
    sha = hashlib.sha256(pcm_bytes)
    if sha.digest() != data[:DIGEST_BYTES]:
        return None
    return np.frombuffer(pcm_bytes, dtype="<i2"), sha.hexdigest()


def _give_back(samples: blobs.Pcm) -> None:
    if (memory := _memory.get()) is not None:
        memory.room += samples.nbytes


def _path(scratch: Path, audio: str) -> Path:
    return scratch / "handover" / f"{audio}.pcm"
