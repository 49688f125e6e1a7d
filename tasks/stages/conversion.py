"""The PCM of a recording's clips, made while the recording is decoded to be cut.

It waits until the recording has ended: only then is it known whether the file has changed
meanwhile, and whether a measure of the whole recording drops a clip. The first IN_MEMORY bytes wait
in memory (a file for each short recording takes a tenth of its time), the others in a temporary
file.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Container
from contextlib import ExitStack
from io import FileIO
from typing import Self

import numpy as np

from ..audio import Clip
from ..base.errors import UNREACHABLE, ItemError, shortened
from ..settings.job import Job
from ..shard_store import recipe
from ..shard_store.blobs import MadeAudio, Pcm, sha256
from . import pcm

IN_MEMORY = 1 << 23  # bytes: four minutes at 16 kHz
Converted = tuple[int, int, str]  # start, end (samples at native rate), recipe of the PCM


def pcm_row(span: Converted, recording: str, samples: Pcm, rate: int) -> MadeAudio:
    start, end, audio = span
    row: MadeAudio = {"audio": audio, "recording": recording, "start": start, "end": end}
    return {
        **row,
        "rate": rate,
        "num_samples": len(samples),
        "sha256": sha256(samples),
        "pcm": samples,
    }


def failed_row(span: Converted, recording: str, code: str, detail: str) -> MadeAudio:
    start, end, audio = span
    row: MadeAudio = {"audio": audio, "recording": recording, "start": start, "end": end}
    return {**row, "error_code": code, "error_detail": shortened(detail)}


def code_of(error: ItemError | MemoryError) -> tuple[str, str]:
    """Code and detail of an error that concerns one clip."""
    if isinstance(error, ItemError):
        return error.code, error.detail
    return "out_of_memory", str(error)


class Conversion:
    """Converts clips of one recording; a context manager.

    `content`: its samples, as recipes of PCM name them; `stored`: recipes of PCM that exists
    already. Clips beyond `job.cache_bytes` of PCM are left out."""

    def __init__(self, job: Job, recording: str, content: str, stored: Container[str]) -> None:
        self._job, self._recording, self._content, self._stored = job, recording, content, stored
        self._recipe = recipe.audio_recipes(job.resample)
        self._rows: dict[str, MadeAudio] = {}  # by recipe
        self._bytes = 0
        self._open = ExitStack()
        self._file: FileIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def add(self, start: int, end: int, clip: Clip) -> None:
        """Convert a clip that passes the filters. ItemError `unreachable` if it has to be decoded
        again, and cannot be read now."""
        settings, audio = self._job.resample, self._recipe(self._content, start, end)
        if audio in self._stored or audio in self._rows:  # such as a span that is given twice
            return
        length = pcm.resampled_length(clip.num_samples, clip.rate, settings.rate)
        if self._bytes + 2 * length > self._job.cache_bytes:
            return
        span = start, end, audio
        try:
            samples = pcm.of_clip(clip, settings)
        except (ItemError, MemoryError) as error:
            code, detail = code_of(error)
            if code == UNREACHABLE:
                raise
            self._rows[audio] = failed_row(span, self._recording, code, detail)
            return
        row = pcm_row(span, self._recording, samples, settings.rate)
        if self._bytes + 2 * length > IN_MEMORY:
            try:
                row["offset"] = self._write(row.pop("pcm"))
            except OSError:  # a full disk: the resample stage decodes again
                self._rows.clear()
                self._bytes = self._job.cache_bytes
                return
        self._rows[audio] = row
        self._bytes += 2 * length

    def _write(self, samples: Pcm) -> int:
        """Append samples to the file; returns their offset, bytes."""
        if self._file is None:
            scratch = self._job.scratch
            if scratch is not None:
                scratch.mkdir(parents=True, exist_ok=True)
            file = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115
            self._file = self._open.enter_context(file)
        data, offset = np.ascontiguousarray(samples, "<i2").data, self._file.tell()
        if self._file.write(data) < data.nbytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return offset

    def drop(self, start: int, end: int) -> None:
        """Leave out a clip that a measure of the whole recording rejects."""
        self._rows.pop(self._recipe(self._content, start, end), None)

    def rows(self) -> list[MadeAudio]:
        """The rows of all clips, with their samples, which outlive the context."""
        if self._file is not None and self._rows:
            data = np.memmap(self._file, "<i2", "r")
            for row in self._rows.values():
                if "offset" in row:
                    first = row["offset"] // 2
                    row["pcm"] = data[first : first + row["num_samples"]]
        return [*self._rows.values()]
