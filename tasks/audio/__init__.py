"""Decoding and encoding; only this package decodes recordings.

`open_stream` decodes a recording block by block; a `Clip` is one utterance of a recording;
`encoding` makes the files of a dataset.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..base.arrays import Int16s
from ..recording import Locator
from ..recording.container import digest
from ..recording.turns import Turn
from .types import BLOCK_FRAMES, BLOCK_VALUES, Header, Samples, Weights

if TYPE_CHECKING:
    from .encoding import (
        DELAYS,
        MP3_LEAST,
        MP3_RATES,
        OPUS_PACKET,
        OPUS_RATES,
        decode_int16,
        encodes,
        stated_delay,
        write_flac_bytes,
        write_mp3_bytes,
        write_opus_bytes,
        write_small_mp3_bytes,
    )
    from .stream import Stream, open_stream, picked, probe, read_mix, read_span

_DECODING = {"Stream", "open_stream", "picked", "probe", "read_mix", "read_span"}
_ENCODING = {
    *("DELAYS", "MP3_LEAST", "MP3_RATES", "OPUS_PACKET", "OPUS_RATES"),
    *("decode_int16", "encodes", "stated_delay"),
    *("write_flac_bytes", "write_mp3_bytes", "write_opus_bytes", "write_small_mp3_bytes"),
}
MATERIALISE_SECONDS = 600.0
_WAV = struct.Struct("<4sI4s4sIHHIIHH4sI")


def wav_header(num_samples: int, rate: int, channels: int = 1) -> bytes:
    """The canonical 44 bytes before int16 samples of each channel."""
    width = 2 * channels
    size = width * num_samples
    form = (16, 1, channels, rate, width * rate, width, 16)
    return _WAV.pack(b"RIFF", 36 + size, b"WAVE", b"fmt ", *form, b"data", size)


def write_wav_bytes(pcm: Int16s, rate: int) -> bytes:
    """Mono int16 as WAV with the canonical header of 44 bytes; equal samples give equal bytes."""
    return wav_header(len(pcm), rate) + np.ascontiguousarray(pcm, dtype="<i2").tobytes()


def __getattr__(name: str) -> Any:
    """PyAV and libsndfile take 0.1 s to import, so what needs them is imported on first use: the
    main process of a run on workers lists, plans and publishes without them."""
    if name in _DECODING | _ENCODING:
        from . import encoding, stream

        return getattr(stream if name in _DECODING else encoding, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@dataclass(frozen=True)
class Clip:
    """One utterance: native rate, all channels, float32 in ±1.

    A short clip is held in memory, a longer one in a temporary file; one that is too long for that
    is decoded each time it is read. Measures that use `blocks()` need one block of memory,
    whatever the length.
    """

    rate: int
    channels: int
    num_samples: int
    header_seconds: float | None = None  # length of the recording by its header
    recording_bytes: int = 0  # encoded size of the whole recording
    pieces: tuple[Samples, ...] | None = None  # consecutive blocks, as decoded
    #: Recording, first sample and end of a clip that is decoded each time it is read.
    source: tuple[Locator, int, int] | None = None
    recording_samples: int | None = None  # length of the recording; None: the clip is all of it
    faults: int | None = None  # in or before the clip, of its recording; None: unknown
    match: float | None = None  # of its text with the recogniser's; None: not cut by a text
    turns: tuple[Turn, ...] | None = None  # who speaks in it; None: no diarization
    weights: Weights | None = None  # of the channels in their mix; None: the plain mean
    beside: Samples | None = None  # levels of it and of other channels, dBFS [frames, 2]; None: mix
    #: Signals that several filters share, by name; the first filter that needs one computes it.
    derived: dict[str, object] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def from_samples(
        cls,
        samples: ArrayLike,
        rate: int,
        header_seconds: float | None = None,
        recording_bytes: int = 0,
    ) -> Clip:
        """A clip of samples [n] or [n, channels] in memory."""
        grid = np.asarray(samples, dtype=np.float32)
        grid = grid[:, None] if grid.ndim == 1 else grid
        return cls(rate, grid.shape[1], len(grid), header_seconds, recording_bytes, (grid,))

    @classmethod
    def of_pieces(
        cls,
        pieces: Sequence[Samples],
        rate: int,
        weights: Weights | None = None,
        recording_bytes: int = 0,
    ) -> Clip:
        """A clip of consecutive blocks, float32 [n, channels]; at least one."""
        count, channels = sum(map(len, pieces)), pieces[0].shape[1]
        return cls(rate, channels, count, None, recording_bytes, tuple(pieces), weights=weights)

    @property
    def recording_seconds(self) -> float:
        whole = self.num_samples if self.recording_samples is None else self.recording_samples
        return whole / self.rate

    @property
    def seconds(self) -> float:
        return self.num_samples / self.rate

    def samples(self) -> Samples:
        """float32 [num_samples, channels]. ValueError for a clip of more than 600 s."""
        if self.seconds > MATERIALISE_SECONDS:
            raise ValueError(
                f"a clip of {self.seconds:.0f} s is too long for samples(): use blocks()"
            )
        return self._read

    @cached_property
    def _read(self) -> Samples:
        if self.pieces is not None:
            return self.pieces[0] if len(self.pieces) == 1 else np.concatenate(self.pieces)
        assert self.source is not None
        from .stream import read_span  # here, as it imports the decoders

        return read_span(*self.source)

    @cached_property
    def in_mix(self) -> list[int]:
        """Numbers of the channels in the mix: all but the LFE and heights of a layout."""
        weights = self.weights or (1.0,) * self.channels
        return [channel for channel, weight in enumerate(weights) if weight]

    def mixed_blocks(self) -> Iterator[Samples]:
        """`blocks()` of the channels in the mix only, for filters that judge each channel."""
        if len(self.in_mix) == self.channels:
            return self.blocks()
        return (block[:, self.in_mix] for block in self.blocks())

    def blocks(self, frames: int = BLOCK_FRAMES) -> Iterator[Samples]:
        """The samples in order, float32 [n, channels], n at most `frames`."""
        if self.pieces is not None:
            for piece in self.pieces:
                for start in range(0, len(piece), frames):
                    yield piece[start : start + frames]
        elif self.source is not None:
            from .stream import span_blocks

            yield from span_blocks(*self.source)
