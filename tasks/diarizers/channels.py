"""Who speaks when in a call: each channel of the recording is a speaker, by the voice detector.

Speech that leaks into a channel from one that is 10 dB louder, now or a quarter of a second ago,
does not count as its own. A recording of one channel has no turns. The file stays one recording
(`channels: mix`), whose clips are the mix; `channels: apart` makes a recording of each side
instead.
"""

from collections.abc import Sequence

import numpy as np

from ..audio.channels import Beside, Unleaked
from ..base.arrays import RATE, Float32s
from ..recording import Segment
from ..speech.silero import (
    NEG_THRESHOLD,
    PAUSE_WINDOWS,
    THRESHOLD,
    WINDOW,
    Hysteresis,
    Probabilities,
)
from ..speech.silero import identity as identity
from . import CuttingSettings, Diarizer, Turn

VERSION = 1
SHORTEST_S = 0.1  # of a turn
Settings = CuttingSettings


class _Side:
    """One channel: its speech, in windows of the voice detector."""

    def __init__(self, rate: int, channel: int) -> None:
        self._beside = Beside(rate, channel)
        self._channel = channel
        self._unleaked, self._model = Unleaked(self._beside), Probabilities(rate)
        self._hysteresis = Hysteresis(THRESHOLD, NEG_THRESHOLD, PAUSE_WINDOWS)
        self.regions: list[tuple[int, int]] = []

    def push(self, block: Float32s) -> None:
        self._beside.push(block)
        side = block[:, self._channel : self._channel + 1]
        self._add(self._model.push(self._unleaked.push(side)))

    def finish(self) -> list[tuple[int, int]]:
        if (rest := self._unleaked.finish()) is not None:
            self._add(self._model.push(rest))
        self._add(self._model.finish())
        return [*self.regions, *self._hysteresis.finish()]

    def _add(self, probabilities: Float32s) -> None:
        self.regions += self._hysteresis.regions(probabilities)


class Channels:
    def __init__(self, rate: int) -> None:
        self._rate, self._count = rate, 0
        self._sides: list[_Side] = []

    def push(self, block: Float32s) -> None:
        if not self._count and block.shape[1] > 1:
            self._sides = [_Side(self._rate, channel) for channel in range(block.shape[1])]
        self._count += len(block)
        finite = np.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0)
        for side in self._sides:
            side.push(finite)

    def finish(self) -> tuple[Turn, ...]:
        spoken = sorted(
            (self._native(low), self._native(high), channel)
            for channel, side in enumerate(self._sides)
            for low, high in side.finish()
            if (high - low) * WINDOW >= SHORTEST_S * RATE
        )
        numbers: dict[int, int] = {}
        return tuple(
            Turn(start, end, numbers.setdefault(channel, len(numbers)), channel=channel)
            for start, end, channel in spoken
            if start < end
        )

    def _native(self, window: int) -> int:
        return min(window * WINDOW * self._rate // RATE, self._count)


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Diarizer:
    return Channels(rate)
