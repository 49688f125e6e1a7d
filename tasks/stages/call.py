"""Calls of functions on workers: their names in `metrics.parquet`, deadlines and costs."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import psutil

from ..base import environment
from ..settings.job import Cost

Result = TypeVar("Result")


class Limits(NamedTuple):
    """Settings of the cluster that bound a call: s, and s for each second of audio."""

    item: float
    factor: float

    def of_audio(self, seconds: float) -> float:
        """Deadline of a call that handles so much audio, s."""
        return self.item + self.factor * seconds


#: (limits, whether the call's items run one by one, its arguments) -> its deadline, wall seconds.
Deadline = Callable[[Limits, bool, tuple[Any, ...]], float]

CORPUS, SHARD_EACH = 600.0, 30.0  # s of a call on many shards, at least, and of each shard


def of_item(limits: Limits, isolated: bool, args: tuple[Any, ...]) -> float:
    """For a call that handles one item."""
    return limits.item


def of_shards(shards: int, limits: Limits, isolated: bool, args: tuple[Any, ...]) -> float:
    """For a call on all rows of so many shards: a short time for one item must not end it. Applying
    rules to a shard of 24 h takes seconds, and planning a million clips 12 s."""
    return max(limits.item, CORPUS) + SHARD_EACH * shards


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """A function for a worker, its stage and its step, and its deadline, at which its worker is
    restarted. Its arguments and its result survive pickling."""

    stage: str
    step: str
    work: Callable[..., Result]
    deadline: Deadline = of_item


# Measures what a call costs its process: time, CPU, memory, GPU.
#
#     with CostMeter("worker-0") as meter:
#         work()
#     meter.cost
#
# CPU and memory are those of the whole process, so only one call may run at a time, as on workers.
# They include Dask's own work meanwhile (some ms each second).


GPU_WAIT = 5.0  # s to wait for the last sample
GPU_EVERY = 0.5  # s between samples of the GPU; NVML's own figure covers 1/6 to 1 s
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class CostMeter:
    """A context manager around a call; `cost` exists when it has ended."""

    cost: Cost

    def __init__(self, worker: str = "") -> None:
        self.worker = worker

    def __enter__(self) -> Self:
        self._gpu = _Gpu.find(environment.visible_gpus())
        self._before = psutil.Process().memory_info().rss
        self._exact = False
        with suppress(OSError):  # another system, or a read-only /proc
            _CLEAR.write_text(
                "5"
            )  # resets the kernel's record of the peak (proc_pid_clear_refs(5))
            self._exact = True
        self._started, self._wall, self._cpu = time.time(), time.monotonic(), cpu_seconds()
        return self

    def __exit__(self, *exc: object) -> None:
        wall, cpu = time.monotonic() - self._wall, cpu_seconds() - self._cpu
        after = psutil.Process().memory_info().rss
        peak = max(self._before, after)  # resident memory, bytes
        with suppress(OSError):
            for line in _STATUS.read_text().splitlines() if self._exact else ():
                if line.startswith("VmHWM:"):
                    peak = max(peak, 1024 * int(line.split()[1]))
        gpu = self._gpu.end() if self._gpu else (None, None, None)
        self.cost = Cost(
            self.worker,
            socket.gethostname(),
            os.getpid(),
            self._started,
            wall,
            cpu,
            self._before,
            peak,
            *gpu,
        )


def cpu_seconds() -> float:
    """CPU time of this process so far, including its threads and its ended children."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


class _Gpu:
    """The first GPU that this process may see, sampled by a thread until `end`."""

    def __init__(self, nvml: ModuleType, handle: object, name: str) -> None:
        self.name = name
        self._nvml, self._handle = nvml, handle
        self._busy: list[float] = []
        self._memory: list[int] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="gpu-meter", daemon=True)
        self._thread.start()

    @classmethod
    def find(cls, visible: str | None) -> _Gpu | None:
        """None without a GPU, NVML's binding (extra `gpu`) or a driver. Never touches CUDA."""
        if visible == "":
            return None  # a CPU worker beside GPU workers
        try:
            import pynvml
        except ImportError:
            return None
        name = (visible or "0").split(",")[0].strip()
        try:
            pynvml.nvmlInit()
            if name.isdecimal():
                return cls(pynvml, pynvml.nvmlDeviceGetHandleByIndex(int(name)), name)
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByUUID(name), name)
        except pynvml.NVMLError:
            return None

    def _look(self) -> None:
        while True:
            # A slice of a divided GPU (MIG) reports only its memory.
            with suppress(self._nvml.NVMLError):
                self._busy.append(self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu)
            with suppress(self._nvml.NVMLError):
                self._memory.append(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)
            if self._over.wait(GPU_EVERY):
                return

    def end(self) -> tuple[str, float | None, int | None]:
        """(name, mean percent busy, most bytes in use); None for what NVML does not report."""
        self._over.set()
        self._thread.join(GPU_WAIT)  # a driver that hangs must not hold up the stage
        busy = sum(self._busy) / len(self._busy) if self._busy else None
        return self.name, busy, max(self._memory, default=None)
