"""The raw scores of DNSMOS P.835, by its model in four parts: each second of a stream is computed
once instead of in nine windows.

    near     frames of 20 ms, one every 10 ms -> halves: 32 channels x 80 bands for 2 frames
    far      halves -> columns: 32 channels x 40 bands for 4 frames
    further  columns -> columns
    head     225 such columns of one window -> three raw scores

A window is 9.01 s long and starts one second after the window before it. All start on the same grid
of pooled frames, so three of the four parts run once over the clip, and only the last one for each
window. Their output is the same in every window except at a window's ends, where the network sees
zeros instead of neighbours: two halves, two columns, then three on each side. These few are
computed for each window, from its outermost frames and from what it shares.

The weights are in speechmos's wheel, which is located without being imported. Of the 64 channels of
the second layer, the heaviest, 23 never fire: not on 700 s of the corpus's speech, noise and
damage, nor on 25 extreme signals (clicks, tones, full-scale squares, sparse spectra). The 16 that
stay silent even for spectra that no signal has (searched by gradient: below 0.1, where others reach
11) are left out, which makes the model a fifth faster. In `int8`, three layers of the first part,
nine tenths of the work, are in integers (`quantised`).

Raw scores are within 5e-7 of the whole model's (measured); in `int8`, OVRL is within 0.04 for 95 %
of clips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..base.arrays import RATE, Float32s
from ..base.errors import RunError
from ..models import model_files, onnx_graph, onnx_session, registry

if TYPE_CHECKING:
    import onnxruntime

Network = Callable[[Float32s], Float32s]
Precision = Literal["float32", "int8"]

ASKED_BY = "the filter dnsmos"

#: Channels of `conv2d_1` that are left out. ONNX Runtime computes channels in blocks of 16.
SILENT = (2, 4, 8, 21, 22, 29, 30, 31, 34, 40, 41, 44, 46, 53, 56, 62)

#: The largest outputs that 8 bits hold, of the layer before the three integer layers and of these:
#: 0.6 of the largest values in 180 s of the corpus's speech and noise.
RANGES = (3.44, 8.31, 5.37, 2.57)
LAYERS = (("conv2d_1", 48, 128), ("conv2d_2", 64, 48), ("conv2d_3", 32, 64))

FRAMES = "mos_estimator_logpow/concat:0"
POOLED = "mos_estimator_logpow/max_pooling2d/MaxPool_1_conv0"
#: The tensors between which the model is cut.
CUTS = (
    FRAMES,
    "mos_estimator_logpow/conv2d_3/Relu:0_pooling0",
    POOLED,
    "mos_estimator_logpow/conv2d_5/Relu:0",
    "Identity:0",
)
_FIRST = "mos_estimator_logpow/conv2d/Relu:0"


@lru_cache(maxsize=2)
def parts(device: str, precision: Precision) -> tuple[Network, ...]:
    """The parts in order, one of each per process; threads may share them. RunError if `device` is
    a GPU that cannot be used."""
    model = pruned(model_files.located(registry.DNSMOS, ASKED_BY).read_bytes())
    # One block keeps 60 MB allocated; without the arena, page faults take a tenth of the time.
    start = partial(onnx_session.session, patterns=False, device=device)
    sessions = [start(onnx_graph.part(model, *cut)) for cut in pairwise(CUTS)]
    if onnx_session.PROVIDERS[device] not in sessions[0].get_providers():
        raise RunError(
            f"the filter dnsmos has device: {device}, but ONNX Runtime cannot use it; CUDA's or "
            "cuDNN's libraries may be missing: install them, or set device: cpu"
        )
    near, *others = (
        partial(_run, session, source) for session, source in zip(sessions, CUTS, strict=False)
    )
    if precision == "float32":
        return near, *others
    first = partial(_run, start(onnx_graph.part(model, FRAMES, _FIRST)), FRAMES)
    rest = partial(_run, start(quantised(model)), "x")
    return lambda frames: rest(first(frames)), *others


def _run(session: onnxruntime.InferenceSession, source: str, given: Float32s) -> Float32s:
    output: Float32s = session.run(None, {source: np.ascontiguousarray(given)})[0]
    return output


def pruned(model: bytes) -> bytes:
    """The model without its `SILENT` channels."""
    kept = np.setdiff1d(np.arange(64), SILENT)
    constants = onnx_graph.constants(model)
    new = {name: constants[name][kept] for name in ("conv2d_1/kernel:0", "conv2d_1/bias:0")}
    new["conv2d_2/kernel:0"] = constants["conv2d_2/kernel:0"][:, kept]
    return onnx_graph.with_weights(model, new)


def quantised(model: bytes) -> bytes:
    """The pruned model's second to fourth layer and the pooling after them, in integers.

    Values have 8 bits; weights have 7, with a scale for each channel, so that no CPU saturates:
    AVX2 adds two products in 16 bits (2 * 255 * 63 < 2**15).
    """
    graph = onnx_graph.Graph("dnsmos")
    scales = [graph.constant(np.float32(top / 255)) for top in RANGES]
    zero = graph.constant(np.uint8(0))
    x = graph.op("QuantizeLinear", ["x", scales[0], zero])
    constants = onnx_graph.constants(model)
    for n, (layer, out, _) in enumerate(LAYERS):
        kernel, bias = constants[f"{layer}/kernel:0"], constants[f"{layer}/bias:0"]
        scale = np.maximum(np.abs(kernel).max(axis=(1, 2, 3)), 1e-9) / 63
        rounded = np.round(kernel / scale[:, None, None, None]).astype(np.int8)
        inputs = [x, scales[n], zero, graph.constant(rounded), graph.constant(scale)]
        inputs += [graph.constant(np.zeros(out, np.int8)), scales[n + 1], zero]
        inputs.append(graph.constant(np.round(bias / (scale * RANGES[n] / 255)).astype(np.int32)))
        x = graph.op("QLinearConv", inputs, pads=[1, 1, 1, 1])
    x = graph.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = graph.op("DequantizeLinear", [x, scales[-1], zero])
    return graph.model([("x", ["n", 128, "t", 161])], [(x, "y", ["n", 32, "h", 80])])


WINDOW = 144_160  # samples: 9.01 s; windows begin a second apart

HOP, FRAME = 160, 320  # samples
WINDOW_FRAMES = 900  # whole ones
HALVES, COLUMNS = WINDOW_FRAMES // 2, WINDOW_FRAMES // 4
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
    precision: Precision = "float32",
) -> Iterator[Float32s]:
    """Raw scores SIG, BAK, OVRL [n, 3] of the windows of a stream of at least 9.01 s, in order.

    As in the reference, window i exists if the stream has 10 + i whole seconds; the first always
    does. Yields only the windows that `keep` accepts; groups without any are not computed.
    """
    waiting: list[Float32s] = []
    size, first = 0, 0  # samples held; they start at window `at`
    stream = _Stream(parts(device, precision))
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

    def __init__(self, parts: tuple[Network, ...]) -> None:
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
        begins = [*starts, *(start + WINDOW_FRAMES - STRIP for start in starts)]
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
