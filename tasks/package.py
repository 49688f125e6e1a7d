"""Stage package: kept utterances in, one verified dataset version out.

An item is a packaged utterance. `gather` reads every shard's manifests once, in the order of names,
and writes ledger and plan into a staging folder; `write` and `check` do one piece (a tar) each, on
the workers; `publish` makes the version appear by one rename. What is published depends on the
recordings and settings alone, never on how they were grouped into work shards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks import blobs, datacard, ledger, manifest, plugins, summary, versions, view
from tasks.errors import RunError
from tasks.formats import Piece
from tasks.job import Job
from tasks.manifest import Row
from tasks.schema import LEDGER, UTTERANCES
from tasks.shard import datasets
from tasks.stage import view_of

PACKAGE_VERSION = 1
# where a planned row's PCM lies; not published
SOURCE_COLUMNS = [("work_shard", pa.string()), ("blob", pa.string()), ("blob_offset", pa.int64())]
REMOVED = view.Outcome("dropped", "shard", "source_removed")


def gather(job: Job, shards: Sequence[str]) -> dict[str, Any]:
    """Ledger and plan of the next version, in its staging folder; RunError when it is refused.

    Returns `{"fingerprint", "version", "staging", "pieces", "summary"}`; `pieces` is 0 when the
    newest version holds exactly this already.
    """
    rows, table = decide(job, shards)
    _refuse(job, table, rows)
    newest = versions.newest(job.out)
    table = _with_removed(table, newest)
    counts = summary.of_ledger(table)
    print_ = fingerprint(job, rows, table)
    if newest and versions.described(newest).get("fingerprint") == print_:
        return {
            "fingerprint": print_, "version": versions.number(newest), "staging": "",
            "pieces": 0, "summary": counts,
        }  # fmt: skip
    staging = versions.stage(job.out)
    by_id = {row["id"]: row for row in rows}
    pieces: list[Piece] = []
    for name in job.package.formats:
        module = plugins.load("formats", name)
        planned = module.plan(rows, job.package)
        if hasattr(module, "place"):
            module.place(planned, by_id)
        pieces += planned
    schema = _plan_schema(job)
    groups = [pa.Table.from_pylist([by_id[k] for k in p.ids], schema=schema) for p in pieces]
    with pq.ParquetWriter(staging / ".plan.parquet", schema) as writer:
        for group in groups:  # a row group a piece: a worker reads no other rows
            writer.write_table(group, row_group_size=group.num_rows)
    (staging / ".pieces.json").write_text(json.dumps([[p.format, p.path] for p in pieces]))
    first = job.package.formats[0]
    plan = pa.concat_tables(
        g for p, g in zip(pieces, groups, strict=True) if p.format == first
    ).combine_chunks()
    pq.write_table(table, staging / "ledger.parquet", compression="zstd")
    pq.write_table(
        plan.drop_columns([name for name, _ in SOURCE_COLUMNS]),
        staging / "utterances.parquet", compression="zstd",
    )  # fmt: skip
    return {
        "fingerprint": print_, "version": (versions.number(newest) if newest else 0) + 1,
        "staging": str(staging), "pieces": len(pieces), "summary": counts,
    }  # fmt: skip


def decide(job: Job, shards: Sequence[str]) -> tuple[list[Row], pa.Table]:
    """Rows to package, and the ledger over all recordings, both in the order of names."""
    rows: list[Row] = []
    tables = []
    for shard in shards:
        known = view_of(job, shard)
        utterances = []
        for utterance in known.decided():
            if utterance.outcome.outcome == "pending":  # its file changed under the run
                changed = view.Outcome("failed", utterance.outcome.stage, "changed")
                utterance.outcome = changed
            utterances.append(utterance)
        tables.append(pa.Table.from_pylist(ledger.of_shard(known, utterances), schema=LEDGER))
        rows += [_row(job, shard, u) for u in utterances if u.outcome.outcome == "packaged"]
    rows.sort(key=lambda row: row["id"])
    for before, after in pairwise(rows):
        if before["id"] == after["id"]:
            raise RunError(
                f"two utterances have the id {before['id']}; give the segments of "
                f"{before['recording']} different ids"
            )
    table = pa.concat_tables(tables) if tables else LEDGER.empty_table()
    order = pc.sort_indices(
        table, sort_keys=[("recording", "ascending"), ("start", "ascending"),
                          ("end", "ascending"), ("utterance", "ascending")],
    )  # fmt: skip
    return rows, table.take(order)


def _row(job: Job, shard: str, u: view.Utterance) -> Row:
    assert u.pcm is not None
    assert u.heard is not None
    text, source = view.final_text(job, u)
    heard = u.heard
    same = ("language", "language_probability", "avg_logprob", "no_speech_probability",
            "compression_ratio", "words", "word_errors", "chars", "char_errors")  # fmt: skip
    return {
        **u.measures, **{name: heard[name] for name in same},
        "id": u.id, "source_id": u.source_id, "dataset": u.recording["dataset"], "split": "train",
        "recording": u.recording["recording"], "source_path": u.recording["source_path"],
        "start": u.start / u.rate, "end": u.end / u.rate, "num_samples": u.pcm["num_samples"],
        "sample_rate": u.pcm["rate"], "text": text, "text_source": source,
        "hypothesis": heard["text"], "speaker": u.speaker, "sha256": u.pcm["sha256"],
        "work_shard": shard, "blob": u.pcm["blob"], "blob_offset": u.pcm["offset"],
    }  # fmt: skip


def _plan_schema(job: Job) -> pa.Schema:
    fields = list(UTTERANCES)
    for plugin in job.filter.filters:
        for column, (unit, doc) in plugins.load("filters", plugin.use).COLUMNS.items():
            fields.append(pa.field(column, pa.float64(), metadata={"doc": doc, "unit": unit}))
    return pa.schema([*fields, *SOURCE_COLUMNS])


def _refuse(job: Job, table: pa.Table, rows: Sequence[Row]) -> None:
    """RunError when what came in is so bad that publishing it would hide a fault."""
    newest = versions.newest(job.out)
    if newest:
        before = _recordings(pq.read_table(newest / "ledger.parquet"))
        gone = before - set(table["recording"].to_pylist())
        limit = job.package.max_removed_fraction
        if before and len(gone) / len(before) > limit:
            raise RunError(
                f"{len(gone)} of the {len(before)} recordings of {newest.name} are gone from the "
                f"sources, more than package.max_removed_fraction ({limit:g}) allows; is a source "
                "not mounted? raise the setting if they were removed on purpose"
            )
    exempt = [name for name, _, settings in datasets(job.sources) if settings.expect_broken]
    strict = table.filter(pc.invert(pc.is_in(table["dataset"], pa.array(exempt, pa.string()))))
    counts = summary.of_ledger(strict)["recordings"]
    limit = job.package.max_failed_fraction
    if counts["in"] and counts["failed"] / counts["in"] > limit:
        raise RunError(
            f"{counts['failed']} of {counts['in']} recordings failed, more than "
            f"package.max_failed_fraction ({limit:g}) allows; raise it, or mark the source "
            "expect_broken"
        )
    if not rows:
        raise RunError(
            "nothing is left to package: every recording was dropped or failed; see the ledger's "
            "reasons, and loosen filter.filters or transcribe.verdicts"
        )


def _recordings(table: pa.Table) -> set[str]:
    live = table.filter(pc.not_equal(table["reason"], "source_removed"))
    return set(live["recording"].to_pylist())


def _with_removed(table: pa.Table, newest: Path | None) -> pa.Table:
    """Add one row of no seconds for each recording that an earlier version had and that is gone."""
    if newest is None:
        return table
    now = set(table["recording"].to_pylist())
    gone: dict[str, Row] = {}
    for row in pq.read_table(newest / "ledger.parquet").to_pylist():
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


def fingerprint(job: Job, rows: Iterable[Row], table: pa.Table) -> str:
    """Hash of all that a version is made of: two equal ones would be the same bytes."""
    state = hashlib.sha256()
    for row in rows:
        kept = {k: v for k, v in row.items() if k not in ("work_shard", "blob", "blob_offset")}
        state.update(json.dumps(kept, sort_keys=True).encode())
    for row in table.to_pylist():
        state.update(json.dumps(row, sort_keys=True).encode())
    state.update(json.dumps([PACKAGE_VERSION, datacard.settings(job)], sort_keys=True).encode())
    return state.hexdigest()


def _piece(staging: Path, index: int) -> tuple[Piece, list[Row]]:
    name, path = json.loads((staging / ".pieces.json").read_text())[index]
    with pq.ParquetFile(staging / ".plan.parquet") as plan:
        rows: list[Row] = plan.read_row_group(index).to_pylist()
    return Piece(name, path, tuple(row["id"] for row in rows)), rows


def write(job: Job, staging: Path, index: int) -> None:
    """On a worker: write piece `index`. CorruptManifest when a blob is damaged."""
    piece, rows = _piece(staging, index)

    def pcm(row: Row) -> blobs.Pcm:
        return blobs.read(job.out, row["work_shard"], {**row, "offset": row["blob_offset"]})

    plugins.load("formats", piece.format).write(piece, rows, pcm, staging)


def check(staging: Path, index: int) -> tuple[str, int]:
    """On a worker: reopen piece `index`, decode everything; (sha256, bytes) of its file."""
    piece, rows = _piece(staging, index)
    faults = plugins.load("formats", piece.format).check(piece, rows, staging)
    if faults:
        raise RunError(f"what was written does not read back: {'; '.join(faults[:3])}")
    return versions.hash_file(staging / piece.path)


def publish(job: Job, gathered: dict[str, Any], hashes: dict[str, tuple[str, int]]) -> Path:
    """Lists, description and data card, then one rename. Returns the version's folder."""
    staging = Path(gathered["staging"])
    pieces = [_piece(staging, index)[0] for index in range(gathered["pieces"])]
    for name in job.package.formats:
        plugins.load("formats", name).finish([p for p in pieces if p.format == name], staging)
    (staging / ".plan.parquet").unlink()
    (staging / ".pieces.json").unlink()
    table = pq.read_table(staging / "ledger.parquet")
    if gathered["summary"] != summary.of_ledger(table):
        raise RunError("the ledger on disk is not the one that was gathered; is the disk sound?")
    text = datacard.describe(job, gathered, staging, hashes)
    manifest.write_atomic(staging / "dataset.json", text)
    return versions.publish(job.out, staging, gathered["version"])


def pieces_of(staging: Path) -> list[str]:
    """Paths of the pieces, in order."""
    return [piece[1] for piece in json.loads((staging / ".pieces.json").read_text())]
