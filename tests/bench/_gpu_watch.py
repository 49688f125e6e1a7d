"""Samples the load of a command's processes and of the GPU over time."""

import shutil
import statistics
import subprocess
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

EVERY = 0.5  # s between two samples
QUERY = "utilization.gpu,memory.used,power.draw"


@dataclass(slots=True)
class Watched:
    """Samples of a command's processes, by kind, and of the first GPU."""

    at: list[float] = field(default_factory=list)  # s since 1970
    cpu: list[dict[str, float]] = field(default_factory=list)  # CPU s so far, by kind of process
    memory: int = 0  # bytes, the most that all held at once
    gpu: list[tuple[float, float, float, float]] = field(default_factory=list)  # time, %, MB, W

    def between(self, begin: float, end: float) -> dict[str, float]:
        """CPU seconds by kind of process within a span of time."""
        low, high = self._index(begin), self._index(end)
        before = self.cpu[low] if self.cpu else {}
        return {k: v - before.get(k, 0.0) for k, v in self.cpu[high].items()} if self.cpu else {}

    def _index(self, when: float) -> int:
        return min(range(len(self.at)), key=lambda i: abs(self.at[i] - when), default=0)

    def gpu_between(self, begin: float, end: float) -> dict[str, float]:
        """Mean and middle per cent busy, most MB, mean W; empty without a GPU."""
        rows = [row for row in self.gpu if begin <= row[0] <= end]
        if not rows:
            return {}
        _, busy, memory, power = zip(*rows, strict=True)
        return {
            "busy_percent": round(statistics.fmean(busy), 1),
            "busy_percent_median": statistics.median(busy),
            "memory_mb": max(memory),
            "power_w": round(statistics.fmean(power), 1),
        }

    def curve(self, begin: float, end: float, points: int = 20) -> list[int]:
        """Per cent busy in equal parts of a span of time."""
        found = []
        step = (end - begin) / points
        for n in range(points):
            part = self.gpu_between(begin + n * step, begin + (n + 1) * step)
            found.append(round(part.get("busy_percent", 0)))
        return found


def kind_of(process: psutil.Process, root: int) -> str:
    """flow, server or worker, by its command line."""
    if process.pid == root:
        return "flow"
    words = " ".join(process.cmdline())
    if "server.door" in words or "prefect" in words:
        return "server"
    return "worker" if "spawn_main" in words or "multiprocessing" in words else "other"


class Watch(threading.Thread):
    """Takes a sample every half second, until `end`."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self.found = Watched()
        self._root = root
        self._over = threading.Event()
        self._last: dict[int, tuple[str, float]] = {}
        program = shutil.which("nvidia-smi")
        self._smi = _Smi(program) if program else None
        self.start()

    def run(self) -> None:
        while not self._over.wait(EVERY):
            self._look()

    def _look(self) -> None:
        held = 0
        with suppress(psutil.Error):
            top = psutil.Process(self._root)
            for process in [top, *top.children(recursive=True)]:
                with suppress(psutil.Error):
                    times = process.cpu_times()
                    kind = kind_of(process, self._root)
                    self._last[process.pid] = kind, times.user + times.system
                    held += process.memory_info().rss
        sums: dict[str, float] = defaultdict(float)
        for kind, seconds in self._last.values():
            sums[kind] += seconds
        self.found.at.append(time.time())
        self.found.cpu.append(dict(sums))
        self.found.memory = max(self.found.memory, held)

    def end(self) -> Watched:
        self._over.set()
        self.join()
        if self._smi is not None:
            self._smi.end(self.found)
        return self.found


class _Smi(threading.Thread):
    """`nvidia-smi` on the first GPU, a line a second."""

    def __init__(self, program: str) -> None:
        super().__init__(daemon=True)
        words = [program, "-i", "0", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
        self._process = subprocess.Popen([*words, "-l", "1"], stdout=subprocess.PIPE, text=True)
        self._rows: list[tuple[float, float, float, float]] = []
        self.start()

    def run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with suppress(ValueError):  # [N/A] of a slice
                busy, memory, power = map(float, line.split(","))
                self._rows.append((time.time(), busy, memory, power))

    def end(self, found: Watched) -> None:
        self._process.terminate()
        self._process.wait()
        self.join()
        found.gpu = list(self._rows)
