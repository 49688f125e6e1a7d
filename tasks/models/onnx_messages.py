"""The messages of an ONNX model (onnx.proto), as far as they are used here; other fields stay as
they are. The package `onnx` would bring 18 MB for the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
from numpy.typing import NDArray

#: A message, whose class exists at run time only.
Message: TypeAlias = Any
Shape = Sequence[int | str]  # a size given as a word is dynamic

FLOAT = 1  # TensorProto.DataType
_KINDS = {"float32": FLOAT, "uint8": 2, "int8": 3, "int32": 6, "int64": 7}
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


def _class_of_models() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="onnx", package="onnx")
    field = descriptor_pb2.FieldDescriptorProto
    for name, fields in _MESSAGES.items():
        made = file.message_type.add(name=name)
        for title, number, kind in (each.split() for each in fields.split(", ")):
            own = made.field.add(name=title, number=int(number), label=field.LABEL_OPTIONAL)
            if kind.startswith("*"):
                own.label, own.options.packed = field.LABEL_REPEATED, kind == "*float"
            if (plain := kind.removeprefix("*")) in _MESSAGES:
                own.type_name = f".onnx.{plain}"
            else:
                own.type = getattr(field, f"TYPE_{plain.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("onnx.Model"))


Model = _class_of_models()


def parsed(data: bytes) -> Message:
    """The model; ValueError if the bytes are not one."""
    try:
        found = Model.FromString(data)
    except message.DecodeError as error:
        raise ValueError(f"this is not an ONNX model: {error}") from None
    if not found.HasField("graph"):
        raise ValueError("it has no graph: this is not an ONNX model")
    return found


def fill(tensor: Message, name: str, values: NDArray[np.generic] | np.generic) -> None:
    """Give a tensor values of one of the types in `_KINDS`."""
    tensor.Clear()
    tensor.name, tensor.data_type = name, _KINDS[values.dtype.name]
    tensor.dims.extend(values.shape)
    tensor.raw_data = values.astype(values.dtype.newbyteorder("<")).tobytes()


def declare(value: Message, name: str, shape: Shape | None) -> None:
    """Make a value a float32 tensor of this shape; None: any."""
    value.name, value.type.tensor_type.elem_type = name, FLOAT
    for size in shape or ():
        where = {"value": size} if isinstance(size, int) else {"name": size}
        value.type.tensor_type.shape.dim.add(**where)
