"""What tests run on workers to learn about them; imports little, so that it starts at once."""

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from uttermill.tasks.base.errors import ItemError


def look(dask_worker: Any = None) -> dict[str, Any]:
    """Of this process; with what only a worker has, when Dask's `Client.run` calls it."""
    from uttermill.tasks import preload

    found: dict[str, Any] = {
        "pid": os.getpid(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "at_start": preload.VISIBLE,
    }  # fmt: skip
    if dask_worker is not None:
        found["name"] = dask_worker.name
        found["resources"] = dict(dask_worker.state.total_resources)
    return found


def confined() -> dict[str, Any]:
    """What holds in this process whatever its parent is like."""
    return {
        "pid": os.getpid(),
        "caps": os.environ["OMP_NUM_THREADS"],
        "temp": tempfile.gettempdir(),
        "daemon": multiprocessing.current_process().daemon,
        "prefect": "prefect" in sys.modules,
        "main": getattr(sys.modules["__main__"], "__file__", ""),
    }


def say(topic: str, word: str) -> None:
    """An event of Dask's, and a record of our logger."""
    from distributed import get_worker

    worker: Any = get_worker  # untyped
    worker().log_event(topic, {"word": word})
    logging.getLogger("uttermill.tests").warning("a record says %s", word)


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


def work_on(marks: str, shard: str, isolate: bool = False) -> str:
    """A shard: what its work does stands in its name; each call leaves a mark."""
    calls = Path(marks, shard)
    with calls.open("a") as file:
        file.write("isolated\n" if isolate else "shared\n")
    kind = shard.split("-")[0]
    first = len(calls.read_text().splitlines()) == 1
    if kind == "hopeless" or (kind == "poison" and not isolate) or (kind == "unlucky" and first):
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "sleep" and not isolate:
        time.sleep(60)
    if kind == "item":
        raise ItemError("decode_error", "half of it", 5, 16000)
    if kind == "timeout":
        raise TimeoutError("of its own")
    time.sleep(0.1)
    return f"{shard} {'isolated' if isolate else 'shared'}"


class Slow:
    """A result that the receiving process takes `seconds` to read."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __reduce__(self) -> tuple[Any, tuple[float]]:
        return read_slowly, (self.seconds,)


def read_slowly(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def slow_result(seconds: float) -> Any:
    return Slow(seconds)
