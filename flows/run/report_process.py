"""Makes a report, on a worker of the run or in a process of its own; `tasks/report/` has its
contents."""

from __future__ import annotations

import json
import pickle
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tasks import masking, storage
from tasks.dataset import versions
from tasks.job import Job
from tasks.schema import LEDGER_FILE
from tasks.storage import write_atomic

if TYPE_CHECKING:
    from tasks.report import Request

NAME = "report.html"  # in the run's folder


def request(job: Job, folder: Path) -> Request:
    """The request for a report: on the newest version, or on the work so far if there is none."""
    from tasks import report
    from tasks.accounting import metrics, summary
    from tasks.checkpoints import manifest
    from tasks.packaging import contents

    told = folder / "summary.json"
    facts = json.loads(told.read_text()) if told.is_file() else {}
    settings = masking.value(json.loads((folder / "settings.json").read_text()))
    shown = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    costs = folder / metrics.NAME
    measured = storage.of(costs).local(costs) if storage.exists(costs) else None
    asked = partial(
        report.Request,
        job,
        run=folder.name,
        summary=facts,
        settings=shown,
        metrics=measured,
        earlier=before(job.out, folder),
    )
    version = versions.newest(job.out)
    if version is None or not facts:
        judged = contents.of_shards(job, manifest.shards(job.out))
        return asked(ledger=judged.ledger, counts=summary.of_ledger(judged.ledger))
    described = versions.described(version)
    return asked(
        ledger=version / LEDGER_FILE,
        counts=described,
        version=version.name,
        scores=summary.errors_of(version),
        libraries=described["libraries"],
    )


def before(out: Path, folder: Path) -> Path | None:
    """The newest report of another run than that in `folder`."""
    found = (path for path in (out / "runs").glob(f"*/{NAME}") if path.parent.name != folder.name)
    return max(found, default=None)


def make(job: Job, folder: Path) -> None:
    """Write the report of the run in `folder`."""
    from tasks import report

    write_atomic(folder / NAME, report.build(request(job, folder)))


def main() -> None:
    """Reads job and folder from standard input, and writes the report."""
    from tasks import lean
    from tasks.stages import process

    lean.without_search_at_exit()
    process.die_with_parent(int(sys.argv[1]))
    with lean.importing():
        lean.without_pandas()
        job, folder = pickle.load(sys.stdin.buffer)
        from tasks import report  # noqa: F401 - `make` imports it
    lean.search_as_usual()  # `report.PROGRAM` made it seldom
    make(job, folder)
