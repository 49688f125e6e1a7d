"""DNSMOS P.835 by ONNX Runtime, computing each second once instead of in nine windows.

The weights are in speechmos's wheel, which is located without being imported. A window is 9.01 s
long and starts one second after the window before it, so most of the work repeats. All windows
start on the same grid of pooled frames, so the model is split in four, and all parts but the last
run once over the clip:

    near     frames of 20 ms, one every 10 ms -> halves: 32 channels x 80 bands for 2 frames
    far      halves -> columns: 32 channels x 40 bands for 4 frames
    further  columns -> columns
    head     225 such columns of one window -> three raw scores

What they give is the same in every window except at a window's ends, where the network sees zeros
instead of neighbours: two halves, two columns, then three on each side. These few are computed for
each window, from its outermost frames and from what it shares.

Of the 64 channels of the second layer, the heaviest, 23 never fire: not on 700 s of the corpus's
speech, noise and damage, nor on 25 extreme signals (clicks, tones, full-scale squares, sparse
spectra). The 16 that stay silent even for spectra that no signal has (searched by gradient: below
0.1, where others reach 11) are left out of the weights, which makes the model a fifth faster.

Raw scores are within 5e-7 of the whole model's (measured).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.errors import ConfigError, RunError
from tasks.filters import _onnx_cut
from tasks.weights import registry

if TYPE_CHECKING:
    import onnxruntime

Floats = NDArray[np.float32]

RATE = 16_000  # Hz; also the hop between windows, in samples
WINDOW = 144_160  # samples: 9.01 s
SHA256 = registry.DNSMOS.files[0].sha256
INSTALL = "pip install 'uttermill[dnsmos]' (speechmos 0.0.1.1)"

HOP, FRAME = 160, 320  # samples
FRAMES = 900  # whole frames in a window
HALVES, COLUMNS = FRAMES // 2, FRAMES // 4
STEP = RATE // HOP  # frames from one window to the next
STRIP = 8  # frames from which the halves at a window's end are computed
#: Halves or columns at each end of a window that its end changes, after each part.
NEAR_EDGE, FAR_EDGE, FURTHER_EDGE = 2, 2, 3
CHUNK = 100  # halves per run of the first part: 17 MB in its widest layer
GROUP = 8  # windows per run of the head

#: Channels of `conv2d_1` that are left out. ONNX Runtime computes channels in blocks of 16.
SILENT = (2, 4, 8, 21, 22, 29, 30, 31, 34, 40, 41, 44, 46, 53, 56, 62)

_FRAMES = "mos_estimator_logpow/concat:0"
_POOLED = "mos_estimator_logpow/max_pooling2d/MaxPool_1_conv0"
#: The tensors between which the model is cut.
_CUTS = (
    _FRAMES,
    "mos_estimator_logpow/conv2d_3/Relu:0_pooling0",
    _POOLED,
    "mos_estimator_logpow/conv2d_5/Relu:0",
    "Identity:0",
)


def weights() -> Path:
    """The model's file, checked. ConfigError if it is missing or a different model."""
    spec = find_spec("speechmos")
    if spec is None or not spec.origin:
        raise ConfigError(f"the filter dnsmos needs the package with its model: {INSTALL}")
    path = Path(spec.origin).parent / "dnsmos_models" / "sig_bak_ovr.onnx"
    if not path.is_file():
        raise ConfigError(f"the filter dnsmos: {path} is missing; {INSTALL}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise ConfigError(f"the filter dnsmos: {path} is not the expected model; {INSTALL}")
    return path


#: ONNX Runtime's names. It silently falls back to the CPU if it cannot use one.
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


@lru_cache(maxsize=2)
def _sessions(device: str) -> tuple[onnxruntime.InferenceSession, ...]:
    """The parts in order, one of each per process; threads may share them. RunError if a GPU is
    asked for and cannot be used."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Its own arena keeps 60 MB allocated; without it, page faults take a tenth of the time.
    options.enable_mem_pattern = False
    options.log_severity_level = 4
    model = lean(weights().read_bytes())
    parts = tuple(
        onnxruntime.InferenceSession(
            _onnx_cut.part(model, source, target),
            sess_options=options,
            providers=[PROVIDERS[device]],
        )
        for source, target in pairwise(_CUTS)
    )
    if PROVIDERS[device] not in parts[0].get_providers():
        raise RunError(
            f"the filter dnsmos has device: {device}, but ONNX Runtime cannot use it; CUDA's or "
            "cuDNN's libraries may be missing: install them, or set device: cpu"
        )
    return parts


def lean(model: bytes) -> bytes:
    """The model without its `SILENT` channels."""
    kept = np.setdiff1d(np.arange(64), SILENT)
    made = _onnx_cut.weights(model, "conv2d_1/kernel:0", (64, 128, 3, 3))
    added = _onnx_cut.weights(model, "conv2d_1/bias:0", (64,))
    read = _onnx_cut.weights(model, "conv2d_2/kernel:0", (64, 64, 3, 3))
    new = {
        "conv2d_1/kernel:0": made[kept],
        "conv2d_1/bias:0": added[kept],
        "conv2d_2/kernel:0": read[:, kept],
    }
    return _onnx_cut.with_weights(model, new)


def windows(
    blocks: Iterable[Floats],
    keep: Callable[[int], bool] | None = None,
    group: int = GROUP,
    device: str = "cpu",
) -> Iterator[Floats]:
    """Raw scores SIG, BAK, OVRL [n, 3] of the windows of a stream of at least 9.01 s, in order.

    As in the reference, window i exists if the stream has 10 + i whole seconds; the first always
    does. Yields only the windows that `keep` accepts; groups without any are not computed.
    """
    held: list[Floats] = []
    size, at = 0, 0  # samples held; they start at window `at`
    stream = _Stream(device)
    for block in blocks:
        held.append(block)
        size += len(block)
        while size >= (group + 9) * RATE:
            joined = np.concatenate(held)
            yield stream.run(joined[: (group - 1) * RATE + WINDOW], group, keep, at)
            held = [joined[group * RATE :]]
            size, at = size - group * RATE, at + group
    rest = size // RATE - 9
    if at == 0 and size >= WINDOW:
        rest = max(rest, 1)
    if rest > 0:
        yield stream.run(np.concatenate(held)[: (rest - 1) * RATE + WINDOW], rest, keep, at)


class _Stream:
    """Scores groups of consecutive windows; what they share is kept from one group to the next: of
    the group's first window on, the halves and columns [channels, n, bands] that no end changes."""

    def __init__(self, device: str) -> None:
        self._near, self._far, self._further, self._head = (
            partial(_run, session, source)
            for session, source in zip(_sessions(device), _CUTS, strict=False)
        )
        self._forget()

    def _forget(self) -> None:
        self._halves = np.empty((32, 0, 80), np.float32)
        self._columns = self._last = np.empty((32, 0, 40), np.float32)

    def run(
        self, samples: Floats, count: int, keep: Callable[[int], bool] | None, index: int
    ) -> Floats:
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

    def _extend(self, frames: Floats, total: int) -> None:
        """Compute what is not known yet of what the windows share: so many halves in all."""
        known = [self._halves]
        at = self._halves.shape[1]
        while at < total:
            stop = min(at + CHUNK, total)
            piece = frames[2 * at : 2 * (stop + 2 * NEAR_EDGE)]
            known.append(self._near(piece[None])[0][:, NEAR_EDGE:-NEAR_EDGE])
            at = stop
        self._halves = np.concatenate(known, axis=1)
        # Each part takes what its first new column sees on the left; the run's ends are cut off.
        new = self._far(self._halves[None, :, 2 * self._columns.shape[1] :])[0][:, 1:-1]
        self._columns = np.concatenate([self._columns, new], axis=1)
        new = self._further(self._columns[None, :, self._last.shape[1] :])[0][:, 1:-1]
        self._last = np.concatenate([self._last, new], axis=1)

    def _ends(self, frames: Floats, count: int) -> tuple[Floats, Floats]:
        """The first and the last columns of each window: [count, 32, 3, 40]."""
        starts = range(0, count * STEP, STEP)
        begins = [*starts, *(at + FRAMES - STRIP for at in starts)]
        found = self._near(np.stack([frames[at : at + STRIP] for at in begins]))
        first, last = found[:count, :, :NEAR_EDGE], found[count:, :, -NEAR_EDGE:]
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
            found = part(np.stack(strips))
            first, last = found[:count, :, :edge], found[count:, :, -edge:]
        return first, last


def _windows(shared: Floats, count: int, step: int) -> list[Floats]:
    """The part of each window in what they share: views."""
    length = shared.shape[1] - (count - 1) * step
    return [shared[:, i * step : i * step + length] for i in range(count)]


def _run(session: onnxruntime.InferenceSession, source: str, given: Floats) -> Floats:
    found: Floats = session.run(None, {source: np.ascontiguousarray(given)})[0]
    return found
