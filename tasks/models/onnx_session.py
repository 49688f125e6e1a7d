"""Sessions of ONNX Runtime: single-threaded, because workers are processes and one thread gives
equal bytes; errors are raised, not printed."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING

from . import model_files
from .registry import Model

if TYPE_CHECKING:
    import onnxruntime

#: ONNX Runtime's names. It silently falls back to the CPU if one is unusable.
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


@cache
def errors() -> tuple[type[Exception], ...]:
    """ONNX Runtime's exceptions: its own have no common base class, and its C++ libraries raise
    RuntimeError."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    kinds = (kind for kind in vars(state).values() if isinstance(kind, type))
    return RuntimeError, *(kind for kind in kinds if issubclass(kind, Exception))


def options(threads: int = 1) -> onnxruntime.SessionOptions:
    """Options of a session. `threads`: within an operator."""
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
    """A session of a graph, by path or bytes. `arena`: keep the memory of the largest batch for the
    next; `patterns`: allocate it in one block."""
    import onnxruntime

    chosen = options(threads)
    chosen.enable_cpu_mem_arena = arena
    chosen.enable_mem_pattern = patterns
    return onnxruntime.InferenceSession(model, sess_options=chosen, providers=[PROVIDERS[device]])


@lru_cache(maxsize=8)
def known(
    model: Model, asked_by: str, folder: str | None = None, *, arena: bool = True
) -> onnxruntime.InferenceSession:
    """The session of a known model of one graph, one per process; threads may share it. ConfigError
    as by `model_files.located`."""
    return session(str(model_files.located(model, asked_by, folder)), arena=arena)
