"""One utterance's samples, held in memory or decoded on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ..recording import Locator
from ..recording.turns import Turn
from .types import BLOCK_FRAMES, Samples, Weights

MATERIALISE_SECONDS = 600.0


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
