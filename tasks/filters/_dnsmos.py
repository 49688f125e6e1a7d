"""DNSMOS P.835 by ONNX Runtime, each second of sound computed once instead of in nine windows.

The weights lie in speechmos's wheel, which is found without being imported. A window is 9.01 s
long and begins a second after the one before, so most of the network's work repeats. Nearly all
of that lies in layers that see 15 frames (10 ms each) of their input, and the windows' starts fall
on the same grid of pooled frames. So the model is cut in two at the second pooling:

    body   frames of 20 ms -> 32 channels x 40 bands for every 4 frames; run once over the clip
    head   225 such columns of one window -> three raw scores

A column is the same in every window but at a window's ends, where the network sees zeros instead
of neighbours: two columns a side, computed anew from 16 frames. (Raw scores are within 5e-7 of what
the whole model says, measured.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.errors import ConfigError, RunError
from tasks.filters import _onnx_cut

Floats = NDArray[np.float32]

RATE = 16_000  # Hz; also the hop between windows, in samples
WINDOW = 144_160  # samples: 9.01 s
SHA256 = "269fbebdb513aa23cddfbb593542ecc540284a91849ac50516870e1ac78f6edd"
INSTALL = "pip install 'uttermill[dnsmos]' (speechmos 0.0.1.1)"

HOP, FRAME = 160, 320  # samples
FRAMES = 900  # of a window: from the first whole one to the last
STEP = RATE // HOP  # frames from one window to the next
POOL = 4  # frames of a column
COLUMNS = FRAMES // POOL
AROUND = 8  # frames on both sides of a column's own that it sees: 6, in whole columns
EDGE, STRIP = 2, 16  # columns at a window's end that see it; frames that they are computed from
CHUNK = 75  # columns of one run: 26 MB in the widest layer; a third of a window
GROUP = 8  # windows of one run of the head

_FRAMES = "mos_estimator_logpow/concat:0"
_POOLED = "mos_estimator_logpow/max_pooling2d/MaxPool_1_conv0"
_SCORES = "Identity:0"


def weights() -> Path:
    """The model's file, checked. ConfigError with the remedy when it is missing or another one."""
    spec = find_spec("speechmos")
    if spec is None or not spec.origin:
        raise ConfigError(f"the filter dnsmos needs the package that holds its model: {INSTALL}")
    path = Path(spec.origin).parent / "dnsmos_models" / "sig_bak_ovr.onnx"
    if not path.is_file():
        raise ConfigError(f"the filter dnsmos: {path} is missing: {INSTALL}")
    if hashlib.sha256(path.read_bytes()).hexdigest() != SHA256:
        raise ConfigError(f"the filter dnsmos: {path} is not the model known here: {INSTALL}")
    return path


#: ONNX Runtime's names. Where one cannot be used it takes the CPU and does not say so.
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


@lru_cache(maxsize=2)
def _sessions(device: str) -> tuple[Any, Any]:
    """Body and head, one of each a process; they may be shared by threads. RunError when a GPU is
    wanted and cannot be used."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    # With its own arena, 60 MB stay allocated; without, a tenth of the time goes into page faults.
    options.enable_mem_pattern = False
    options.log_severity_level = 4
    model = weights().read_bytes()
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
            f"the filter dnsmos has device: {device}, but ONNX Runtime could not use it: it may "
            "lack CUDA's or cuDNN's libraries here; set device: cpu, or install them"
        )
    return body, head


def windows(
    blocks: Iterable[Floats],
    keep: Callable[[int], bool] | None = None,
    group: int = GROUP,
    device: str = "cpu",
) -> Iterator[Floats]:
    """Raw scores SIG, BAK, OVRL [n, 3] of the windows of a stream of at least 9.01 s, in order.

    Counted as the reference does: window i, but the first, needs that 10 + i whole seconds exist.
    Groups of windows of which `keep` wants none are not run; none but what it wants is given.
    """
    held: list[Floats] = []
    size, at = 0, 0  # samples held, from the start of window `at`
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
    """Groups of consecutive windows; what the body found for one group serves the next."""

    def __init__(self, device: str) -> None:
        self._body, self._head = _sessions(device)
        self._columns: Floats | None = None  # [32, n, 40] from the next group's first frame on

    def run(
        self, samples: Floats, count: int, keep: Callable[[int], bool] | None, index: int
    ) -> Floats:
        """Raw scores [n, 3] of windows that begin at 0, 16000, ... of these samples.

        The first of them is window `index` of the stream.
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
            # The ends of what the body ran over are ends of a window already.
            if i or not first:
                stack[i, :, :EDGE] = sides[2 * i][:, :EDGE]
            if i < count - 1:
                stack[i, :, -EDGE:] = sides[2 * i + 1][:, -EDGE:]
        self._columns = columns[:, count * STEP // POOL : -EDGE].copy()
        found: Floats = self._head.run(None, {_POOLED: stack})[0]
        return found[wanted]

    def _extended(self, frames: Floats) -> Floats:
        """Columns of all the frames: those known, and the rest in runs of at most CHUNK."""
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
        """Columns of the first and the last 16 frames of each window [2 * count, 32, 4, 40]."""
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
