"""The model of DNSMOS P.835, in four parts that ONNX Runtime runs.

    near     frames of 20 ms, one every 10 ms -> halves: 32 channels x 80 bands for 2 frames
    far      halves -> columns: 32 channels x 40 bands for 4 frames
    further  columns -> columns
    head     225 such columns of one window -> three raw scores

The weights are in speechmos's wheel, which is located without being imported. Of the 64 channels of
the second layer, the heaviest, 23 never fire: not on 700 s of the corpus's speech, noise and
damage, nor on 25 extreme signals (clicks, tones, full-scale squares, sparse spectra). The 16 that
stay silent even for spectra that no signal has (searched by gradient: below 0.1, where others reach
11) are left out, which makes the model a fifth faster.

In `int8`, three layers of the first part, nine tenths of the work, are in integers (`quantised`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from ...base.arrays import Float32s
from ...base.errors import RunError
from ...models import model_files, onnx_graph, onnx_session, registry

if TYPE_CHECKING:
    import onnxruntime

Network = Callable[[Float32s], Float32s]
Precision = Literal["float32", "int8"]

SHA256 = registry.DNSMOS.files[0].sha256

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


def weights() -> Path:
    """The model's file, checked. ConfigError if it is missing or a different model."""
    return model_files.located(registry.DNSMOS, "the filter dnsmos")


@lru_cache(maxsize=2)
def parts(device: str, precision: Precision) -> tuple[Network, ...]:
    """The parts in order, one of each per process; threads may share them. RunError if `device` is
    a GPU that cannot be used."""
    model = pruned(weights().read_bytes())
    sessions = [_session(onnx_graph.part(model, *cut), device) for cut in pairwise(CUTS)]
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
    first = partial(_run, _session(onnx_graph.part(model, FRAMES, _FIRST), device), FRAMES)
    rest = partial(_run, _session(quantised(model), device), "x")
    return lambda frames: rest(first(frames)), *others


def _session(model: bytes, device: str) -> onnxruntime.InferenceSession:
    # One block keeps 60 MB allocated; without the arena, page faults take a tenth of the time.
    return onnx_session.session(model, patterns=False, device=device)


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
    scales = [graph.floats(top / 255) for top in RANGES]
    zero = graph.constant(np.uint8(0))
    x = graph.op("QuantizeLinear", ["x", scales[0], zero])
    constants = onnx_graph.constants(model)
    for n, (layer, out, _) in enumerate(LAYERS):
        kernel, bias = constants[f"{layer}/kernel:0"], constants[f"{layer}/bias:0"]
        scale = np.maximum(np.abs(kernel).max(axis=(1, 2, 3)), 1e-9) / 63
        rounded = np.round(kernel / scale[:, None, None, None]).astype(np.int8)
        inputs = [x, scales[n], zero, graph.constant(rounded), graph.floats(scale)]
        inputs += [graph.constant(np.zeros(out, np.int8)), scales[n + 1], zero]
        inputs.append(graph.constant(np.round(bias / (scale * RANGES[n] / 255)).astype(np.int32)))
        x = graph.op("QLinearConv", inputs, pads=[1, 1, 1, 1])
    x = graph.op("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = graph.op("DequantizeLinear", [x, scales[-1], zero])
    return graph.model([("x", ["n", 128, "t", 161])], [(x, "y", ["n", 32, "h", 80])])
