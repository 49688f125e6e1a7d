"""16-bit mono PCM as the bytes of a WAV file; needs no decoder."""

from __future__ import annotations

import struct

import numpy as np

from ..base.arrays import Int16s


def wav_header(num_samples: int, rate: int, channels: int = 1) -> bytes:
    """The canonical 44 bytes before int16 samples of each channel."""
    width = 2 * channels
    size = width * num_samples
    form = (16, 1, channels, rate, width * rate, width, 16)
    return _WAV.pack(b"RIFF", 36 + size, b"WAVE", b"fmt ", *form, b"data", size)


_WAV = struct.Struct("<4sI4s4sIHHIIHH4sI")


def write_wav_bytes(pcm: Int16s, rate: int) -> bytes:
    """Mono int16 as WAV with the canonical header of 44 bytes; equal samples give equal bytes."""
    return wav_header(len(pcm), rate) + np.ascontiguousarray(pcm, dtype="<i2").tobytes()
