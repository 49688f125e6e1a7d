"""Sessions of ONNX Runtime: one thread, because workers are processes and one thread gives equal
bytes; errors are raised, not printed."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime

#: ONNX Runtime's names. It silently falls back to the CPU if it cannot use one.
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


@cache
def errors() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises: errors without a base class of their own, and RuntimeError for what
    its C++ libraries throw."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kinds = (kind for kind in vars(state).values() if isinstance(kind, type))
    return RuntimeError, *(kind for kind in kinds if issubclass(kind, Exception))


def options(threads: int = 1) -> onnxruntime.SessionOptions:
    """`threads`: those within an operator."""
    import onnxruntime

    session_options = onnxruntime.SessionOptions()
    session_options.intra_op_num_threads = threads
    session_options.inter_op_num_threads = 1
    session_options.log_severity_level = 4
    return session_options


def session(
    model: str | bytes,
    threads: int = 1,
    *,
    arena: bool = True,
    patterns: bool = True,
    device: str = "cpu",
) -> onnxruntime.InferenceSession:
    """A session of a graph, by its path or its bytes, which gives the same numbers for the same
    batch. `arena`: keep the memory of the largest batch for the next; `patterns`: allocate it in
    one block."""
    import onnxruntime

    chosen = options(threads)
    chosen.enable_cpu_mem_arena = arena
    chosen.enable_mem_pattern = patterns
    return onnxruntime.InferenceSession(model, sess_options=chosen, providers=[PROVIDERS[device]])
