"""The weights of GTCRN's published graph, taken from its nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tasks.base.arrays import Float64s
from tasks.models import onnx_reader

EPSILON = 1e-5  # of batch normalisation


class Layers:
    """Hands out the weights of each kind of layer, in the order in which the graph uses them."""

    def __init__(self, model: onnx_reader.Model) -> None:
        self._constants = model.constants
        self._nodes = {
            kind: iter(model.of_kind(kind))
            for kind in ("Conv", "ConvTranspose", "PRelu", "GRU", "MatMul")
        }
        self._norms = {node.input[0]: node for node in model.of_kind("BatchNormalization")}
        self._added = {name: node for node in model.of_kind("Add") for name in node.input}
        names = [f"dpgrnn{n}.{way}_ln" for n in (1, 2) for way in ("intra", "inter")]
        self.norms: Iterator[str] = iter(names)

    def array(self, name: str) -> Float64s:
        return self._constants[name].astype(np.float64)

    def convolution(self) -> tuple[Float64s, Float64s]:
        """Weights [out, in, h, w] and biases."""
        _, weight, bias = next(self._nodes["Conv"]).input
        return self.array(weight), self.array(bias)

    def transposed(self, groups: int = 1) -> tuple[Float64s, Float64s]:
        """Weights [in, out / groups, h, w] and biases of a transposed convolution, with the batch
        normalisation behind it."""
        node = next(self._nodes["ConvTranspose"])
        weight, bias = (self.array(name) for name in node.input[1:])
        norm = self._norms[node.output[0]].input[1:]
        scale, offset, mean, var = (self.array(name) for name in norm)
        factor = scale / np.sqrt(var + EPSILON)
        inputs, outputs = weight.shape[:2]
        per_group = weight.reshape(groups, inputs // groups, outputs, *weight.shape[2:])
        per_group = per_group * factor.reshape(groups, 1, outputs, 1, 1)
        return per_group.reshape(weight.shape), (bias - mean) * factor + offset

    def slope(self) -> Float64s:
        return self.array(next(self._nodes["PRelu"]).input[1])

    def gates(self) -> tuple[Float64s, Float64s, Float64s]:
        """Weights of the input and of the state, and biases, of a recurrent layer."""
        weight, state, bias = next(self._nodes["GRU"]).input[1:4]
        return self.array(weight), self.array(state), self.array(bias)

    def matrix(self) -> tuple[Float64s, str]:
        node = next(self._nodes["MatMul"])
        return self.array(node.input[1]), node.output[0]

    def linear(self) -> tuple[Float64s, Float64s]:
        """A matrix product and a bias."""
        weight, output = self.matrix()
        [bias] = [name for name in self._added[output].input if name != output]
        return weight, self.array(bias)
