"""DNSMOS P.835 by ONNX Runtime, computing each second once instead of in nine windows.

The weights are in speechmos's wheel, which is located without being imported. A window is 9.01 s
long and starts one second after the window before it, so most of the work repeats. Nearly all of
it is in layers that see only 15 frames (10 ms each) of their input, and all windows start on the
same grid of pooled frames. So the model is split in two at its second pooling:

    body   frames of 20 ms -> 32 channels x 40 bands for every 4 frames; run once over the clip
    head   225 such columns of one window -> three raw scores

Of the 64 channels of the second layer, the heaviest, 23 never fire: not on 700 s of the corpus's
speech, noise and damage, nor on 25 extreme signals (clicks, tones, full-scale squares, sparse
spectra). The 16 that stay silent even for spectra that no signal has (searched by gradient: below
0.1, where others reach 11) are left out of the weights, which makes the body a fifth faster.

A column is the same in every window except at a window's ends, where the network sees zeros instead
of neighbours: two columns on each side, recomputed from 16 frames. Raw scores are within 5e-7 of
the whole model's (measured).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
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
STEP = RATE // HOP  # frames from one window to the next
POOL = 4  # frames per column
COLUMNS = FRAMES // POOL
AROUND = 8  # frames beside its own that a column sees on each side: 6, in whole columns
EDGE, STRIP = 2, 16  # columns affected by a window's end; frames that they are computed from
CHUNK = 75  # columns per run of the body: 26 MB in the widest layer; a third of a window
GROUP = 8  # windows per run of the head

#: Channels of `conv2d_1` that are left out. ONNX Runtime computes channels in blocks of 16.
SILENT = (2, 4, 8, 21, 22, 29, 30, 31, 34, 40, 41, 44, 46, 53, 56, 62)

_FRAMES = "mos_estimator_logpow/concat:0"
_POOLED = "mos_estimator_logpow/max_pooling2d/MaxPool_1_conv0"
_SCORES = "Identity:0"


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
def _sessions(device: str) -> tuple[onnxruntime.InferenceSession, onnxruntime.InferenceSession]:
    """Body and head, one of each per process; threads may share them. RunError if a GPU is asked
    for and cannot be used."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # Its own arena keeps 60 MB allocated; without it, page faults take a tenth of the time.
    options.enable_mem_pattern = False
    options.log_severity_level = 4
    model = lean(weights().read_bytes())
    body, head = (
        onnxruntime.InferenceSession(
            _onnx_cut.part(model, source, target),
            sess_options=options,
            providers=[PROVIDERS[device]],
        )
        for source, target in ((_FRAMES, _POOLED), (_POOLED, _SCORES))
    )
    if PROVIDERS[device] not in body.get_providers():
        raise RunError(
            f"the filter dnsmos has device: {device}, but ONNX Runtime cannot use it; CUDA's or "
            "cuDNN's libraries may be missing: install them, or set device: cpu"
        )
    return body, head


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
    """Scores groups of consecutive windows; shared columns are kept from one group to the next."""

    def __init__(self, device: str) -> None:
        self._body, self._head = _sessions(device)
        self._columns: Floats | None = None  # [32, n, 40], from the next group's first frame

    def run(
        self, samples: Floats, count: int, keep: Callable[[int], bool] | None, index: int
    ) -> Floats:
        """Raw scores [n, 3] of the `count` windows that start at 0, 16000, ... in `samples`.

        The first is window `index` of the stream.
        """
        wanted = [keep is None or keep(index + i) for i in range(count)]
        if not any(wanted):
            self._columns = None
            return np.empty((0, 3), np.float32)
        frames = np.lib.stride_tricks.sliding_window_view(samples, FRAME)[::HOP]
        first = self._columns is None
        columns = self._extended(frames)
        sides = self._sides(frames, count)
        stack = np.empty((count, columns.shape[0], COLUMNS, columns.shape[2]), np.float32)
        for i in range(count):
            at = i * STEP // POOL
            stack[i] = columns[:, at : at + COLUMNS]
            # The ends of the body's own input are ends of a window already.
            if i or not first:
                stack[i, :, :EDGE] = sides[2 * i][:, :EDGE]
            if i < count - 1:
                stack[i, :, -EDGE:] = sides[2 * i + 1][:, -EDGE:]
        self._columns = columns[:, count * STEP // POOL : -EDGE].copy()
        found: Floats = self._head.run(None, {_POOLED: stack})[0]
        return found[wanted]

    def _extended(self, frames: Floats) -> Floats:
        """Columns of all frames: the known ones, and the rest in runs of at most CHUNK."""
        known = [] if self._columns is None else [self._columns]
        total = len(frames) // POOL
        at = known[0].shape[1] if known else 0
        while at < total:
            stop = min(at + CHUNK, total)
            begin = max(POOL * at - AROUND, 0)
            piece = frames[begin : POOL * stop + AROUND]
            lead = at - begin // POOL
            known.append(self._pooled(piece[None])[0][:, lead : lead + stop - at])
            at = stop
        return np.concatenate(known, axis=1)

    def _sides(self, frames: Floats, count: int) -> Floats:
        """Columns [2 * count, 32, 4, 40] of the first and the last 16 frames of each window."""
        if count == 1 and self._columns is None:
            return np.empty((0, 0, 0, 0), np.float32)
        strips = [
            frames[at : at + STRIP]
            for i in range(count)
            for at in (i * STEP, i * STEP + FRAMES - STRIP)
        ]
        return self._pooled(np.stack(strips))

    def _pooled(self, frames: Floats) -> Floats:
        found: Floats = self._body.run(None, {_FRAMES: np.ascontiguousarray(frames)})[0]
        return found
