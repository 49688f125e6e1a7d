"""Writes ONNX models: a graph of float32 tensors.

Equal graphs give equal bytes on every machine, so that a converted model has one hash.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.models import onnx_messages
from tasks.models.onnx_messages import Shape

OPSET, IR = 17, 8
#: Field of an attribute's value, and AttributeProto.AttributeType, by the value's own type.
_ATTRIBUTES: dict[type, tuple[str, int]] = {float: ("f", 1), int: ("i", 2), str: ("s", 3)}
_A_INTS = 7

Attribute = int | float | str | Sequence[int]


class Graph:
    """A graph under construction; tensors are numbered in the order of their creation."""

    def __init__(self, name: str) -> None:
        self._model = onnx_messages.Model(ir_version=IR, producer_name="uttermill")
        self._model.opset_import.add(version=OPSET)
        self._graph = self._model.graph
        self._graph.name = name
        self._count = 0

    def op(self, kind: str, inputs: Sequence[str], **attributes: Attribute) -> str:
        """Add a node with one output; the output's name."""
        return self.several(1, kind, inputs, **attributes)[0]

    def several(
        self, count: int, kind: str, inputs: Sequence[str], **attributes: Attribute
    ) -> list[str]:
        """Like `op`, with `count` outputs. The name of an omitted input is empty."""
        outputs = [f"t{self._count + 1 + number}" for number in range(count)]
        self._count += count
        node = self._graph.node.add(input=inputs, output=outputs, op_type=kind)
        for name, value in sorted(attributes.items()):
            field, type_ = _ATTRIBUTES.get(type(value), ("ints", _A_INTS))
            node.attribute.add(name=name, type=type_, **{field: value})
        return outputs

    def slice(self, x: str, axis: int, first: int, last: int) -> str:
        """Indices `first` to `last`, exclusive, of an axis."""
        return self.op("Slice", [x, self.ints([first]), self.ints([last]), self.ints([axis])])

    def floats(self, values: object) -> str:
        """A constant of float32."""
        return self.constant(np.asarray(values, np.float32))

    def ints(self, values: object) -> str:
        """A constant of int64."""
        return self.constant(np.asarray(values, np.int64))

    def constant(self, values: NDArray[np.generic] | np.generic) -> str:
        """A constant of the values' own type, one that `onnx_messages.fill` takes."""
        self._count += 1
        name = f"c{self._count}"
        onnx_messages.fill(self._graph.initializer.add(), name, values)
        return name

    def model(
        self, given: Sequence[tuple[str, Shape]], results: Sequence[tuple[str, str, Shape]]
    ) -> bytes:
        """The model with these inputs (name, shape) and outputs (tensor, name, shape)."""
        for name, shape in given:
            onnx_messages.declare(self._graph.input.add(), name, shape)
        for tensor, name, shape in results:
            self._graph.node.add(input=[tensor], output=[name], op_type="Identity")
            onnx_messages.declare(self._graph.output.add(), name, shape)
        data: bytes = self._model.SerializeToString(deterministic=True)
        return data
