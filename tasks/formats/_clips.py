"""A clip's audio as the bytes of a file, and the comparison of such bytes with the clip's row."""

from __future__ import annotations

import hashlib
import math
from typing import Literal

import numpy as np

from tasks import audio
from tasks.base.errors import ItemError
from tasks.base.schema import ClipRow
from tasks.settings import StageSettings, Threshold
from tasks.shard_store.blobs import Pcm

Suffix = Literal["wav", "flac"]

#: The columns that `faults` needs.
COLUMNS = ("sample_rate", "num_samples", "sha256")


class AudioSettings(StageSettings):
    """Settings of a format whose audio is WAV or FLAC."""

    audio: Suffix = Threshold("wav", "wav, or flac: smaller, equal samples.")


def parts(pcm: Pcm, rate: int, suffix: Suffix) -> tuple[bytes | memoryview, ...]:
    """The bytes of a 16-bit mono file, as consecutive buffers: WAV with its header of 44 bytes,
    whose samples are not copied, or FLAC, which decodes to the same samples."""
    if suffix == "flac":
        return (audio.write_flac_bytes(pcm, rate),)
    return audio.wav_header(len(pcm), rate), samples(pcm)


def samples(pcm: Pcm) -> memoryview:
    """The bytes of the samples, int16 little-endian; not copied."""
    return np.ascontiguousarray(pcm, dtype="<i2").data.cast("B")


def faults(row: ClipRow, name: str, data: bytes | memoryview, suffix: Suffix) -> list[str]:
    """Why the bytes of the file `name` are not the row's clip; empty when they are.

    A WAV file is compared byte for byte, FLAC by its samples.
    """
    pcm: memoryview  # of int16 samples
    if suffix == "wav":
        header = audio.wav_header(row["num_samples"], row["sample_rate"])
        view = memoryview(data)
        if view[: len(header)] != header:
            return [f"{name} has a header that differs from its row"]
        pcm = view[len(header) :]
    else:
        try:
            decoded, rate = audio.decode_int16(bytes(data))
        except ItemError as error:
            return [f"{name} does not decode: {error}"]
        pcm = decoded.data
        if rate != row["sample_rate"] or len(pcm) != row["num_samples"]:
            return [f"{name} has {len(pcm)} samples at {rate} Hz, not what its row says"]
    if hashlib.sha256(pcm).hexdigest() != row["sha256"]:
        return [f"{name} decodes to other samples than its row names"]
    return []


def duration(num_samples: int, rate: int) -> float:
    """Seconds that lead back to the samples both by rounding and by truncating, as readers that
    compute `int(duration * rate)` do."""
    seconds = num_samples / rate
    return seconds if int(seconds * rate) >= num_samples else math.nextafter(seconds, math.inf)
