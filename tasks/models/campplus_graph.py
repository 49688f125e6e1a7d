"""CAM++ (zh-en) as an ONNX graph: `x [N, T, 80] -> y [N, 192]`, an embedding of the speaker.

Wang et al. 2023, arXiv 2303.00332: a convolutional front end over frequency, then densely connected
time-delay layers whose output is masked by a context. Input: 80 log mel energies per 10 ms, minus
their mean. No ReLU at the end.
"""

from collections.abc import Mapping

import numpy as np

from ..base.arrays import Float32s
from .onnx_graph import Graph

BLOCKS = ((12, 1), (24, 2), (16, 2))  # layers and dilation of each block
GROWTH = 32
SEGMENT = 100  # frames that share a context
EPSILON = 1e-5  # of batch normalisation


def build(tensors: Mapping[str, Float32s]) -> bytes:
    """The ONNX model from the checkpoint's tensors."""
    net = _Net(Graph("campplus"), tensors)
    graph = net.graph
    x = graph.op("Unsqueeze", [graph.op("Transpose", ["x"], perm=[0, 2, 1]), [1]])
    x = graph.relu(net.conv(x, "head.conv1", "head.bn1", pads=[1, 1, 1, 1]))
    for name in ("head.layer1", "head.layer2"):
        x = net.residual(x, f"{name}.0", 2)
        x = net.residual(x, f"{name}.1", 1)
    x = graph.relu(net.conv(x, "head.conv2", "head.bn2", pads=[1, 1, 1, 1], strides=[2, 1]))
    x = graph.reshape(x, [0, 320, -1])
    name = "xvector.tdnn"
    x = net.conv(x, f"{name}.linear", f"{name}.nonlinear.batchnorm", pads=[2, 2], strides=[2])
    x = graph.relu(x)
    frames = graph.op("Slice", [graph.op("Shape", [x]), [2], [3]])
    for number, (layers, dilation) in enumerate(BLOCKS, 1):
        for layer in range(1, layers + 1):
            more = net.dense(x, f"xvector.block{number}.tdnnd{layer}", dilation, frames)
            x = graph.op("Concat", [x, more], axis=1)
        name = f"xvector.transit{number}"
        x = net.conv(graph.relu(net.norm(x, f"{name}.nonlinear.batchnorm")), f"{name}.linear")
    x = graph.relu(net.norm(x, "xvector.out_nonlinear.batchnorm"))
    # Mean and unbiased standard deviation over time, [N, C, T] to [N, 2 C].
    mean = graph.op("ReduceMean", [x], axes=[2], keepdims=1)
    off = graph.op("Sub", [x, mean])
    squares = graph.op("ReduceSum", [graph.op("Mul", [off, off]), [2]], keepdims=0)
    count = graph.op("Sub", [graph.op("Cast", [frames], to=1), [1.0]])
    deviation = graph.op("Sqrt", [graph.op("Div", [squares, count])])
    flat = graph.op("Squeeze", [mean, [2]])
    stats = graph.op("Concat", [flat, deviation], axis=1)
    stats = graph.op("Unsqueeze", [stats, [2]])
    name = "xvector.dense"
    y = net.conv(stats, f"{name}.linear", f"{name}.nonlinear.batchnorm")
    y = graph.op("Squeeze", [y, [2]])
    return graph.model([("x", ["N", "T", 80])], [(y, "y", ["N", 192])])


