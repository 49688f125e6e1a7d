"""Stage package: every kept utterance goes into one verified dataset version.

    gather      decide every utterance; write the tables and the plan into a staging folder
    write       write one output shard, or link the previous version's   } one worker call
    check       read an output shard back                                } each
    publish     lists, description and data card; then the version appears at once

An item is a packaged utterance. A version depends on the recordings, the settings and the versions
before it, never on how recordings were grouped into work shards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tasks import plugins, recipe, storage
from tasks.accounting import summary
from tasks.corpuswide import decisions
from tasks.dataset import datacard, versions
from tasks.errors import RunError
from tasks.job import Job
from tasks.packaging import contents, finish, layout, plan, safeguards, splits
from tasks.packaging.contents import Contents
from tasks.packaging.previous import PreviousVersion
from tasks.packaging.shards import check, write
from tasks.storage import tables

__all__ = ["check", "gather", "publish", "write"]

PACKAGE_VERSION = 2
TABLES = ("ledger.parquet", "utterances.parquet", splits.FILE)  # that `gather` writes


def gather(job: Job, shards: Sequence[str], scratch: Path | None = None) -> dict[str, Any]:
    """Stage the next version's tables and plan. RunError if the version is refused; for `scratch`
    see `contents.decide`.

    Returns `{"fingerprint", "version", "staging", "new", "summary", "balance", "changed"}`, and
    `frozen` and `split_lists` of a new version. If the newest version already holds exactly this,
    `new` is False and nothing is staged.
    """
    found = contents.decide(job, shards, scratch, strict=True)
    decisions.save(job, found.utterances)
    newest = versions.newest(job.out)
    safeguards.check(job, found.ledger, found.rows, newest)
    found = found._replace(ledger=safeguards.with_removed(found.ledger, newest))
    gathered = {
        "fingerprint": fingerprint(job, found),
        "summary": summary.of_ledger(found.ledger),
        "changed": found.changed,
    }
    version, previous = 1, None
    if newest:
        number, described = versions.number(newest), versions.described(newest)
        if described["fingerprint"] == gathered["fingerprint"]:
            same = {"version": number, "staging": "", "new": False, "balance": described["balance"]}
            return {**gathered, **same}
        rows = tables.read(newest / "utterances.parquet")
        version, previous = number + 1, PreviousVersion(newest, described, rows)
    staging = versions.stage(job.out, version)
    return {
        **gathered,
        "version": version,
        "staging": str(staging),
        "new": True,
        "balance": _stage(job, staging, version, found, previous),
        "frozen": found.frozen,
        "split_lists": found.split_lists,
    }


def _stage(
    job: Job, staging: Path, version: int, found: Contents, previous: PreviousVersion | None
) -> dict[str, Any]:
    """Write tables and plan into the staging folder; returns the balance of the layout."""
    settings_then = previous.described["settings"]["package"] if previous else None
    rows_then = previous.rows if previous else None
    groups = layout.lay_out(found.rows, job.package, version, rows_then, settings_then)
    with storage.of(staging).writing(staging, job.scratch) as home:
        published = plan.write(job, home, groups, found.rows, previous)
        pq.write_table(found.ledger, home / "ledger.parquet", compression="zstd")
        pq.write_table(published, home / "utterances.parquet", compression="zstd")
        if found.splits is not None:
            pq.write_table(found.splits, home / splits.FILE, compression="zstd")
    loads = layout.loads_of(groups, summary.seconds_of(found.rows))
    seconds, fraction = layout.worst(loads, job.package.readers)
    return {
        "readers": job.package.readers,
        "tars": len(groups),
        "worst_reader_extra_hours": round(seconds / 3600, 6),
        "worst_reader_extra_fraction": round(fraction, 6),
    }


def fingerprint(job: Job, found: Contents) -> str:
    """Hash of everything a version is made of; with the previous versions, it fixes the layout."""
    state = hashlib.sha256()
    rows = found.rows.drop_columns([name for name, _ in plan.SOURCE_COLUMNS])
    for table in (rows, found.ledger):
        for batch in table.to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                state.update(json.dumps(row, sort_keys=True).encode())
    formats = {p.use: plugins.load("formats", p.use).VERSION for p in job.package.formats}
    settings = recipe.settings_of(job)
    what = [PACKAGE_VERSION, settings, formats, found.frozen, found.split_lists]
    state.update(json.dumps(what, sort_keys=True).encode())
    return state.hexdigest()


def publish(job: Job, gathered: dict[str, Any]) -> Path:
    """Write lists, description and data card, then publish the version; returns its folder.
    RunError if the staged ledger is not the gathered one."""
    staging = storage.place(gathered["staging"])
    with finish.finished(job, staging) as (home, hashes):
        ledger = pq.read_table(home / "ledger.parquet")
        if gathered["summary"] != summary.of_ledger(ledger):
            raise RunError(
                "the ledger on disk is not the one that was gathered; is the disk sound?"
            )
        datacard.write(job, gathered, home, hashes)
        staged = {*hashes, *TABLES}
        return versions.publish(job.out, staging, gathered["version"], home, staged)
