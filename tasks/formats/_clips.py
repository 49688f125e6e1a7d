"""A clip's audio as the bytes of a file, and whether such bytes hold the clip."""

from __future__ import annotations

import hashlib
from typing import Any, Literal

import numpy as np

from tasks import audio
from tasks.checkpoints.blobs import Pcm
from tasks.checkpoints.manifest import Row
from tasks.errors import ItemError

Suffix = Literal["wav", "flac"]

#: What `faults` needs to know of a row.
COLUMNS = ("sample_rate", "num_samples", "sha256")


def encode(pcm: Pcm, rate: int, suffix: Suffix) -> bytes:
    """16-bit mono: WAV with its header of 44 bytes, or FLAC, which gives the same samples back."""
    return b"".join(parts(pcm, rate, suffix))


def parts(pcm: Pcm, rate: int, suffix: Suffix) -> tuple[bytes | memoryview, ...]:
    """The same as buffers that lie one after the other: the samples are not copied."""
    if suffix == "flac":
        return (audio.write_flac_bytes(pcm, rate),)
    samples: Any = np.ascontiguousarray(pcm, dtype="<i2")
    return audio.wav_header(len(pcm), rate), memoryview(samples).cast("B")


def faults(row: Row, name: str, data: bytes | memoryview, suffix: Suffix) -> list[str]:
    """Why the bytes of the file `name` are not the row's clip; empty when they are. A WAV file is
    compared to the last byte, FLAC by its samples."""
    if suffix == "wav":
        header = audio.wav_header(row["num_samples"], row["sample_rate"])
        view = memoryview(data)
        if view[: len(header)] != header:
            return [f"{name} has another header than its row asks for"]
        pcm: Any = view[len(header) :]
    else:
        try:
            pcm, rate = audio.decode_int16(bytes(data))
        except ItemError as error:
            return [f"{name} does not decode: {error}"]
        if rate != row["sample_rate"] or len(pcm) != row["num_samples"]:
            return [f"{name} has {len(pcm)} samples at {rate} Hz, not as its row says"]
    if hashlib.sha256(pcm).hexdigest() != row["sha256"]:
        return [f"{name} decodes to other samples than its row names"]
    return []
