"""FFmpeg's decoded frames as float32 [n, channels]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import av
import numpy as np

from tasks.audio.kinds import Samples

#: PyAV looks for the end of a frame's planes by what follows them: from eight on, whatever does.
MOST_PLANES = 7


def rest(held: av.AudioFifo, channels: int) -> Iterator[Samples]:
    if held.samples:
        yield grid(held.read(), channels)


def grid(frame: Any, channels: int) -> Samples:
    """The samples of a decoded frame, float32 [n, channels]; integers are scaled to ±1."""
    name, planar = frame.format.name, frame.format.is_planar
    packed = name.removesuffix("p") if planar else name
    if packed not in _FORMATS:
        raise ValueError(f"samples of format {name}")
    if planar and channels > MOST_PLANES:
        [frame] = av.AudioResampler(format=packed).resample(frame)
        planar = False
    kind, zero, full = _FORMATS[packed]
    count = frame.samples if planar else frame.samples * channels
    values = [np.frombuffer(plane, kind, count)
              for plane in frame.planes[: channels if planar else 1]]  # fmt: skip
    values_of = np.empty((frame.samples, channels), np.float32)
    for channel in range(channels):
        column = values[channel] if planar else values[0][channel::channels]
        # In float64, so that 32-bit integers are rounded once.
        values_of[:, channel] = column if full == 1.0 else (column - zero) / full
    return values_of


#: Sample formats: numpy's type, zero level, full scale.
_FORMATS = {
    "u8": ("u1", 128.0, 128.0), "s16": ("i2", 0.0, 32768.0), "s32": ("i4", 0.0, 2147483648.0),
    "s64": ("i8", 0.0, 2.0**63), "flt": ("f4", 0.0, 1.0), "dbl": ("f8", 0.0, 1.0),
}  # fmt: skip
