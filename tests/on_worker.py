"""What tests run on workers to learn about them; imports little, so that it starts at once."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from typing import Any


def look(dask_worker: Any = None) -> dict[str, Any]:
    """Of this process; with what only a worker has, when Dask's `Client.run` calls it."""
    from tasks import preload

    found: dict[str, Any] = {
        "pid": os.getpid(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "at_start": preload.VISIBLE,
    }  # fmt: skip
    if dask_worker is not None:
        found["name"] = dask_worker.name
        found["resources"] = dict(dask_worker.state.total_resources)
    return found


def visible() -> str | None:
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def kill_me(after: float) -> None:
    time.sleep(after)
    os.kill(os.getpid(), signal.SIGKILL)


def hold_the_gil() -> None:
    """An hour in C code that lets no other thread run. It sleeps there: code that computes would
    take a core from whatever runs beside the test."""
    ctypes.PyDLL(None).sleep(3600)


def hang(isolate: bool = False) -> str | None:
    """An hour with the GIL held, unless isolated."""
    if not isolate:
        hold_the_gil()
    return visible()
