"""Extract a part of an ONNX model, from one named tensor to another, as a model of its own, or
leave channels out of its weights.

An ONNX file is a protocol-buffer message, so this needs no library. The nodes between the two
tensors and the initialisers they read are copied byte for byte; input and output are declared as
float32 of any shape.

    ModelProto  7 graph      GraphProto  1 node, 5 initializer, 11 input, 12 output
    NodeProto   1 input, 2 output        TensorProto  1 dims, 2 data_type, 4 float_data, 8 name,
                                                      9 raw_data
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_MODEL_GRAPH = 7
_NODE, _INITIALIZER, _INPUT, _OUTPUT = 1, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _TENSOR_NAME = 1, 2, 8
_DIMS, _TYPE, _FLOATS, _RAW = 1, 2, 4, 9
_FLOAT32 = 1
_VALUE_INFO = 13  # shapes of inner tensors, dropped: they follow from the input
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def part(model: bytes, source: str, target: str) -> bytes:
    """The model that takes tensor `source` and gives tensor `target`."""
    out = bytearray()
    for number, _, whole, value in _fields(model):
        out += _tagged(number, _graph(value, source, target)) if number == _MODEL_GRAPH else whole
    return bytes(out)


def weights(model: bytes, name: str, shape: tuple[int, ...]) -> Floats:
    """The float32 initialiser of that name. KeyError when there is none."""
    for value in _values(_values(model, _MODEL_GRAPH)[0], _INITIALIZER):
        if _values(value, _TENSOR_NAME) == [name.encode()]:
            data = b"".join(_values(value, _RAW) or _values(value, _FLOATS))
            return np.frombuffer(data, "<f4").reshape(shape)
    raise KeyError(name)


def with_weights(model: bytes, new: Mapping[str, Floats]) -> bytes:
    """The same model with other values and shapes of some initialisers."""
    out = bytearray()
    for number, _, whole, value in _fields(model):
        if number != _MODEL_GRAPH:
            out += whole
            continue
        graph = bytearray()
        for inner, _, field, tensor in _fields(value):
            name = _values(tensor, _TENSOR_NAME)[0].decode() if inner == _INITIALIZER else ""
            graph += _tagged(_INITIALIZER, _tensor(name, new[name])) if name in new else field
        out += _tagged(_MODEL_GRAPH, bytes(graph))
    return bytes(out)


def _tensor(name: str, values: Floats) -> bytes:
    """TensorProto of float32 values."""
    dims = b"".join(_encoded(_DIMS << 3) + _encoded(size) for size in values.shape)
    kind = _encoded(_TYPE << 3) + _encoded(_FLOAT32)
    data = np.ascontiguousarray(values, "<f4").tobytes()
    return dims + kind + _tagged(_TENSOR_NAME, name.encode()) + _tagged(_RAW, data)


def _graph(graph: bytes, source: str, target: str) -> bytes:
    nodes = [value for number, _, _, value in _fields(graph) if number == _NODE]
    kept: set[int] = set()
    wanted = {target.encode()}
    for index in range(len(nodes) - 1, -1, -1):  # nodes are in order of execution
        if wanted & set(_values(nodes[index], _NODE_OUTPUT)):
            kept.add(index)
            wanted |= set(_values(nodes[index], _NODE_INPUT)) - {source.encode()}
    out = bytearray()
    index = 0
    for number, _, whole, value in _fields(graph):
        if number == _NODE:
            out += whole if index in kept else b""
            index += 1
        elif number == _INITIALIZER:
            out += whole if wanted & set(_values(value, _TENSOR_NAME)) else b""
        elif number not in (_INPUT, _OUTPUT, _VALUE_INFO):
            out += whole
    return bytes(out + _tagged(_INPUT, _declared(source)) + _tagged(_OUTPUT, _declared(target)))


def _declared(name: str) -> bytes:
    """ValueInfoProto of a float32 tensor: name, type {tensor_type {elem_type 1}}."""
    return _tagged(1, name.encode()) + _tagged(2, _tagged(1, b"\x08\x01"))


def _values(message: bytes, wanted: int) -> list[bytes]:
    return [value for number, _, _, value in _fields(message) if number == wanted]


def _fields(message: bytes) -> Iterator[tuple[int, int, bytes, bytes]]:
    """(number, wire type, field with its tag, its bytes) of each field, in order."""
    at = 0
    while at < len(message):
        begin = at
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        start = at
        if wire == _VARINT:
            _, at = _varint(message, at)
        elif wire == _BYTES:
            size, start = _varint(message, at)
            at = start + size
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire} at byte {begin}: this is not an ONNX model")
        yield number, wire, message[begin:at], message[start:at]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def _tagged(number: int, value: bytes) -> bytes:
    return _encoded(number << 3 | _BYTES) + _encoded(len(value)) + value


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
