"""A slicer by silence: RMS of overlapping frames, and where long enough pauses are cut out.

The algorithm is the one known as audio-slicer ("slicer2"), in the form that Applio uses. Frame i is
`win` samples around sample i * hop, zeros beyond the ends. A run of frames below the threshold is
cut when it is `min_interval` long and the slice before it `min_length`: one of up to `max_kept`
frames at its quietest frame, nothing being lost; a longer one loses what lies between the quietest
of its first `max_kept` frames and the quietest of its last. (The published form has a case of its
own for up to twice `max_kept`, where both look at the middle; it comes to the same.) Silence at the
beginning longer than `max_kept` goes up to the quietest of its last frames, and silence at the end
goes from the quietest of its first.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Levels:
    """Mono samples in, RMS of the frames that are known out; the same whatever the blocks.

    Summed in float64: where two quietest frames are equal but for rounding, float32 as Applio has
    it may choose the other one.
    """

    def __init__(self, hop: int, win: int) -> None:
        self._hop, self._win = hop, win
        self._held = np.zeros(win // 2, np.float32)

    def push(self, mono: Floats) -> list[float]:
        self._held = np.concatenate([self._held, mono])
        count = (len(self._held) - self._win) // self._hop + 1
        if count <= 0:
            return []
        frames = np.lib.stride_tricks.sliding_window_view(self._held, self._win)[:: self._hop]
        wide = frames[:count].astype(np.float64)
        powers = np.einsum("ij,ij->i", wide, wide) / self._win
        self._held = self._held[count * self._hop :].copy()
        found: list[float] = np.sqrt(powers).tolist()
        return found

    def finish(self) -> list[float]:
        return self.push(np.zeros(self._win // 2, np.float32))


class Pauses:
    """Takes levels one by one; `ended` gathers slices (begin, end) in frames, in order.

    `begin` is where the open slice begins, None while a pause goes on that has ended it already;
    it goes on at least to `reached`. Silence at the beginning is the first slice until it is known
    what comes: a recording that is silent throughout has one, of `max_kept` frames at most.
    """

    def __init__(self, threshold: float, min_length: int, min_interval: int, max_kept: int) -> None:
        self._threshold = threshold
        self._min_length, self._min_interval, self._kept = min_length, min_interval, max_kept
        self.ended: list[tuple[int, int]] = []
        self.begin: int | None = 0
        self.at = 0  # frames seen
        self._from = 0  # where the slice began that `_min_length` is about
        self._quiet: int | None = None  # where the pause at hand began
        self._first: list[float] = []  # levels of its first frames, and of its last ones
        self._lately: deque[float] = deque(maxlen=max_kept)

    @property
    def reached(self) -> int:
        return self.at if self._quiet is None else self._quiet

    @property
    def low(self) -> int:
        """First frame that a slice which is not in `ended` may begin with."""
        return self.begin if self.begin is not None else max(self.at - self._kept, 0)

    def push(self, level: float) -> None:
        if level < self._threshold:
            if self._quiet is None:
                self._quiet = self.at
                self._first.clear()
                self._lately.clear()
            if len(self._first) < 2 * self._kept:
                self._first.append(level)
            self._lately.append(level)
            self._end_early(self._quiet)
        elif self._quiet is not None:
            self._resume(self._quiet)
            self._quiet = None
        self.at += 1

    def finish(self) -> None:
        """The recording ended."""
        if self._quiet is not None and self.at - self._quiet >= self._min_interval:
            self._end(self._quiet + _lowest(self._first[: self._kept + 1]))
        self._end(self.at)

    def _end_early(self, quiet: int) -> None:
        """End the slice before a pause that is cut out whatever its length will be."""
        if self.begin is None:
            return
        length = self.at + 1 - quiet
        sure = length > 2 * self._kept and length >= self._min_interval
        if quiet > 0 and sure and self.at + 1 - self._from >= self._min_length:
            self._end(quiet + _lowest(self._first[: self._kept + 1]))

    def _resume(self, quiet: int) -> None:
        """The pause is over: cut it out, or let it be a part of the slice."""
        length, kept = self.at - quiet, self._kept
        leading = quiet == 0 and length > kept
        long = length >= self._min_interval and self.at - self._from >= self._min_length
        if not leading and not long:
            return
        if length <= kept:
            end = begin = quiet + _lowest(self._first)
        else:
            end = quiet + _lowest(self._first[: kept + 1])
            begin = self.at - kept + _lowest(list(self._lately))
        if quiet == 0:
            self.begin = None  # nothing before the first sound is kept
        self._end(end)
        self.begin = self._from = begin

    def _end(self, end: int) -> None:
        if self.begin is not None and self.begin < end:
            self.ended.append((self.begin, end))
        self.begin = None


def _lowest(levels: list[float]) -> int:
    """Place of the smallest, the first of equal ones."""
    return levels.index(min(levels))
