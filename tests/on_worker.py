"""What tests run on workers to learn about them; imports little, so that it starts at once."""

from __future__ import annotations

import os
import re
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


def hang(isolate: bool = False) -> str | None:
    """Hours in C code that holds the GIL, unless isolated."""
    if not isolate:
        re.match(r"(a+)+$", "a" * 60 + "b")
    return visible()
