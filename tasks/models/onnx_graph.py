"""Reads, cuts and writes ONNX models by the messages of onnx.proto that we need. README.md here
says why not with the package `onnx`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from numpy.typing import NDArray

from ..base.arrays import Float32s

#: A message; its class exists at run time only.
Message: TypeAlias = Any
Shape = Sequence[int | str]  # a word stands for a dynamic size
Attribute = int | float | str | Sequence[int]

OPSET, IR = 17, 8
FLOAT = 1  # TensorProto.DataType
_DATA_TYPES = {"float32": FLOAT, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
_INTEGERS = {2: "uint8", 3: "int8", 4: "uint16", 5: "int16"}  # of quantised tensors
#: Field of an attribute's value, and AttributeProto.AttributeType, by Python type.
_ATTRIBUTES: dict[type, tuple[str, int]] = {float: ("f", 1), int: ("i", 2), str: ("s", 3)}
_INTS = ("ints", 7)
#: Name, number and type of each field; `*`: repeated.
_MESSAGES = {
    "Model": "ir_version 1 int64, producer_name 2 string, graph 7 Graph, opset_import 8 *Opset",
    "Opset": "version 2 int64",
    "Graph": "node 1 *Node, name 2 string, initializer 5 *Tensor, input 11 *Value, "
    "output 12 *Value, value_info 13 *Value",
    "Node": "input 1 *string, output 2 *string, op_type 4 string, attribute 5 *Attribute",
    "Attribute": "name 1 string, f 2 float, i 3 int64, s 4 string, ints 8 *int64, type 20 int64",
    "Tensor": "dims 1 *int64, data_type 2 int64, float_data 4 *float, name 8 string, "
    "raw_data 9 bytes",
    "Value": "name 1 string, type 2 Type",
    "Type": "tensor_type 1 TensorType",
    "TensorType": "elem_type 1 int64, shape 2 Shape",
    "Shape": "dim 1 *Size",
    "Size": "value 1 int64, name 2 string",
}


def _model_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="onnx", package="onnx")
    types = descriptor_pb2.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        message_type = file.message_type.add(name=name)
        for title, number, kind in (text.split() for text in fields.split(", ")):
            field = message_type.field.add(name=title, number=int(number))
            field.label = types.LABEL_OPTIONAL
            if kind.startswith("*"):
                field.label, field.options.packed = types.LABEL_REPEATED, kind == "*float"
            if (plain := kind.removeprefix("*")) in _MESSAGES:
                field.type_name = f".onnx.{plain}"
            else:
                field.type = getattr(types, f"TYPE_{plain.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("onnx.Model"))


_Model = _model_class()


def nodes(model: bytes) -> list[Message]:
    """The nodes in order. ValueError if the bytes are not a model."""
    return list(_parsed(model).graph.node)


def constants(model: bytes) -> dict[str, Float32s]:
    """The float32 constants by name. ValueError if the bytes are not a model."""
    tensors = _parsed(model).graph.initializer
    return {tensor.name: _values(tensor) for tensor in tensors if tensor.data_type == FLOAT}


class Steps(NamedTuple):
    """A quantisation: the integer n stands for `scale * (n - zero)`; `kind` is numpy's type."""

    scale: float
    zero: int
    kind: str

    def integers(self, values: Float32s) -> NDArray[np.generic]:
        limits = np.iinfo(self.kind)
        rounded = np.rint(values / self.scale) + self.zero
        clipped: NDArray[np.generic] = np.clip(rounded, limits.min, limits.max).astype(self.kind)
        return clipped


def steps(model: bytes, tensor: str) -> Steps | None:
    """The quantisation of an input or output, from the node that converts it; None if none does, or
    its parameters are not constants."""
    graph = _parsed(model).graph
    constant = {value.name: value for value in graph.initializer}
    for node in graph.node:
        end = {"DequantizeLinear": node.input, "QuantizeLinear": node.output}.get(node.op_type, ())
        if tensor in end[:1] and len(node.input) == 3 and {*node.input[1:]} <= constant.keys():
            scale, zero = (constant[name] for name in node.input[1:])
            if zero.data_type in _INTEGERS and zero.raw_data:
                kind = _INTEGERS[zero.data_type]
                [number] = np.frombuffer(zero.raw_data, np.dtype(kind).newbyteorder("<"))
                return Steps(float(_values(scale).reshape(-1)[0]), int(number), kind)
    return None


def _parsed(data: bytes) -> Message:
    try:
        model = _Model.FromString(data)
    except message.DecodeError as error:
        raise ValueError(f"this is not an ONNX model: {error}") from None
    if not model.HasField("graph"):
        raise ValueError("it has no graph: this is not an ONNX model")
    return model


def _values(tensor: Message) -> Float32s:
    flat = np.frombuffer(tensor.raw_data, "<f4") if tensor.raw_data else tensor.float_data
    return np.asarray(flat, np.float32).reshape(tensor.dims)


