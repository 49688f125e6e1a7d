"""Extract a part of an ONNX model, from one named tensor to another, as a model of its own, or
leave channels out of its weights.

An ONNX file is a protocol-buffer message, so this needs no library. The nodes between the two
tensors and the initialisers they read are copied byte for byte; input and output are declared as
float32 of any shape.

    ModelProto  7 graph      GraphProto  1 node, 5 initializer, 11 input, 12 output
    NodeProto   1 input, 2 output        TensorProto  8 name
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tasks.arrays import Float32s
from tasks.weights.onnx_writer import tensor
from tasks.weights.protobuf import fields, tagged, values

_MODEL_GRAPH = 7
_NODE, _INITIALIZER, _INPUT, _OUTPUT = 1, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _TENSOR_NAME = 1, 2, 8
_VALUE_INFO = 13  # shapes of inner tensors, dropped: they follow from the input


def part(model: bytes, source: str, target: str) -> bytes:
    """The model that takes tensor `source` and gives tensor `target`."""
    return _with_graph(model, lambda graph: _between(graph, source, target))


def _with_graph(model: bytes, changed: Callable[[bytes], bytes]) -> bytes:
    """The same model with its graph changed."""
    out = bytearray()
    for number, value, whole in fields(model):
        out += tagged(number, changed(value)) if number == _MODEL_GRAPH else whole
    return bytes(out)


def with_weights(model: bytes, new: Mapping[str, Float32s]) -> bytes:
    """The same model with other values and shapes of some initialisers."""

    def changed(graph: bytes) -> bytes:
        out = bytearray()
        for number, held, whole in fields(graph):
            name = values(held, _TENSOR_NAME)[0].decode() if number == _INITIALIZER else ""
            out += tagged(number, tensor(name, new[name])) if name in new else whole
        return bytes(out)

    return _with_graph(model, changed)


def _between(graph: bytes, source: str, target: str) -> bytes:
    nodes = values(graph, _NODE)
    kept: set[int] = set()
    wanted = {target.encode()}
    for index in range(len(nodes) - 1, -1, -1):  # nodes are in order of execution
        if wanted & set(values(nodes[index], _NODE_OUTPUT)):
            kept.add(index)
            wanted |= set(values(nodes[index], _NODE_INPUT)) - {source.encode()}
    out = bytearray()
    index = 0
    for number, value, whole in fields(graph):
        if number == _NODE:
            out += whole if index in kept else b""
            index += 1
        elif number == _INITIALIZER:
            out += whole if wanted & set(values(value, _TENSOR_NAME)) else b""
        elif number not in (_INPUT, _OUTPUT, _VALUE_INFO):
            out += whole
    return bytes(out + tagged(_INPUT, _declared(source)) + tagged(_OUTPUT, _declared(target)))


def _declared(name: str) -> bytes:
    """ValueInfoProto of a float32 tensor: name, type {tensor_type {elem_type 1}}."""
    return tagged(1, name.encode()) + tagged(2, tagged(1, b"\x08\x01"))
