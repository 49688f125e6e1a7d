"""Writes ONNX models: a graph of float32 tensors as the bytes of a protocol-buffer message.

Equal graphs give equal bytes on every machine, so that a converted model has one hash.

    ModelProto   1 ir_version, 2 producer_name, 7 graph, 8 opset_import {2 version}
    GraphProto   1 node, 2 name, 5 initializer, 11 input, 12 output
    NodeProto    1 input, 2 output, 4 op_type, 5 attribute
    Attribute    1 name, 2 f, 3 i, 4 s, 8 ints, 20 type
    TensorProto  1 dims, 2 data_type, 8 name, 9 raw_data
    ValueInfo    1 name, 2 type {1 tensor_type {1 elem_type, 2 shape {1 dim {1 value, 2 name}}}}
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.weights.protobuf import integer, tagged, varint

OPSET, IR = 17, 8
_FLOAT = 1  # TensorProto.DataType
_KINDS = {"float32": _FLOAT, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
_A_FLOAT, _A_INT, _A_STRING, _A_INTS = 1, 2, 3, 7  # AttributeProto.AttributeType

Attribute = int | float | str | Sequence[int]
Shape = Sequence[int | str]  # a size given as a word is dynamic


class Graph:
    """A graph under construction; tensors are numbered in the order of their creation."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[bytes] = []
        self._tensors: list[bytes] = []
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
        node = b"".join(tagged(1, name.encode()) for name in inputs)
        node += b"".join(tagged(2, name.encode()) for name in outputs)
        node += tagged(4, kind.encode())
        node += b"".join(tagged(5, _attribute(*each)) for each in sorted(attributes.items()))
        self._nodes.append(node)
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
        """A constant of the values' own type, one of `_KINDS`."""
        self._count += 1
        name = f"c{self._count}"
        self._tensors.append(tensor(name, values))
        return name

    def model(
        self, given: Sequence[tuple[str, Shape]], results: Sequence[tuple[str, str, Shape]]
    ) -> bytes:
        """The model with these inputs (name, shape) and outputs (tensor, name, shape)."""
        graph = b"".join(tagged(1, node) for node in self._nodes)
        for tensor, name, _ in results:
            named = tagged(1, tensor.encode()) + tagged(2, name.encode())
            graph += tagged(1, named + tagged(4, b"Identity"))
        graph += tagged(2, self._name.encode())
        graph += b"".join(tagged(5, each) for each in self._tensors)
        graph += b"".join(tagged(11, _value(*each)) for each in given)
        graph += b"".join(tagged(12, _value(name, shape)) for _, name, shape in results)
        head = integer(1, IR) + tagged(2, b"uttermill") + tagged(7, graph)
        return head + tagged(8, integer(2, OPSET))


def tensor(name: str, values: NDArray[np.generic] | np.generic) -> bytes:
    """TensorProto of values of one of `_KINDS`."""
    dims = b"".join(integer(1, size) for size in values.shape)
    raw = values.astype(values.dtype.newbyteorder("<")).tobytes()
    kind = _KINDS[values.dtype.name]
    return dims + integer(2, kind) + tagged(8, name.encode()) + tagged(9, raw)


def _value(name: str, shape: Shape) -> bytes:
    dims = b"".join(
        tagged(1, integer(1, size) if isinstance(size, int) else tagged(2, size.encode()))
        for size in shape
    )
    return tagged(1, name.encode()) + tagged(2, tagged(1, integer(1, _FLOAT) + tagged(2, dims)))


def _attribute(name: str, value: Attribute) -> bytes:
    head = tagged(1, name.encode())
    if isinstance(value, float):
        return head + varint(2 << 3 | 5) + struct.pack("<f", value) + integer(20, _A_FLOAT)
    if isinstance(value, int):
        return head + integer(3, value) + integer(20, _A_INT)
    if isinstance(value, str):
        return head + tagged(4, value.encode()) + integer(20, _A_STRING)
    return head + b"".join(integer(8, each) for each in value) + integer(20, _A_INTS)
