"""DNSMOS P.835 of a stream of windows, computing each second once instead of in nine windows.

A window is 9.01 s long and starts one second after the window before it, so most of the work
repeats. All windows start on the same grid of pooled frames, so that three of the four parts of the
model (`networks.py`) run once over the clip, and only the last one for each window.

Their output is the same in every window except at a window's ends, where the network sees zeros
instead of neighbours: two halves, two columns, then three on each side. These few are computed for
each window, from its outermost frames and from what it shares.

Raw scores are within 5e-7 of the whole model's (measured); in `int8`, OVRL is within 0.04 for 95 %
of clips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ...base.arrays import RATE, Float32s
from . import networks

WINDOW = 144_160  # samples: 9.01 s; windows begin a second apart

HOP, FRAME = 160, 320  # samples
FRAMES = 900  # whole frames in a window
HALVES, COLUMNS = FRAMES // 2, FRAMES // 4
STEP = RATE // HOP  # frames from one window to the next
STRIP = 8  # frames from which the halves at a window's end are computed
#: Halves or columns at each end of a window that its end changes, after each part.
NEAR_EDGE, FAR_EDGE, FURTHER_EDGE = 2, 2, 3
CHUNK = 100  # halves per run of the first part: 17 MB in its widest layer
#: Windows per run of the head, all of one clip: on a CPU, several clips at once gain nothing (17 x
#: real time by 1, 14 by 4, 16 by 8 windows of the whole model on one thread). A GPU waits for its
#: kernels to start: on an H100 a clip of 60 s is scored at 26 times real time by 8 windows at once,
#: and at 159 times by 64.
GROUPS = {"cpu": 8, "cuda": 64}


def windows(
    blocks: Iterable[Float32s],
    keep: Callable[[int], bool] | None = None,
    group: int = GROUPS["cpu"],
    device: str = "cpu",
    precision: networks.Precision = "float32",
) -> Iterator[Float32s]:
    """Raw scores SIG, BAK, OVRL [n, 3] of the windows of a stream of at least 9.01 s, in order.

    As in the reference, window i exists if the stream has 10 + i whole seconds; the first always
    does. Yields only the windows that `keep` accepts; groups without any are not computed.
    """
    waiting: list[Float32s] = []
    size, first = 0, 0  # samples held; they start at window `at`
    stream = _Stream(networks.parts(device, precision))
    for block in blocks:
        waiting.append(block)
        size += len(block)
        while size >= (group + 9) * RATE:
            joined = np.concatenate(waiting)
            yield stream.run(joined[: (group - 1) * RATE + WINDOW], group, keep, first)
            waiting = [joined[group * RATE :]]
            size, first = size - group * RATE, first + group
    rest = size // RATE - 9
    if first == 0 and size >= WINDOW:
        rest = max(rest, 1)
    if rest > 0:
        yield stream.run(np.concatenate(waiting)[: (rest - 1) * RATE + WINDOW], rest, keep, first)


class _Stream:
    """Scores groups of consecutive windows. Keeps what they share from group to group: from a
    group's first window on, the halves and columns [channels, n, bands] that no end of a window
    changes."""

    def __init__(self, parts: tuple[networks.Network, ...]) -> None:
        self._near, self._far, self._further, self._head = parts
        self._forget()

    def _forget(self) -> None:
        self._halves = np.empty((32, 0, 80), np.float32)
        self._columns = self._last = np.empty((32, 0, 40), np.float32)

    def run(
        self, samples: Float32s, count: int, keep: Callable[[int], bool] | None, index: int
    ) -> Float32s:
        """Raw scores [n, 3] of the `count` windows that start at 0, 16000, ... in `samples`.

        The first is window `index` of the stream.
        """
        wanted = [keep is None or keep(index + i) for i in range(count)]
        if not any(wanted):
            self._forget()
            return np.empty((0, 3), np.float32)
        frames = np.lib.stride_tricks.sliding_window_view(samples, FRAME)[::HOP]
        self._extend(frames, (count - 1) * STEP // 2 + HALVES - 2 * NEAR_EDGE)
        stack = np.empty((count, 32, COLUMNS, 40), np.float32)
        stack[:, :, :FURTHER_EDGE], stack[:, :, -FURTHER_EDGE:] = self._ends(frames, count)
        step = STEP // 4
        for i, inner in enumerate(_windows(self._last, count, step)):
            stack[i, :, FURTHER_EDGE:-FURTHER_EDGE] = inner
        self._halves = self._halves[:, 2 * count * step :].copy()
        self._columns = self._columns[:, count * step :].copy()
        self._last = self._last[:, count * step :].copy()
        return self._head(stack)[wanted]

    def _extend(self, frames: Float32s, total: int) -> None:
        """Extend the shared arrays to `total` halves."""
        halves = [self._halves]
        start = self._halves.shape[1]
        while start < total:
            stop = min(start + CHUNK, total)
            piece = frames[2 * start : 2 * (stop + 2 * NEAR_EDGE)]
            halves.append(self._near(piece[None])[0][:, NEAR_EDGE:-NEAR_EDGE])
            start = stop
        self._halves = np.concatenate(halves, axis=1)
        # Each part takes what its first new column sees on the left; the run's ends are cut off.
        new = self._far(self._halves[None, :, 2 * self._columns.shape[1] :])[0][:, 1:-1]
        self._columns = np.concatenate([self._columns, new], axis=1)
        new = self._further(self._columns[None, :, self._last.shape[1] :])[0][:, 1:-1]
        self._last = np.concatenate([self._last, new], axis=1)

    def _ends(self, frames: Float32s, count: int) -> tuple[Float32s, Float32s]:
        """The first and the last columns of each window: [count, 32, 3, 40]."""
        starts = range(0, count * STEP, STEP)
        begins = [*starts, *(start + FRAMES - STRIP for start in starts)]
        columns = self._near(np.stack([frames[start : start + STRIP] for start in begins]))
        first, last = columns[:count, :, :NEAR_EDGE], columns[count:, :, -NEAR_EDGE:]
        for part, shared, step, seen, edge in (
            (self._far, self._halves, STEP // 2, 4, FAR_EDGE),
            (self._further, self._columns, STEP // 4, 2, FURTHER_EDGE),
        ):
            inner = _windows(shared, count, step)
            strips = [
                np.concatenate([a, b[:, :seen]], 1) for a, b in zip(first, inner, strict=True)
            ]
            strips += [
                np.concatenate([b[:, -seen:], a], 1) for a, b in zip(last, inner, strict=True)
            ]
            columns = part(np.stack(strips))
            first, last = columns[:count, :, :edge], columns[count:, :, -edge:]
        return first, last


def _windows(shared: Float32s, count: int, step: int) -> list[Float32s]:
    """Each window's part of the shared arrays, as views."""
    length = shared.shape[1] - (count - 1) * step
    return [shared[:, i * step : i * step + length] for i in range(count)]
