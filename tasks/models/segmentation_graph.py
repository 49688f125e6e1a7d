"""pyannote segmentation 3.0 as an ONNX graph: `x [N, 1, 160000] -> y [N, 589, 7]`.

SincNet (Ravanelli and Bengio 2018, arXiv 1808.00158), four bidirectional LSTM layers of 128, two
linear layers of 128, and log-probabilities of the seven sets of at most two of three speakers
(Plaquet and Bredin 2023, doi 10.21437/Interspeech.2023-205).
"""

import math
from collections.abc import Mapping

import numpy as np

from ..base.arrays import RATE, Float32s
from .onnx_graph import Graph

LAYERS, HIDDEN = 4, 128
LOWEST, NARROWEST = 50.0, 50.0  # Hz, of the band-pass filters


def build(tensors: Mapping[str, Float32s]) -> bytes:
    """The ONNX model from the checkpoint's tensors."""
    graph = Graph("segmentation-3.0")

    def norm(x: str, name: str) -> str:
        scale, bias = (tensors[f"sincnet.{name}.{w}"] for w in ("weight", "bias"))
        return graph.op("InstanceNormalization", [x, scale, bias], epsilon=1e-5)

    def pooled(x: str, number: int) -> str:
        x = graph.op("MaxPool", [x], kernel_shape=[3], strides=[3])
        return graph.op("LeakyRelu", [norm(x, f"norm1d.{number}")], alpha=0.01)

    def linear(x: str, name: str) -> str:
        return graph.linear(x, tensors[f"{name}.weight"].T, tensors[f"{name}.bias"])

    x = norm("x", "wav_norm1d")
    x = graph.op("Conv", [x, band_passes(tensors)], strides=[10])
    x = pooled(graph.op("Abs", [x]), 0)
    for number in (1, 2):
        name = f"sincnet.conv1d.{number}"
        weights = [tensors[f"{name}.{w}"] for w in ("weight", "bias")]
        x = pooled(graph.op("Conv", [x, *weights]), number)
    x = graph.op("Transpose", [x], perm=[2, 0, 1])
    for layer in range(LAYERS):
        x = _lstm(graph, x, tensors, layer)
    x = graph.op("Transpose", [x], perm=[1, 0, 2])
    for name in ("linear.0", "linear.1"):
        x = graph.op("LeakyRelu", [linear(x, name)], alpha=0.01)
    x = graph.op("LogSoftmax", [linear(x, "classifier")], axis=-1)
    return graph.model([("x", ["N", 1, 160_000])], [(x, "y", ["N", 589, 7])])


def band_passes(tensors: Mapping[str, Float32s]) -> Float32s:
    """The 80 filters [80, 1, 251]: 40 band-passes, and the same shifted by a quarter of a period.

    In double precision throughout, so that rounding to float32 hides differences between maths
    libraries.
    """
    prefix = "sincnet.conv1d.0.filterbank"
    low = LOWEST + np.abs(tensors[f"{prefix}.low_hz_"].astype(np.float64))  # [40, 1]
    high = low + NARROWEST + np.abs(tensors[f"{prefix}.band_hz_"].astype(np.float64))
    high = np.clip(high, LOWEST, RATE / 2)
    times = tensors[f"{prefix}.n_"].astype(np.float64)  # [1, 125], 2 pi t of the left half
    window = tensors[f"{prefix}.window_"].astype(np.float64)
    sine, cosine = (np.vectorize(f, otypes=[np.float64]) for f in (math.sin, math.cos))
    even = (sine(high * times) - sine(low * times)) / (times / 2) * window
    odd = (cosine(low * times) - cosine(high * times)) / (times / 2) * window
    centre = 2 * (high - low)
    filters = np.concatenate(
        [
            np.concatenate([even, centre, even[:, ::-1]], axis=1),
            np.concatenate([odd, 0 * centre, -odd[:, ::-1]], axis=1),
        ]
    )
    scaled: Float32s = (filters / np.r_[centre, centre]).astype(np.float32)
    return scaled[:, None]


def _lstm(graph: Graph, x: str, tensors: Mapping[str, Float32s], layer: int) -> str:
    """One bidirectional layer, [T, N, in] to [T, N, 256]."""

    def both(name: str) -> list[Float32s]:
        """Both directions, from PyTorch's order of gates (i, f, g, o) to ONNX's (i, o, f, c)."""
        ways = (np.split(tensors[f"lstm.{name}_l{layer}{way}"], 4) for way in ("", "_reverse"))
        return [np.concatenate([i, o, f, g]) for i, f, g, o in ways]

    biases = zip(both("bias_ih"), both("bias_hh"), strict=True)
    y = graph.op(
        "LSTM",
        [
            x,
            np.stack(both("weight_ih")),
            np.stack(both("weight_hh")),
            np.stack([np.concatenate(pair) for pair in biases]),
        ],
        direction="bidirectional",
        hidden_size=HIDDEN,
    )
    y = graph.op("Transpose", [y], perm=[0, 2, 1, 3])  # [T, 2, N, 128] to [T, N, 2, 128]
    return graph.reshape(y, [0, 0, 2 * HIDDEN])
