"""OUT/runs/<id>/report.html: what a report is made of, and the process that makes it.

The report is made in a process of its own: it decodes rejected spans again, and a crash of a
native library on a broken file must not reach the run. Its memory is freed with it, too.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from flows.run import runs
from tasks import masking, storage
from tasks.dataset import versions
from tasks.errors import MillError, RunError
from tasks.job import Job
from tasks.storage import tables, write_atomic

log = logging.getLogger("uttermill")

NAME = "report.html"
TIMEOUT = 900.0  # s; a million utterances take about 20 s
#: The program of that process; its standard input begins with this process's module search path.
PROGRAM = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from flows.run.report import main; main()"
)


def of_run(job: Job, folder: Path, new: bool) -> None:
    """Write the report of a run that is ending. A failure is only logged: the run did its work."""
    try:
        if new or not _same_as_before(job.out, folder):
            write(job, folder)
        log.info("report: %s", job.out / "runs" / folder.name / NAME)
    except (MillError, OSError) as error:
        log.warning("no report was written: %s; try `uttermill report %s`", error, job.out)


def newest(out: Path) -> dict[str, Any]:
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
    """Link the report of the run before where it had the same settings and result; else False."""
    earlier = sorted(p for p in (out / "runs").glob(f"*/{NAME}") if p.parent.name != folder.name)
    if not earlier:
        return False
    before = earlier[-1].parent
    try:
        same = all(
            _facts(before / name) == _facts(folder / name)
            for name in ("settings.json", "summary.json")
        )
        if same:
            storage.of(out).fetch(earlier[-1], folder / NAME)
    except (OSError, ValueError):  # one of them is damaged
        return False
    return same


def _facts(path: Path) -> Any:
    """Settings, or a summary's dataset version: what does not depend on the clock."""
    data = json.loads(path.read_text())
    return data.get("dataset", data)


def request(job: Job, folder: Path) -> Any:
    """What the report shows: the newest version, or before the first one what is done so far."""
    from tasks import report
    from tasks.accounting import metrics, summary
    from tasks.checkpoints import manifest
    from tasks.packaging import contents

    told = folder / "summary.json"
    facts = json.loads(told.read_text()) if told.is_file() else {}
    settings = masking.value(json.loads((folder / "settings.json").read_text()))
    shown = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    costs = folder / metrics.NAME
    measured = tables.local(costs) if storage.exists(costs) else None
    version = versions.newest(job.out)
    if version is not None and facts:
        described = versions.described(version)
        counted = ["words", "word_errors", "chars", "char_errors"]
        kept = tables.read(version / "utterances.parquet", columns=counted)
        return report.Request(
            job,
            tables.local(version / "ledger.parquet"),
            described,
            folder.name,
            version.name,
            summary.errors(kept),
            facts,
            shown,
            described["libraries"],
            measured,
        )
    decided = contents.decide(job, manifest.shards(job.out))
    counts = summary.of_ledger(decided.ledger)
    return report.Request(
        job,
        decided.ledger,
        counts,
        folder.name,
        scores={},
        summary=facts,
        settings=shown,
        metrics=measured,
    )


def main() -> None:
    """Run in that process: reads job and folder from standard input."""
    from tasks import report
    from tasks.stages import process

    process.die_with_parent(int(sys.argv[1]))
    job, folder = pickle.load(sys.stdin.buffer)
    write_atomic(folder / NAME, report.build(request(job, folder)))
