"""Reads ONNX models: the nodes of a graph and its float32 constants, from the protocol-buffer
message that `onnx_writer.py` describes. Nothing is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tasks.arrays import Float32s
from tasks.weights.protobuf import fields, values, varints

_GRAPH, _NODE, _CONSTANT = 7, 1, 5  # of ModelProto, and of GraphProto
_FLOAT = 1  # TensorProto.DataType


@dataclass(frozen=True, slots=True)
class Node:
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """The nodes in order, and constants by name."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, Float32s]

    def of_kind(self, kind: str) -> list[Node]:
        return [node for node in self.nodes if node.kind == kind]


def read(data: bytes) -> Model:
    """Parse a model. ValueError if the bytes are not one."""
    graph = next(iter(values(data, _GRAPH)), None)
    if graph is None:
        raise ValueError("it has no graph: this is not an ONNX model")
    nodes, constants = [], {}
    for number, value, _ in fields(graph):
        if number == _NODE:
            nodes.append(_node(value))
        elif number == _CONSTANT and (found := _constant(value)) is not None:
            constants[found[0]] = found[1]
    return Model(tuple(nodes), constants)


def _node(data: bytes) -> Node:
    parts: dict[int, list[str]] = {1: [], 2: [], 4: []}
    for number, value, _ in fields(data):
        if number in parts:
            parts[number].append(value.decode())
    return Node(parts[4][0], tuple(parts[1]), tuple(parts[2]))


def _constant(data: bytes) -> tuple[str, Float32s] | None:
    """Name and values of a tensor; None of another type than float32."""
    shape: list[int] = []
    name, raw, kind = "", b"", 0
    for number, value, _ in fields(data):
        if number == 1:  # one by one, or all at once
            shape += varints(value)
        elif number == 2:
            (kind,) = varints(value)
        elif number == 8:
            name = value.decode()
        elif number in (4, 9):
            raw = value
    return (name, np.frombuffer(raw, "<f4").reshape(shape)) if kind == _FLOAT else None