def part(model: bytes, source: str, target: str) -> bytes:
    """The model from tensor `source` to tensor `target`: the nodes between the two and their
    initialisers; input and output are float32 of any shape."""
    whole = _parsed(model)
    graph, wanted = whole.graph, {target}
    chosen: list[Message] = []
    for node in reversed(graph.node):  # in order of execution
        if wanted & {*node.output}:
            chosen.insert(0, node)
            wanted |= {*node.input} - {source}
    weights = [tensor for tensor in graph.initializer if tensor.name in wanted]
    # The shapes of inner tensors follow from the input.
    for field in ("node", "initializer", "input", "output", "value_info"):
        graph.ClearField(field)
    graph.node.extend(chosen)
    graph.initializer.extend(weights)
    _declare(graph.input.add(), source, None)
    _declare(graph.output.add(), target, None)
    data: bytes = whole.SerializeToString()
    return data


def with_weights(model: bytes, new: Mapping[str, Float32s]) -> bytes:
    """The same model with new values and shapes of some initialisers."""
    whole = _parsed(model)
    for tensor in whole.graph.initializer:
        if tensor.name in new:
            _fill(tensor, tensor.name, new[tensor.name])
    data: bytes = whole.SerializeToString()
    return data


class Graph:
    """A graph under construction. Equal graphs give equal bytes on every machine, so that a
    converted model has one hash."""

    def __init__(self, name: str) -> None:
        self._model = _Model(ir_version=IR, producer_name="uttermill")
        self._model.opset_import.add(version=OPSET)
        self._graph = self._model.graph
        self._graph.name = name
        self._count = 0

    def op(self, kind: str, inputs: Sequence[object], **attributes: Attribute) -> str:
        """Add a node with one output; returns the output's name. `inputs`: names of tensors, and
        constants: whole numbers become int64, others float32."""
        return self.several(1, kind, inputs, **attributes)[0]

    def several(
        self, count: int, kind: str, inputs: Sequence[object], **attributes: Attribute
    ) -> list[str]:
        """Like `op`, with `count` outputs. The name of an omitted input is empty."""
        names = [given if isinstance(given, str) else self._plain(given) for given in inputs]
        outputs = [f"t{self._count + 1 + number}" for number in range(count)]
        self._count += count
        node = self._graph.node.add(input=names, output=outputs, op_type=kind)
        for name, value in sorted(attributes.items()):
            field, number = _ATTRIBUTES.get(type(value), _INTS)
            node.attribute.add(name=name, type=number, **{field: value})
        return outputs

    def slice(self, x: str, axis: int, first: int, last: int) -> str:
        """Indices `first` to `last`, exclusive, of an axis."""
        return self.op("Slice", [x, [first], [last], [axis]])

    def relu(self, x: str) -> str:
        return self.op("Relu", [x])

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        return self.op("Reshape", [x, shape])

    def linear(self, x: str, weight: object, bias: object = None) -> str:
        """`x` times a matrix [in, out], plus a bias [out] if there is one."""
        x = self.op("MatMul", [x, weight])
        return x if bias is None else self.op("Add", [x, bias])

    def _plain(self, values: object) -> str:
        array = np.asarray(values)
        return self.constant(array.astype(np.float32 if array.dtype.kind == "f" else np.int64))

    def constant(self, values: NDArray[np.generic] | np.generic) -> str:
        """A constant of the values' own type, one of `_DATA_TYPES`."""
        self._count += 1
        name = f"c{self._count}"
        _fill(self._graph.initializer.add(), name, values)
        return name

    def model(
        self, given: Sequence[tuple[str, Shape]], results: Sequence[tuple[str, str, Shape]]
    ) -> bytes:
        """The model with these inputs (name, shape) and outputs (tensor, name, shape)."""
        for name, shape in given:
            _declare(self._graph.input.add(), name, shape)
        for tensor, name, shape in results:
            self._graph.node.add(input=[tensor], output=[name], op_type="Identity")
            _declare(self._graph.output.add(), name, shape)
        data: bytes = self._model.SerializeToString(deterministic=True)
        return data


def _fill(tensor: Message, name: str, values: NDArray[np.generic] | np.generic) -> None:
    """Set a tensor's name and values, which have one of `_DATA_TYPES`."""
    tensor.Clear()
    tensor.name, tensor.data_type = name, _DATA_TYPES[values.dtype.name]
    tensor.dims.extend(values.shape)
    tensor.raw_data = values.astype(values.dtype.newbyteorder("<")).tobytes()


def _declare(value: Message, name: str, shape: Shape | None) -> None:
    """Declare a value as a float32 tensor of this shape; None: any."""
    value.name, value.type.tensor_type.elem_type = name, FLOAT
    for size in shape or ():
        where = {"value": size} if isinstance(size, int) else {"name": size}
        value.type.tensor_type.shape.dim.add(**where)
