"""Many small nightly runs: the cost of `package` in each of them, and its files on disk.

    python -m tests.bench.nights [--start 10000] [--nights 365] [--recordings 6] [--shards 1]
                                 [--profile NIGHT ...] [--json]

A synthetic OUT (`_scale_out.py`) of `start` utterances is published; then each night adds new
recordings in new shards, and publishes again. Each night runs in a new process with the libraries
loaded, so that it knows only what is on disk. Its CPU seconds are those of everything after the
stages: listing OUT, deciding outcomes, laying out, writing, publishing.

CPU seconds depend on the machine's load. Files opened, folders listed, and MB read and written (by
the process's calls, cached or not) are printed, too; they do not.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import multiprocessing
import os
import pstats
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from tests.bench import _scale_out
from tests.bench._measured import MIB, forget_peak
from tests.helpers import memory
from uttermill.tasks.base import process_memory
from uttermill.tasks.runs import publish
from uttermill.tasks.runs.executor import Here
from uttermill.tasks.settings.job import Job

#: What a night need not import.
LOADED = [
    *(
        "pyarrow.parquet",
        "uttermill.tasks.runs.publish",
        "tests.bench._scale_out",
        "tests.bench._scale_format",
    ),
    *(
        "uttermill.tasks.filters.duration",
        "uttermill.tasks.filters.silence",
        "uttermill.tasks.filters.clipping",
    ),
]
AROUND = 5  # nights whose median is compared
WORK = ("cpu_seconds", "user_seconds", "opened", "listed", "read_mb", "written_mb")


class Timed(Here):
    """Calls in this process, with the CPU seconds of each function."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        began = time.process_time()
        result = work(*args)
        name = f"{work.__module__.rpartition('.')[2]}.{work.__name__}"
        self.spent[name] = self.spent.get(name, 0.0) + time.process_time() - began
        return result

    def map(self, work: Callable[..., Any], args: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [self.call(work, *each) for each in args]


class Counted:
    """What this process asks of the file system."""

    def __init__(self) -> None:
        self.opened = self.listed = 0
        self._io = _io()
        sys.addaudithook(self._see)

    def _see(self, event: str, args: tuple[Any, ...]) -> None:
        self.opened += event == "open"
        self.listed += event in ("os.scandir", "os.listdir")

    def told(self) -> dict[str, Any]:
        mb = {name: round((now - self._io[name]) / MIB, 2) for name, now in _io().items()}
        return {"opened": self.opened, "listed": self.listed, **mb}


def _io() -> dict[str, int]:
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {"read_mb": int(lines["rchar"]), "written_mb": int(lines["wchar"])}


def night(job: Job, first: int, shards: int, recordings: int) -> None:
    """Checkpoints of what a night brings."""
    for number in range(first, first + shards):
        _scale_out.make(job, number, recordings)


def package(job: Job, profiled: bool) -> dict[str, Any]:
    """Everything of a run after its chains."""
    process_memory.without_pandas()
    caller = Timed()
    forget_peak()
    profile = cProfile.Profile()
    if profiled:
        profile.enable()
    counted = Counted()
    began, user = time.process_time(), os.times().user
    shards, state = _scale_out.chained(job)
    published = publish.publish(job, shards, caller, caller.listing(job), state)
    cpu, user = time.process_time() - began, os.times().user - user
    if profiled:
        profile.disable()
        pstats.Stats(profile).sort_stats("cumulative").print_stats(70)
    assert published.new
    there = {name: round(seconds, 3) for name, seconds in caller.spent.items()}
    there["flow"] = round(cpu - sum(caller.spent.values()), 3)
    told = {"cpu_seconds": round(cpu, 3), "user_seconds": round(user, 3), **counted.told()}
    return {**told, "rss_mb": round(memory.peak() / MIB), "steps": there}


def _alone(work: Callable[..., Any], *args: Any) -> Any:
    """A call in a new process, which has loaded the libraries already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(work, *args).result()


def _on_disk(out: Path) -> dict[str, int]:
    files = [Path(folder) / name for folder, _, names in os.walk(out) for name in names]
    inodes = {(status.st_ino, status.st_size) for status in map(os.lstat, files)}
    versions = out / "datasets"
    kept = [each for each in versions.iterdir() if not each.is_symlink()]
    newest = sorted(kept)[-1]
    return {
        "versions": len(kept),
        "files": len(files),
        "files_of_newest": sum(1 for each in newest.rglob("*") if each.is_file()),
        "inodes": len(inodes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=10_000)
    parser.add_argument("--nights", type=int, default=365)
    parser.add_argument("--recordings", type=int, default=6, help="of each shard of a night")
    parser.add_argument("--shards", type=int, default=1, help="of a night")
    parser.add_argument("--set", action="append", default=[], help="package.KEY=VALUE")
    parser.add_argument("--profile", type=int, nargs="*", default=[])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # as workers have it; it also is Arrow's number of threads
    home = Path(tempfile.mkdtemp(prefix="nights-"))
    try:
        _nights(options, home / "out")
    finally:
        shutil.rmtree(home)


def _nights(options: argparse.Namespace, out: Path) -> None:
    chosen = [each.removeprefix("package.").partition("=") for each in options.set]
    job = _scale_out.job(out, {name: yaml.safe_load(value) for name, _, value in chosen})
    first = _scale_out.shards_for(options.start)
    _alone(night, job, 0, first, _scale_out.SHARD)
    spent: list[dict[str, float]] = []
    for number in range(options.nights + 1):
        line = {"night": number, **_alone(package, job, number in options.profile)}
        spent.append({name: line[name] for name in WORK})
        if number % 10 == 0 or number == options.nights:
            _say({**line, **_on_disk(out)}, options.json)
        if number < options.nights:
            _alone(night, job, first, options.shards, options.recordings)
            first += options.shards
    tenth = _median(spent, 10)
    for number in (*(n for n in (65, 200) if n < options.nights), options.nights - AROUND):
        there = _median(spent, number)
        ratios = {name: round(there[name] / tenth[name], 2) for name in WORK}
        _say({"around_night": number, **there, "to_night_10": ratios}, options.json)
    _say({"around_night": 10, **tenth}, options.json)


def _median(spent: Sequence[dict[str, float]], number: int) -> dict[str, float]:
    """Of the nights around one."""
    some = spent[max(number - AROUND, 1) : number + AROUND + 1]
    return {name: round(statistics.median(each[name] for each in some), 3) for name in WORK}


def _say(line: dict[str, Any], as_json: bool) -> None:
    print(json.dumps(line) if as_json else line, flush=True)


if __name__ == "__main__":
    main()
