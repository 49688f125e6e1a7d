"""OUT/runs/<id>/report.html: makes it, or reuses the previous run's; `tasks/insight/report/` writes
its contents.

A report decodes rejected spans again, and a native library that crashes on a broken file must not
end the run. So it is made on a local worker of the run, which has most libraries loaded already, or
else in a separate process. For both, this module imports little.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from ...tasks import storage
from ...tasks.base import environment, masking
from ...tasks.base.errors import MillError, RunError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log
from ...tasks.settings.job import Job
from ...tasks.storage import owners, versions, write_atomic
from . import SETTINGS, SUMMARY

if TYPE_CHECKING:  # imports Dask, which a run with nothing to do avoids
    from .cluster_executor import ClusterExecutor

NAME = "report.html"  # in the run's folder
TIMEOUT = 900.0  # s; a million utterances take about 20 s


def of_run(job: Job, folder: Path, new: bool, executor: ClusterExecutor | None = None) -> None:
    """Write the report of a run that is ending, on a worker if `executor` has any. A failure is
    only logged: the run did its work."""
    try:
        same = not new and _same_as_before(job.out, folder)
        if not same and not (executor is not None and _on_worker(job, folder, executor)):
            write(job, folder)
        log.info("report: %s", job.out / "runs" / folder.name / NAME)
    except (MillError, OSError) as error:
        why = owners.words(error, folder)
        log.warning("no report was written: %s; try `uttermill report %s`", why, job.out)


def _on_worker(job: Job, folder: Path, executor: ClusterExecutor) -> bool:
    if not executor.has_local_workers:
        return False
    try:
        executor.dispatcher.once(make, job, folder, seconds=TIMEOUT)
    except RunError as error:  # the separate process meets a bug again, and reports it
        log.info("the report was not made on a worker: %s", error)
        return False
    return True


def newest(out: Path) -> JsonObject:
    """(Re)build the newest run's report; returns what `report --json` prints."""
    from . import run_folder

    folder = run_folder.newest(out)
    path = write(run_folder.settings_of(out).job(), folder)
    return {"report": str(path), "bytes": path.stat().st_size, "run": folder.name}


def write(job: Job, folder: Path) -> Path:
    try:
        done = subprocess.run(
            environment.python("-m", __name__, str(os.getpid())),
            input=pickle.dumps((job, folder)),
            env=environment.of_child(),
            capture_output=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"the report was not made within {TIMEOUT:.0f} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["it printed nothing"]
        raise RunError(f"making the report ended with status {done.returncode}: {lines[-1]}")
    return folder / NAME


def _same_as_before(out: Path, folder: Path) -> bool:
    """Link the previous run's report, if that had the same settings and result."""
    from . import run_folder

    others = (run for run in run_folder.having(out, NAME) if run.name != folder.name)
    earlier = next(others, None)
    if earlier is None:
        return False
    try:
        same = all(_facts(earlier / name) == _facts(folder / name) for name in (SETTINGS, SUMMARY))
        if same:
            storage.store_of(out).fetch(earlier / NAME, folder / NAME)
    except (OSError, ValueError):  # one of them is damaged
        return False
    return same


def _facts(path: Path) -> object:
    """Settings, or a summary's dataset version, without what depends on the clock."""
    data = storage.read_json(path)
    return data.get("dataset", data)


def page(job: Job, folder: Path) -> bytes:
    """On the newest version, or on the work so far if there is none."""
    from ...tasks.accounting import metrics
    from ...tasks.insight import report
    from . import run_folder

    ended = folder / SUMMARY
    facts = run_folder.json_in(ended) if storage.exists(ended) else {}
    settings = masking.value(run_folder.json_in(folder / SETTINGS))
    shown = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    with versions.reading(newest := versions.newest(job.out)):
        version = newest if facts else None
        return report.build(job, folder.name, version, facts, shown, folder / metrics.NAME)


def make(job: Job, folder: Path) -> None:
    text = page(job, folder)
    try:
        write_atomic(folder / NAME, text)
    except OSError as error:
        raise RunError(f"{folder / NAME} cannot be written: {owners.told(error, folder)}") from None


def main() -> None:
    from ...tasks.base import process_memory
    from ...tasks.stages import spawn_check

    spawn_check.die_with_parent(int(sys.argv[1]))
    with process_memory.importing():
        process_memory.without_pandas()
        job, folder = pickle.load(sys.stdin.buffer)
        from ...tasks.insight import report  # noqa: F401 - `make` imports it
    try:
        make(job, folder)
    except (MillError, OSError) as error:
        print(owners.words(error, folder), file=sys.stderr, flush=True)
        os._exit(1)  # on a normal exit, libraries may print what is not freed after this line


if __name__ == "__main__":
    main()
