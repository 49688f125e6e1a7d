"""Stage package: kept utterances in, one verified dataset version out.

An item is a packaged utterance. `gather` reads every shard's manifests once, in the order of names,
and writes ledger and plan into a staging folder; `pieces.write` and `pieces.check` do one piece (a
tar) each, on the workers; `publish` makes the version appear by one rename, or by one exclusive put
on an object store. What is published
depends on the recordings, the settings and the versions before, never on how they were grouped into
work shards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks import corpuswide, plugins, recipe, storage
from tasks.accounting import summary
from tasks.checkpoints import manifest
from tasks.checkpoints.manifest import Row
from tasks.checkpoints.utterance import Outcome
from tasks.corpuswide import decisions, late
from tasks.dataset import datacard, versions
from tasks.errors import NothingLeft, RunError
from tasks.job import Job
from tasks.packaging import decided, finish, layout, plan, sharing, splits
from tasks.packaging.layout import Group
from tasks.packaging.previous import PreviousVersion
from tasks.schema import LEDGER
from tasks.storage import tables

PACKAGE_VERSION = 2
TABLES = ("ledger.parquet", "utterances.parquet", splits.FILE)  # that `gather` writes
REMOVED = Outcome("dropped", "shard", "source_removed")


def gather(job: Job, shards: Sequence[str], scratch: Path | None = None) -> dict[str, Any]:
    """Ledger and plan of the next version, in its staging folder; RunError when it is refused.
    For `scratch` see `decide`.

    Returns `{"fingerprint", "version", "staging", "new", "summary", "balance", "changed"}`; `new`
    is False, and nothing is staged, when the newest version holds exactly this already.
    """
    rows, table, utterances, frozen, sides, lists, changed = decide(job, shards, scratch, True)
    decisions.save(job, utterances)
    _refuse(job, table, rows)
    newest = versions.newest(job.out)
    table = _with_removed(table, newest)
    counts = summary.of_ledger(table)
    print_ = fingerprint(job, rows, table, frozen, lists)
    described = versions.described(newest) if newest else {}
    if newest and described.get("fingerprint") == print_:
        return {
            "fingerprint": print_, "version": versions.number(newest), "staging": "",
            "new": False, "summary": counts, "balance": described.get("balance", {}),
            "changed": changed,
        }  # fmt: skip
    version = (versions.number(newest) if newest else 0) + 1
    staging = versions.stage(job.out, version)
    before = _before(newest, described) if newest else None
    package_before = described.get("settings", {}).get("package")
    rows_before = before.rows if before else None
    groups = layout.lay_out(rows, job.package, version, rows_before, package_before)
    balanced = _balanced(job, groups, rows)
    with storage.of(staging).writing(staging, job.scratch) as home:
        published = plan.write(job, home, groups, rows, before)
        pq.write_table(table, home / "ledger.parquet", compression="zstd")
        pq.write_table(published, home / "utterances.parquet", compression="zstd")
        if sides is not None:
            pq.write_table(sides, home / splits.FILE, compression="zstd")
    return {
        "fingerprint": print_, "version": version, "staging": str(staging), "new": True,
        "summary": counts, "balance": balanced, "frozen": frozen, "split_lists": lists,
        "changed": changed,
    }  # fmt: skip


class Decided(NamedTuple):
    """What is decided on all utterances, or on those of one shard."""

    rows: pa.Table  # to package, by id; columns of `decided.row_schema`
    ledger: pa.Table  # over all recordings, in the order of names
    utterances: pa.Table  # every utterance with its measures (`decisions`)
    frozen: dict[str, Any]  # bounds of corpus-wide verdicts
    splits: pa.Table | None  # `splits.parquet`, where splits are asked for
    split_lists: dict[str, Any]  # what the lists of splits said
    changed: list[str]  # shards with recordings that changed under the run


def decide(
    job: Job, shards: Sequence[str], scratch: Path | None = None, strict: bool = False
) -> Decided:
    """Everything that this run's version would hold, and why the rest is not in it. In `scratch`
    lies what the workers decided on many shards; for `strict` see `decided.of_shard`."""
    parts: dict[str, decided.Part] = {}
    for home, some in decided.batches(shards, scratch) if scratch else []:
        parts |= decided.load(some, home)
    parts = parts or {shard: decided.of_shard(job, shard, strict=strict) for shard in shards}
    heard = _stacked(corpuswide.ROW, [part.heard for part in parts.values()])
    verdicts, frozen = _over_corpus(job, heard)
    packaged = _stacked(decided.row_schema(job), [part.rows for part in parts.values()])
    packaged = packaged.take(pc.sort_indices(packaged["id"])).combine_chunks()
    _no_twins(packaged)
    rest = packaged.filter(pc.invert(_among(packaged["id"], verdicts)))
    shared = sharing.share(job, rest, versions.newest(job.out))
    verdicts = {**verdicts, **shared.verdicts}
    hit = packaged.filter(_among(packaged["id"], verdicts))
    overlap = late.overlapping(_stacked(LEDGER, [part.ledger for part in parts.values()]))
    again = hit["work_shard"].filter(pc.is_in(hit["recording"], overlap))
    for shard in pc.unique(again).to_pylist():
        parts[shard] = decided.of_shard(job, shard, verdicts, strict)
    table = _stacked(LEDGER, [part.ledger for part in parts.values()])
    table = late.put(table, "utterance", verdicts)
    order = pc.sort_indices(
        table, sort_keys=[("recording", "ascending"), ("start", "ascending"),
                          ("end", "ascending"), ("utterance", "ascending")],
    )  # fmt: skip
    asked = _stacked(decisions.schema_of(job), [part.utterances for part in parts.values()])
    asked = late.put(asked, "id", verdicts)
    changed = [shard for shard, part in parts.items() if _holds(part.ledger["reason"], "changed")]
    return Decided(
        shared.rows, table.take(order), asked, frozen, shared.table, shared.lists, changed
    )


def _holds(column: pa.ChunkedArray, text: str) -> bool:
    return bool(pc.any(pc.equal(column, text)).as_py())


def _among(ids: pa.ChunkedArray, chosen: Iterable[str]) -> pa.ChunkedArray:
    return pc.is_in(ids, pa.array(list(chosen), pa.string()))


def corpus_verdicts(job: Job, shards: Sequence[str]) -> corpuswide.Verdicts:
    """Only those verdicts that need the whole corpus, by id."""
    if not corpuswide.takes_part(job):
        return {}
    heard = [decided.of_shard(job, shard).heard for shard in shards]
    return _over_corpus(job, _stacked(corpuswide.ROW, heard))[0]


def _over_corpus(job: Job, heard: pa.Table) -> tuple[corpuswide.Verdicts, dict[str, Any]]:
    newest = versions.newest(job.out)
    before = versions.described(newest).get("frozen", {}) if newest else {}
    if not corpuswide.takes_part(job):
        return {}, before
    published = tables.read(newest / "utterances.parquet")["id"] if newest else pa.array([])
    return corpuswide.verdicts(job, heard, published.to_pylist(), before)


def _stacked(schema: pa.Schema, tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *tables])


def _no_twins(packaged: pa.Table) -> None:
    """RunError when two rows, in the order of ids, have the same id."""
    ids = packaged["id"]
    twice = pc.equal(ids[1:], ids[:-1]).to_pylist() if len(ids) > 1 else []
    if True in twice:
        row = packaged.slice(twice.index(True), 1).to_pylist()[0]
        raise RunError(
            f"two utterances have the id {row['id']}; give the segments of {row['recording']} "
            "different ids"
        )


def _before(newest: Path, described: dict[str, Any]) -> PreviousVersion | None:
    """The newest version; None when an older release laid it out differently."""
    table = tables.read(newest / "utterances.parquet")
    if not set(plan.LAYOUT_COLUMNS) <= set(table.column_names):
        return None
    return PreviousVersion(newest, described, table)


def _balanced(job: Job, groups: list[Group], rows: pa.Table) -> dict[str, Any]:
    """How even the tars are for the readers; said in the log when they are not."""
    loads = layout.loads_of(groups, summary.seconds_of(rows))
    seconds, fraction = layout.worst(loads, job.package.readers)
    return {
        "readers": job.package.readers, "tars": len(groups),
        "worst_reader_extra_hours": round(seconds / 3600, 6),
        "worst_reader_extra_fraction": round(fraction, 6),
    }  # fmt: skip


def _refuse(job: Job, table: pa.Table, rows: pa.Table) -> None:
    """RunError when what came in is so bad that publishing it would hide a fault."""
    newest = versions.newest(job.out)
    if newest:
        before = _recordings(tables.read(newest / "ledger.parquet"))
        gone = before - set(table["recording"].to_pylist())
        limit = job.package.max_removed_fraction
        if before and len(gone) / len(before) > limit:
            gone -= _moved(job, gone)
        if before and len(gone) / len(before) > limit:
            raise RunError(
                f"{len(gone)} of the {len(before)} recordings of {newest.name} are gone from the "
                f"sources, more than package.max_removed_fraction ({limit:g}) allows; is a source "
                "not mounted? raise the setting if they were removed on purpose"
            )
    exempt = [d.name for d in plugins.datasets(job.sources) if d.settings.expect_broken]
    strict = table.filter(pc.invert(pc.is_in(table["dataset"], pa.array(exempt, pa.string()))))
    counts = summary.of_ledger(strict)["recordings"]
    limit = job.package.max_failed_fraction
    if counts["in"] and counts["failed"] / counts["in"] > limit:
        raise RunError(
            f"{counts['failed']} of {counts['in']} recordings failed, more than "
            f"package.max_failed_fraction ({limit:g}) allows; raise it, or mark the source "
            "expect_broken"
        )
    if not rows.num_rows:
        raise NothingLeft(
            "nothing is left to package: every recording was dropped or failed; see the ledger's "
            "reasons, and loosen filter.filters or transcribe.verdicts", summary.reasons(table)
        )  # fmt: skip


def _moved(job: Job, gone: set[str]) -> set[str]:
    """Those of them whose bytes a source still has, under another name."""
    held: set[str] = set()
    was: dict[str, str] = {}
    for shard in manifest.shards(job.out):
        for part in manifest.read(job.out, "shard", shard)[-1:]:
            for row in part.table.select(["recording", "content", "present"]).to_pylist():
                if row["present"] and row["content"]:
                    held.add(row["content"])
                elif row["recording"] in gone:
                    was[row["recording"]] = row["content"]
    return {name for name, content in was.items() if content in held}


def _recordings(table: pa.Table) -> set[str]:
    live = table.filter(pc.not_equal(table["reason"], "source_removed"))
    return set(live["recording"].to_pylist())


def _with_removed(table: pa.Table, newest: Path | None) -> pa.Table:
    """Add one row of no seconds for each recording that an earlier version had and that is gone."""
    if newest is None:
        return table
    now = set(table["recording"].to_pylist())
    gone: dict[str, Row] = {}
    for row in tables.read(newest / "ledger.parquet").to_pylist():
        if row["recording"] not in now:
            gone.setdefault(row["recording"], row)
    if not gone:
        return table
    rows = [
        {
            "recording": name, "source_path": row["source_path"], "dataset": row["dataset"],
            "start": 0.0, "end": 0.0, "samples": 0, "seconds": 0.0, "overlap_samples": 0,
            "sample_rate": row["sample_rate"], "outcome": REMOVED.outcome, "stage": REMOVED.stage,
            "reason": REMOVED.reason,
        }
        for name, row in sorted(gone.items())
    ]  # fmt: skip
    return pa.concat_tables([table, pa.Table.from_pylist(rows, schema=LEDGER)])


def fingerprint(
    job: Job, rows: pa.Table, table: pa.Table, frozen: dict[str, Any], lists: dict[str, Any]
) -> str:
    """Hash of all that a version is made of; the layout follows from it and the versions before."""
    state = hashlib.sha256()
    for part in (rows.drop_columns([name for name, _ in plan.SOURCE_COLUMNS]), table):
        for batch in part.to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                state.update(json.dumps(row, sort_keys=True).encode())
    formats = {p.use: plugins.load("formats", p.use).VERSION for p in job.package.formats}
    what = [PACKAGE_VERSION, recipe.settings_of(job), formats, frozen, lists]
    state.update(json.dumps(what, sort_keys=True).encode())
    return state.hexdigest()


def publish(job: Job, gathered: dict[str, Any]) -> Path:
    """Lists, description and data card, then all at once. Returns the version's folder."""
    staging = storage.place(gathered["staging"])
    with finish.finished(job, staging) as (home, hashes):
        table = pq.read_table(home / "ledger.parquet")
        if gathered["summary"] != summary.of_ledger(table):
            raise RunError(
                "the ledger on disk is not the one that was gathered; is the disk sound?"
            )
        datacard.write(job, gathered, home, hashes)
        staged = {*hashes, *TABLES}
        return versions.publish(job.out, staging, gathered["version"], home, staged)
