"""CPU time and memory of each step of a run, over all processes that work for it."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers import memory
from uttermill.tasks.base import process_memory
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.stages.call import Call

MIB = 2**20


@dataclass(slots=True)
class Spent:
    """The cost of a step."""

    cpu: float = 0.0  # s, all processes
    rss: int = 0  # bytes, the largest process
    calls: int = 0

    def add(self, cpu: float, rss: int) -> None:
        self.cpu, self.rss, self.calls = self.cpu + cpu, max(self.rss, rss), self.calls + 1


def forget_peak() -> None:
    """Reset the peak of this process's memory to its current size (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")


def measured(work: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, float, int]:
    """(result, CPU s, peak memory in bytes) of a call in this process."""
    forget_peak()
    began = time.process_time()
    result = work(*args)
    return result, time.process_time() - began, memory.peak()


class Measured(Executor):
    """An executor with worker processes that records the cost of each function."""

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pool = ProcessPoolExecutor(
            workers, context, process_memory.without_pandas
        )  # as workers do
        self.spent: dict[str, Spent] = {}

    def call(self, call: Call[Any], *args: Any) -> Any:
        return self.map(call, [args])[0]

    def map(self, call: Call[Any], args: Sequence[tuple[Any, ...]]) -> list[Any]:
        work = call.work
        name = f"{work.__module__.rpartition('.')[2]}.{work.__name__}"
        spent = self.spent.setdefault(name, Spent())
        waiting: list[Future[Any]] = [self.pool.submit(measured, work, each) for each in args]
        results = []
        for each in waiting:
            result, cpu, rss = each.result()
            spent.add(cpu, rss)
            results.append(result)
        return results
