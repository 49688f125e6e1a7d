"""Extract a part of an ONNX model, from one named tensor to another, as a model of its own, or
leave channels out of its weights."""

from __future__ import annotations

from collections.abc import Mapping

from tasks.base.arrays import Float32s
from tasks.models.onnx_messages import Message, declare, fill, parsed


def part(model: bytes, source: str, target: str) -> bytes:
    """The model that takes tensor `source` and gives tensor `target`: the nodes between the two and
    the initialisers that they read; input and output are float32 of any shape."""
    found = parsed(model)
    graph, wanted = found.graph, {target}
    nodes: list[Message] = []
    for node in reversed(graph.node):  # in order of execution
        if wanted & {*node.output}:
            nodes.insert(0, node)
            wanted |= {*node.input} - {source}
    weights = [each for each in graph.initializer if each.name in wanted]
    # The shapes of inner tensors follow from the input.
    for field in ("node", "initializer", "input", "output", "value_info"):
        graph.ClearField(field)
    graph.node.extend(nodes)
    graph.initializer.extend(weights)
    declare(graph.input.add(), source, None)
    declare(graph.output.add(), target, None)
    data: bytes = found.SerializeToString()
    return data


def with_weights(model: bytes, new: Mapping[str, Float32s]) -> bytes:
    """The same model with other values and shapes of some initialisers."""
    found = parsed(model)
    for tensor in found.graph.initializer:
        if tensor.name in new:
            fill(tensor, tensor.name, new[tensor.name])
    data: bytes = found.SerializeToString()
    return data
