"""Reads ONNX models: the nodes of a graph and its float32 constants, from the protocol-buffer
message that `onnx_writer.py` describes. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_GRAPH, _NODE, _CONSTANT = 7, 1, 5  # of ModelProto, and of GraphProto
_FLOAT = 1  # TensorProto.DataType


@dataclass(frozen=True, slots=True)
class Node:
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """The nodes in their order, and constants by name."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, NDArray[np.float32]]

    def of_kind(self, kind: str) -> list[Node]:
        return [node for node in self.nodes if node.kind == kind]


def read(data: bytes) -> Model:
    """The model of these bytes. ValueError where they are none."""
    graph = next((bytes(value) for number, value in _fields(data) if number == _GRAPH), None)
    if graph is None:
        raise ValueError("no ONNX model")
    nodes, constants = [], {}
    for number, value in _fields(graph):
        if number == _NODE:
            nodes.append(_node(bytes(value)))
        elif number == _CONSTANT and (found := _constant(bytes(value))) is not None:
            constants[found[0]] = found[1]
    return Model(tuple(nodes), constants)


def _node(data: bytes) -> Node:
    parts: dict[int, list[str]] = {1: [], 2: [], 4: []}
    for number, value in _fields(data):
        if number in parts:
            parts[number].append(bytes(value).decode())
    return Node(parts[4][0], tuple(parts[1]), tuple(parts[2]))


def _constant(data: bytes) -> tuple[str, NDArray[np.float32]] | None:
    """Name and values of a tensor; None of another type than float32."""
    shape: list[int] = []
    name, raw, kind = "", b"", 0
    for number, value in _fields(data):
        if number == 1:  # one by one, or all at once
            shape += [value] if isinstance(value, int) else list(_varints(value))
        elif number == 2 and isinstance(value, int):
            kind = value
        elif number == 8:
            name = bytes(value).decode()
        elif number in (4, 9):
            raw = bytes(value)
    return (name, np.frombuffer(raw, "<f4").reshape(shape)) if kind == _FLOAT else None


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field: an int, or the bytes of anything longer."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(key & 7, 0)
        if key & 7 == 2:
            size, at = _varint(data, at)
        if (not size and key & 7 != 2) or at + size > len(data):
            raise ValueError("no ONNX model")
        yield key >> 3, data[at : at + size]
        at += size


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("no ONNX model")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