class _Net:
    """Adds layers, by the names of their tensors."""

    def __init__(self, graph: Graph, tensors: Mapping[str, Float32s]) -> None:
        self.graph, self.tensors = graph, tensors

    def scale(self, name: str) -> tuple[Float32s, Float32s]:
        """Factor and offset of a batch normalisation, [C] each."""
        mean, var = (self.tensors[f"{name}.running_{w}"] for w in ("mean", "var"))
        factor = self.tensors.get(f"{name}.weight", np.ones_like(var)) / np.sqrt(var + EPSILON)
        offset = self.tensors.get(f"{name}.bias", np.zeros_like(mean)) - mean * factor
        return factor.astype(np.float32), offset.astype(np.float32)

    def norm(self, x: str, name: str) -> str:
        """Batch normalisation of [N, C, T]."""
        factor, offset = (self.graph.constant(v[:, None]) for v in self.scale(name))
        return self.graph.op("Add", [self.graph.op("Mul", [x, factor]), offset])

    def conv(self, x: str, name: str, norm: str | None = None, **how: list[int]) -> str:
        """A convolution, with the following batch normalisation folded in."""
        weight = self.tensors[f"{name}.weight"]
        bias = self.tensors.get(f"{name}.bias")
        if norm is not None:
            factor, bias = self.scale(norm)
            weight = weight * factor.reshape(-1, *[1] * (weight.ndim - 1))
        constants = [weight] if bias is None else [weight, bias]
        return self.graph.op("Conv", [x, *constants], **how)

    def residual(self, x: str, name: str, stride: int) -> str:
        """Two 3 x 3 convolutions beside a shortcut."""
        around = {"pads": [1, 1, 1, 1]}
        y = self.conv(x, f"{name}.conv1", f"{name}.bn1", strides=[stride, 1], **around)
        y = self.conv(self.graph.relu(y), f"{name}.conv2", f"{name}.bn2", **around)
        if stride != 1:
            x = self.conv(x, f"{name}.shortcut.0", f"{name}.shortcut.1", strides=[stride, 1])
        return self.graph.relu(self.graph.op("Add", [y, x]))

    def dense(self, x: str, name: str, dilation: int, frames: str) -> str:
        """A densely connected layer, [N, C, T] to [N, 32, T]: the channels to append to its
        input."""
        x = self.narrowed(x, name)
        name += ".cam_layer"
        y = self.conv(x, f"{name}.linear_local", pads=[dilation] * 2, dilations=[dilation])
        mask = self.graph.relu(self.conv(self.context(x), f"{name}.linear1"))
        mask = self.graph.op("Sigmoid", [self.conv(mask, f"{name}.linear2")])
        return self.graph.op("Mul", [y, self.spread(mask, frames)])

    def narrowed(self, x: str, name: str) -> str:
        """Normalisation, ReLU, and a layer to 128 channels with its own normalisation and ReLU.

        With a factor f > 0 and an offset o, relu(f x + o) = f max(x, -o / f) + o. So one Max reads
        the output of all earlier layers, and the rest goes into the layer's weights.
        """
        inner, outer = f"{name}.nonlinear1.batchnorm", f"{name}.nonlinear2.batchnorm"
        factor, offset = (v.astype(np.float64) for v in self.scale(inner))
        if not (factor > 0).all():
            x = self.graph.relu(self.norm(x, inner))
            return self.graph.relu(self.conv(x, f"{name}.linear1", outer))
        after, bias = (v.astype(np.float64) for v in self.scale(outer))
        weight = after[:, None] * self.tensors[f"{name}.linear1.weight"][:, :, 0]
        x = self.graph.op("Max", [x, (-offset / factor)[:, None]])
        constants = [(weight * factor)[:, :, None], bias + weight @ offset]
        return self.graph.relu(self.graph.op("Conv", [x, *constants]))

    def context(self, x: str) -> str:
        """Mean over time plus the mean of each 100 frames (the last group may be shorter); [N, C,
        T] to [N, C, S]."""
        whole = self.graph.op("ReduceMean", [x], axes=[2], keepdims=1)
        size = [SEGMENT]
        parts = self.graph.op("AveragePool", [x], kernel_shape=size, strides=size, ceil_mode=1)
        return self.graph.op("Add", [whole, parts])

    def spread(self, parts: str, frames: str) -> str:
        """Each value of [N, 32, S] repeated for 100 frames; [N, 32, T]."""
        graph = self.graph
        parts = graph.op("Unsqueeze", [parts, [3]])
        parts = graph.op("Tile", [parts, [1, 1, 1, SEGMENT]])
        parts = graph.reshape(parts, [0, GROWTH, -1])
        return graph.op("Slice", [parts, [0], frames, [2]])
