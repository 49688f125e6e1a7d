"""Refuses a version that would hide a fault: missing sources, failures, nothing left to package."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks import plugins
from tasks.accounting import summary
from tasks.checkpoints import manifest
from tasks.checkpoints.manifest import Row
from tasks.errors import NothingLeft, RunError
from tasks.job import Job
from tasks.schema import LEDGER
from tasks.storage import tables

REMOVED = "source_removed"


def check(job: Job, ledger: pa.Table, rows: pa.Table, newest: Path | None) -> None:
    """RunError for more removed or failed recordings than the settings allow; NothingLeft if no row
    is left to package."""
    if newest is not None:
        _check_removed(job, ledger, newest)
    _check_failed(job, ledger)
    if not rows.num_rows:
        raise NothingLeft(
            "nothing is left to package: every recording was dropped or failed; see the ledger's "
            "reasons, and loosen filter.filters or transcribe.verdicts",
            summary.reasons(ledger),
        )


def _check_removed(job: Job, ledger: pa.Table, newest: Path) -> None:
    then = tables.read(newest / "ledger.parquet")
    live = then.filter(pc.not_equal(then["reason"], REMOVED))
    before = set(live["recording"].to_pylist())
    gone = before - set(ledger["recording"].to_pylist())
    limit = job.package.max_removed_fraction
    if before and len(gone) / len(before) > limit:
        gone -= _moved(job, gone)
    if before and len(gone) / len(before) > limit:
        raise RunError(
            f"{len(gone)} of the {len(before)} recordings of {newest.name} are gone from the "
            f"sources, more than package.max_removed_fraction ({limit:g}) allows; is a source "
            "not mounted? raise the setting if they were removed on purpose"
        )


def _moved(job: Job, gone: set[str]) -> set[str]:
    """Those of them whose content a source still has under another name."""
    present: set[str] = set()
    content_of: dict[str, str] = {}
    for shard in manifest.shards(job.out):
        for part in manifest.read(job.out, "shard", shard)[-1:]:
            for row in part.table.select(["recording", "content", "present"]).to_pylist():
                if row["present"] and row["content"]:
                    present.add(row["content"])
                elif row["recording"] in gone:
                    content_of[row["recording"]] = row["content"]
    return {name for name, content in content_of.items() if content in present}


def _check_failed(job: Job, ledger: pa.Table) -> None:
    exempt = [d.name for d in plugins.datasets(job.sources) if d.settings.expect_broken]
    strict = ledger.filter(pc.invert(pc.is_in(ledger["dataset"], pa.array(exempt, pa.string()))))
    counts = summary.of_ledger(strict)["recordings"]
    limit = job.package.max_failed_fraction
    if counts["in"] and counts["failed"] / counts["in"] > limit:
        raise RunError(
            f"{counts['failed']} of {counts['in']} recordings failed, more than "
            f"package.max_failed_fraction ({limit:g}) allows; raise it, or mark the source "
            "expect_broken"
        )


def with_removed(ledger: pa.Table, newest: Path | None) -> pa.Table:
    """The ledger with a row of no seconds for each recording that the previous version's ledger has
    and the sources no longer have."""
    if newest is None:
        return ledger
    now = set(ledger["recording"].to_pylist())
    gone: dict[str, Row] = {}
    for row in tables.read(newest / "ledger.parquet").to_pylist():
        if row["recording"] not in now:
            gone.setdefault(row["recording"], row)
    if not gone:
        return ledger
    nothing = {"start": 0.0, "end": 0.0, "samples": 0, "seconds": 0.0, "overlap_samples": 0}
    outcome = {"outcome": "dropped", "stage": "shard", "reason": REMOVED}
    kept = ("recording", "source_path", "dataset", "sample_rate")
    rows = [
        {**{name: row[name] for name in kept}, **nothing, **outcome}
        for _, row in sorted(gone.items())
    ]
    return pa.concat_tables([ledger, pa.Table.from_pylist(rows, schema=LEDGER)])
