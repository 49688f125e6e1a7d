"""Runs that die by SIGKILL at chosen calls.

`python -m tests.helpers.killed SMALL TMP COUNT SEED PACKAGE`

SMALL holds the recordings of `corpus` or of `talks`; PACKAGE: JSON, other settings of that stage,
or a list of such: each is then published from what lies in SMALL/out, and dies meanwhile.
Forks one run for each point from a process that never ran anything itself, and only imported what
a run imports, which takes most of a run's time; prints the points.
"""

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.helpers import corpus, talks
from tests.helpers.signals import forked
from uttermill.tasks import pipeline
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.formats import _tars
from uttermill.tasks.storage.local import HashedFile

CALLS: list[tuple[Any, str]] = [
    (HashedFile, "write"), (pq, "write_table"), (Path, "write_text"),
    (_tars.Tar, "add"), (os, "replace"), (os, "rename"), (os, "fsync"),
]  # fmt: skip


#: Audit events of Python that change what a folder holds.
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link"}


def die_at(small: Path, out: Path, package: JsonObject, at: int) -> None:
    """In a child: count the calls; at number `at`, end as kill -9 ends."""
    calls = 0

    def around(work: Callable[..., Any]) -> Callable[..., Any]:
        def mortal(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > at >= 0:
                if isinstance(args[0], HashedFile):
                    view = memoryview(args[1]).cast("B")
                    work(args[0], view[: len(view) // 2])
                    args[0].raw.flush()
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*args, **kwargs)

        return mortal

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal calls
        if event in EVENTS and any(str(out) in str(arg) for arg in args[:2]):
            calls += 1
            if calls > at >= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    for owner, name in CALLS:
        setattr(owner, name, around(getattr(owner, name)))
    maker = talks if (small / talks.LIST).exists() else corpus
    more = {"package": package} if package else {}
    pipeline.run_here(maker.job(small, out=out, **more))
    (out.parent / "whole.json").write_text(json.dumps({"calls": calls, "modules": [*sys.modules]}))


def main(
    small: Path,
    tmp: Path,
    count: int,
    seed: int,
    package: JsonObject | list[JsonObject],
) -> None:
    if isinstance(package, dict):
        print(json.dumps(kills(small, tmp, count, seed, package)))
        return
    told = []
    for number, one in enumerate(package):
        place = tmp / str(number)
        told.append(kills(small, place, count, seed + number, one, small / "out"))
    print(json.dumps(told))


def kills(
    small: Path,
    tmp: Path,
    count: int,
    seed: int,
    package: JsonObject,
    computed: Path | None = None,
) -> JsonObject:
    """How many calls a run makes, and how those ended that died at some; `computed`: the OUT that
    all begin with, without its versions."""

    def ended_at(name: str, at: int) -> int:
        if computed is not None:
            shutil.copytree(computed, tmp / name, ignore=shutil.ignore_patterns("datasets"))
        return forked(die_at, small, tmp / name, package, at)

    ended_at("whole", -1)
    done = json.loads((tmp / "whole.json").read_text())
    calls = done["calls"]
    for module in done["modules"]:
        with suppress(ImportError):  # some are made by others, under names that nothing finds
            import_module(module)
    points = sorted(random.Random(seed).sample(range(calls), min(count, calls)))
    return {"calls": calls, "ended": {at: ended_at(f"at{at}", at) for at in points}}


if __name__ == "__main__":
    _, folder, scratch, points, first, chosen, *rest = sys.argv
    main(Path(folder), Path(scratch), int(points), int(first), json.loads(chosen), *rest)
