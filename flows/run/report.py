"""Has OUT/runs/<id>/report.html made, or reuses the previous run's report.

A report decodes rejected spans again, and a native library that crashes on a broken file must not
end the run. So the report is made on a local worker of the run, which has most libraries loaded
already, or else in a separate process.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flows.run import report_process, runs
from flows.run.report_process import NAME as NAME
from flows.run.report_process import before
from tasks import storage
from tasks.errors import MillError, RunError
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.logs import log

if TYPE_CHECKING:  # imports Dask, which a run with nothing to do does without
    from flows.run.caller import ClusterCaller

TIMEOUT = 900.0  # s; a million utterances take about 20 s
#: What the separate process runs; its standard input begins with this process's `sys.path`.
PROGRAM = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from tasks.lean import search_seldom; search_seldom(); "
    "from flows.run.report_process import main; main()"
)


def of_run(job: Job, folder: Path, new: bool, caller: ClusterCaller | None = None) -> None:
    """Write the report of a run that is ending, on one of its workers if it has `caller`. A failure
    is only logged: the run did its work."""
    try:
        same = not new and _same_as_before(job.out, folder)
        if not same and not (caller is not None and _on_worker(job, folder, caller)):
            write(job, folder)
        log.info("report: %s", job.out / "runs" / folder.name / NAME)
    except (MillError, OSError) as error:
        log.warning("no report was written: %s; try `uttermill report %s`", error, job.out)


def _on_worker(job: Job, folder: Path, caller: ClusterCaller) -> bool:
    """Whether a worker that sees the run's folder has made the report."""
    if not caller.has_local_workers:
        return False
    try:
        caller.dispatcher.once(report_process.make, job, folder, seconds=TIMEOUT)
    except Exception as error:
        # Bugs included: the separate process meets them again and reports them.
        log.info("the report was not made on a worker: %s", error)
        return False
    return True


def newest(out: Path) -> JsonObject:
    """(Re)build the newest run's report; returns what `report --json` prints."""
    folder = runs.newest(out)
    path = write(runs.settings_of(out).job(), folder)
    return {"report": str(path), "bytes": path.stat().st_size, "run": folder.name}


def write(job: Job, folder: Path) -> Path:
    """Make the report of the run in `folder` in another process; RunError with its last line."""
    path = [entry for entry in sys.path if entry]
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(os.getpid())],
            input=pickle.dumps(path) + pickle.dumps((job, folder)),
            capture_output=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"the report was not made within {TIMEOUT:.0f} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it said nothing"]
        raise RunError(f"making the report ended with status {done.returncode}: {lines[-1]}")
    return folder / NAME


def _same_as_before(out: Path, folder: Path) -> bool:
    """Link the previous run's report if that run had the same settings and result; else False."""
    earlier = before(out, folder)
    if earlier is None:
        return False
    try:
        same = all(
            _facts(earlier.with_name(name)) == _facts(folder / name)
            for name in (runs.SETTINGS, runs.SUMMARY)
        )
        if same:
            storage.of(out).fetch(earlier, folder / NAME)
    except (OSError, ValueError):  # one of them is damaged
        return False
    return same


def _facts(path: Path) -> object:
    """Settings, or a summary's dataset version, without what depends on the clock."""
    data = json.loads(path.read_text())
    return data.get("dataset", data)
