"""Prunes that die by SIGKILL, an OUT `TMP/at<n>` for each.

`python -m tests.helpers.pruned OUT TMP COUNT`

Forks one prune for each point from a process that never ran anything itself; prints the points.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers.signals import forked
from uttermill.flows.cli import queries
from uttermill.flows.run import run_folder

EVENTS = {"open", "os.rename", "os.remove", "os.rmdir"}


def copied(out: Path, to: Path) -> Path:
    """OUT with its times and hard links."""
    subprocess.run(["cp", "-a", str(out), str(to)], check=True)
    return to


def die_at(out: Path, at: int) -> None:
    """In a child: count what changes OUT's folders; at number `at`, end as kill -9 ends."""
    calls = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal calls
        if event in EVENTS and (event != "open" or "w" in str(args[1])):
            if calls == at:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1

    sys.addaudithook(watch)
    queries.prune(out, 1, keep_runs=1, yes=True)
    out.with_name("calls").write_text(str(calls))


def main(out: Path, tmp: Path, count: int) -> None:
    run_folder.settings_of(out).job()  # what it imports is slow: once, not in each child
    forked(die_at, copied(out, tmp / "whole"), -1)
    calls = int((tmp / "calls").read_text())
    points = sorted({round(n * (calls - 1) / (count - 1)) for n in range(count)})
    ended = {at: forked(die_at, copied(out, tmp / f"at{at}"), at) for at in points}
    print(json.dumps({"calls": calls, "ended": ended}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
