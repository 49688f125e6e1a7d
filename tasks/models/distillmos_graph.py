"""DistillMOS as an ONNX graph: `x [N, 2, 161, 768] -> y [N]`, opinion scores from 1 to 5.

Stahl and Gamper 2025, arXiv 2502.05356: convolutions over the compressed spectrum of 7.68 s, seven
transformer layers, and a weighted mean over time with weights from the model. Batch normalisation
is folded into the following layer.
"""

import math
from collections.abc import Mapping

import numpy as np

from ..base.arrays import Float32s, Float64s
from .onnx_graph import Graph

BINS, FRAMES = 161, 768
CONVOLUTIONS = 6  # strides: 2 bands from the second on, and 2 frames in the last
LAYERS, HEADS, WIDTH = 7, 8, 200
EPSILON = 1e-5

Affine = tuple[Float64s, Float64s]


def build(tensors: Mapping[str, Float32s]) -> bytes:
    """The ONNX model from the checkpoint's tensors."""
    net = _Net(Graph("distillmos"), tensors)
    graph, x = net.graph, "x"
    for number in range(CONVOLUTIONS):
        strides = [1 if number == 0 else 2, 2 if number == CONVOLUTIONS - 1 else 1]
        weights = [tensors[f"cnn.cnn.{2 * number}.{w}"] for w in ("weight", "bias")]
        x = graph.op("Conv", [x, *weights], strides=strides, pads=[0, 1, 0, 1])
        x = graph.op("LeakyRelu", [x], alpha=0.1)
    # Channels and bands as features, [N, FRAMES / 2, features].
    x = graph.reshape(x, [0, -1, FRAMES // 2])
    x = graph.op("Transpose", [x], perm=[0, 2, 1])
    outer, inner = net.norm("norm_input"), net.norm("transformer.norm")
    normed = outer[0] * inner[0], outer[1] * inner[0] + inner[1]
    x = net.linear(x, net.behind(normed, "transformer.linear_proj"))
    x = graph.op("Add", [x, net.tensor("transformer.position_encoding.pe")])
    for number in range(LAYERS):
        x = net.layer(x, f"transformer.transformer_encoder.layers.{number}")
    normed = net.norm("norm_trans")
    weight = graph.relu(net.linear(x, net.behind(normed, "pool.linear1")))
    weight = graph.op("Softmax", [net.linear(weight, net.affine("pool.linear2"))], axis=1)
    x = graph.op("Mul", [weight, net.linear(x, net.behind(normed, "pool.linear3"))])
    x = graph.op("Sigmoid", [graph.op("ReduceSum", [x, [1, 2]], keepdims=0)])
    x = graph.op("Add", [graph.op("Mul", [x, 4.0]), 1.0])
    return graph.model([("x", ["N", 2, BINS, FRAMES])], [(x, "y", ["N"])])


class _Net:
    """Adds layers, by the names of their tensors; activations are [N, frames, features]."""

    def __init__(self, graph: Graph, tensors: Mapping[str, Float32s]) -> None:
        self.graph, self._tensors = graph, tensors

    def tensor(self, name: str) -> Float64s:
        return self._tensors[f"transformer_pool_attn.{name}"].astype(np.float64)

    def norm(self, name: str) -> Affine:
        """Factor and offset of a batch normalisation, [features] each."""
        factor = self.tensor(f"{name}.weight")
        factor = factor / np.sqrt(self.tensor(f"{name}.running_var") + EPSILON)
        return factor, self.tensor(f"{name}.bias") - self.tensor(f"{name}.running_mean") * factor

    def affine(self, name: str) -> Affine:
        """Weights [out, in] and biases of a linear layer."""
        return self.tensor(f"{name}.weight"), self.tensor(f"{name}.bias")

    def behind(self, norm: Affine, name: str) -> Affine:
        """A linear layer with the preceding normalisation folded in."""
        weight, bias = self.affine(name)
        return weight * norm[0], bias + weight @ norm[1]

    def linear(self, x: str, layer: Affine) -> str:
        return self.graph.linear(x, layer[0].T, layer[1])

    def layer(self, x: str, name: str) -> str:
        """A transformer layer with normalisation after each of its two sums."""
        x = self.normed_sum(x, self.attention(x, f"{name}.self_attn"), f"{name}.norm1")
        wide = self.graph.relu(self.linear(x, self.affine(f"{name}.linear1")))
        narrow = self.linear(wide, self.affine(f"{name}.linear2"))
        return self.normed_sum(x, narrow, f"{name}.norm2")

    def normed_sum(self, x: str, y: str, name: str) -> str:
        tensors = (self.tensor(f"{name}.{w}") for w in ("weight", "bias"))
        constants = [self.graph.constant(values.astype(np.float32)) for values in tensors]
        total = self.graph.op("Add", [x, y])
        return self.graph.op("LayerNormalization", [total, *constants], axis=-1, epsilon=EPSILON)

    def attention(self, x: str, name: str) -> str:
        graph, depth = self.graph, WIDTH // HEADS
        weights = np.split(self.tensor(f"{name}.in_proj_weight"), 3)
        biases = np.split(self.tensor(f"{name}.in_proj_bias"), 3)
        weights[0], biases[0] = (part / math.sqrt(depth) for part in (weights[0], biases[0]))

        def by_head(number: int, perm: list[int]) -> str:
            flat = self.linear(x, (weights[number], biases[number]))
            heads = graph.reshape(flat, [0, 0, HEADS, depth])
            return graph.op("Transpose", [heads], perm=perm)

        query, key, value = (
            by_head(number, perm)
            for number, perm in enumerate(([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        )
        share = graph.op("Softmax", [graph.op("MatMul", [query, key])], axis=-1)
        y = graph.op("Transpose", [graph.op("MatMul", [share, value])], perm=[0, 2, 1, 3])
        y = graph.reshape(y, [0, 0, WIDTH])
        return self.linear(y, self.affine(f"{name}.out_proj"))
