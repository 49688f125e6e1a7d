"""FFmpeg's decoded frames as blocks of float32 [n, channels], and the conversion of a recording's
later parts to the rate and channels of the first."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from .channels import mean, weights_of
from .types import Samples, Weights

#: PyAV finds the last plane by what follows the planes, which is undefined from eight on.
MOST_PLANES = 7
MOST_FRAMES = 65_536  # frames of a block to convert
#: Sample formats: numpy's type, zero level, full scale.
_FORMATS = {
    "u8": ("u1", 128.0, 128.0),
    "s16": ("i2", 0.0, 32768.0),
    "s32": ("i4", 0.0, 2147483648.0),
    "s64": ("i8", 0.0, 2.0**63),
    "flt": ("f4", 0.0, 1.0),
    "dbl": ("f8", 0.0, 1.0),
}


class Assembler:
    """Joins short frames into blocks of `frames` samples, since each block costs the same in
    Python.

    Frames with another rate or other channels are converted to `rate` and `channels`.
    """

    def __init__(self, rate: int, channels: int, frames: int) -> None:
        self._rate, self._channels, self._frames = rate, channels, frames
        self._form = (rate, channels)  # of the incoming frames
        self._fifo = av.AudioFifo()
        self._converter: PartConverter | None = None

    @property
    def samples(self) -> int:
        """Samples held back, at the rate of the frames."""
        return int(self._fifo.samples)

    def differs(self, frame: av.AudioFrame) -> bool:
        return (frame.sample_rate, frame.layout.nb_channels) != self._form

    def change(self, frame: av.AudioFrame) -> Iterator[Samples]:
        """Everything held back; from now on, frames are like this one."""
        yield from self.finish()
        self._form = (frame.sample_rate, frame.layout.nb_channels)
        same = self._form == (self._rate, self._channels)
        weights = weights_of(frame.layout)
        self._converter = (
            None if same else PartConverter(*self._form, self._rate, self._channels, weights)
        )

    def push(self, frame: av.AudioFrame) -> Iterable[Samples]:
        """The blocks that a frame completes. The frame loses its timestamp."""
        frame.pts = None  # the fifo would raise an error for a gap
        before: Iterable[Samples] = ()
        try:
            self._fifo.write(frame)
        except ValueError:  # another sample format
            before = [*self.flush()]
            self._fifo.write(frame)
        full = self._fifo.samples >= self._frames
        return chain(before, self._full()) if before or full else ()

    def _full(self) -> Iterator[Samples]:
        while self._fifo.samples >= self._frames:
            yield from self._converted(self._fifo.read(self._frames))

    def flush(self) -> Iterator[Samples]:
        """Everything held back, except what the resampler still needs."""
        fifo, self._fifo = self._fifo, av.AudioFifo()
        if fifo.samples:
            yield from self._converted(fifo.read())

    def finish(self) -> Iterator[Samples]:
        yield from self.flush()
        if self._converter is not None:
            yield from self._converter.rest()

    def _converted(self, frame: av.AudioFrame | None) -> Iterable[Samples]:
        if frame is None:
            return []
        block = grid(frame, self._form[1])
        return [block] if self._converter is None else self._converter.push(block)


def grid(frame: av.AudioFrame, channels: int) -> Samples:
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
    planes = frame.planes[: channels if planar else 1]
    values = [np.frombuffer(memoryview(plane), kind, count) for plane in planes]
    samples = np.empty((frame.samples, channels), np.float32)
    if planar:
        for channel, column in enumerate(values):
            samples[:, channel] = _scaled(column, zero, full)
    else:
        samples[:] = _scaled(values[0].reshape(-1, channels), zero, full)
    return samples


def _scaled(values: NDArray[Any], zero: float, full: float) -> NDArray[Any]:
    """Values in units of full scale, rounded at most once: returned as float32, or in float64 for
    the caller to round."""
    if full == 1.0:
        return values
    if values.dtype.itemsize in (2, 4) and not zero:  # a power of two scales float32 exactly
        return np.multiply(values.astype(np.float32), np.float32(1 / full))
    return (values - zero) / full


class PartConverter:
    """Converts blocks of a part to `rate` and `channels`, as a player does; `rest` gives what the
    resampler still holds.

    If the number of channels differs, each channel becomes the mix of the part's own channels.
    """

    def __init__(
        self,
        part_rate: int,
        part_channels: int,
        rate: int,
        channels: int,
        weights: Weights | None = None,
    ) -> None:
        self._mixed, self._weights = part_channels != channels, weights
        self._channels, self._rate = channels, part_rate
        self._layout = f"{channels} channels"
        # A block grows by the ratio of the rates in the file, which may be as high as 768.
        self._step = max(MOST_FRAMES * part_rate // max(rate, part_rate), 1)
        self._resampler: av.AudioResampler | None = None
        if part_rate != rate:
            self._resampler = av.AudioResampler(format="flt", layout=self._layout, rate=rate)

    def push(self, block: Samples) -> Iterator[Samples]:
        for start in range(0, len(block), self._step):
            part = block[start : start + self._step]
            if self._mixed:
                mixed = mean(part, np.float32, self._weights)
                part = np.repeat(mixed[:, None], self._channels, axis=1)
            if self._resampler is None:
                yield part
                continue
            packed = np.ascontiguousarray(part, np.float32).reshape(1, -1)
            frame = av.AudioFrame.from_ndarray(packed, "flt", self._layout)
            frame.sample_rate = self._rate
            yield from self._resampled(frame)

    def rest(self) -> Iterator[Samples]:
        return self._resampled(None)

    def _resampled(self, frame: av.AudioFrame | None) -> Iterator[Samples]:
        for ready in self._resampler.resample(frame) if self._resampler else ():
            if ready.samples:
                plane, count = memoryview(ready.planes[0]), ready.samples * self._channels
                yield np.frombuffer(plane, np.float32, count).reshape(-1, self._channels).copy()
