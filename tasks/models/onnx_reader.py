"""Reads ONNX models: the nodes of a graph and its float32 constants. Nothing is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tasks.base.arrays import Float32s
from tasks.models.onnx_messages import FLOAT, Message, parsed


@dataclass(frozen=True, slots=True)
class Model:
    """The nodes in order, with `op_type`, `input` and `output`; and constants by name."""

    nodes: tuple[Message, ...]
    constants: Mapping[str, Float32s]

    def of_kind(self, kind: str) -> list[Message]:
        return [node for node in self.nodes if node.op_type == kind]


def read(data: bytes) -> Model:
    """Parse a model. ValueError if the bytes are not one."""
    graph = parsed(data).graph
    constants = {each.name: _values(each) for each in graph.initializer if each.data_type == FLOAT}
    return Model(tuple(graph.node), constants)


def _values(tensor: Message) -> Float32s:
    found = np.frombuffer(tensor.raw_data, "<f4") if tensor.raw_data else tensor.float_data
    return np.asarray(found, np.float32).reshape(tensor.dims)
