"""Stage package: kept utterances in, one verified dataset version out.

An item is a packaged utterance. `gather` reads every shard's manifests once, in the order of names,
and writes ledger and plan into a staging folder; `write` and `check` do one piece (a tar) each, on
the workers; `publish` makes the version appear by one rename. What is published depends on the
recordings, the settings and the versions before, never on how they were grouped into work shards.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks import (
    blobs,
    corpuswide,
    datacard,
    decisions,
    layout,
    ledger,
    manifest,
    plugins,
    summary,
    versions,
    view,
)
from tasks.errors import RunError
from tasks.formats import Piece
from tasks.job import Job
from tasks.layout import Group
from tasks.manifest import Row
from tasks.schema import LEDGER, UTTERANCES
from tasks.shard import datasets
from tasks.stage import view_of

log = logging.getLogger("uttermill")

PACKAGE_VERSION = 2
# where a planned row's PCM lies; not published
SOURCE_COLUMNS = [("work_shard", pa.string()), ("blob", pa.string()), ("blob_offset", pa.int64())]
LAID_OUT = ("shard", "generation", "offset")  # columns that the layout fills in
REMOVED = view.Outcome("dropped", "shard", "source_removed")
PLAN = ".plan.arrow"  # a record batch for each group: a worker reads no other rows
PIECES = ".pieces.json"


def gather(job: Job, shards: Sequence[str]) -> dict[str, Any]:
    """Ledger and plan of the next version, in its staging folder; RunError when it is refused.

    Returns `{"fingerprint", "version", "staging", "new", "summary", "skew"}`; `new` is False, and
    nothing is staged, when the newest version holds exactly this already.
    """
    rows, table, utterances, frozen = decide(job, shards)
    decisions.save(job, utterances)
    _refuse(job, table, rows)
    newest = versions.newest(job.out)
    table = _with_removed(table, newest)
    counts = summary.of_ledger(table)
    print_ = fingerprint(job, rows, table, frozen)
    described = versions.described(newest) if newest else {}
    if newest and described.get("fingerprint") == print_:
        return {
            "fingerprint": print_, "version": versions.number(newest), "staging": "",
            "new": False, "summary": counts, "balance": described.get("balance", {}),
        }  # fmt: skip
    version = (versions.number(newest) if newest else 0) + 1
    staging = versions.stage(job.out)
    before = _before(newest) if newest else None
    package_before = described.get("settings", {}).get("package")
    groups = layout.lay_out(rows, job.package, version, before, package_before)
    balanced = _balanced(job, groups, rows)
    pieces = _pieces(job, groups, rows, newest, described, before)
    plan = _plan(job, groups, rows)
    (staging / PIECES).write_text(json.dumps([asdict(piece) for piece in pieces]))
    with pa.OSFile(str(staging / PLAN), "wb") as file, pa.ipc.new_file(file, plan.schema) as out:
        at = 0
        for group in groups:
            for batch in plan.slice(at, len(group.rows)).combine_chunks().to_batches():
                out.write_batch(batch)
            at += len(group.rows)
    pq.write_table(table, staging / "ledger.parquet", compression="zstd")
    pq.write_table(
        plan.drop_columns([name for name, _ in SOURCE_COLUMNS]),
        staging / "utterances.parquet", compression="zstd",
    )  # fmt: skip
    return {
        "fingerprint": print_, "version": version, "staging": str(staging), "new": True,
        "summary": counts, "balance": balanced, "frozen": frozen,
    }  # fmt: skip


class Decided(NamedTuple):
    """What is decided on all utterances, or on those of one shard."""

    rows: pa.Table  # to package, by id; columns of `_row_schema`
    ledger: pa.Table  # over all recordings, in the order of names
    utterances: pa.Table  # every utterance with its measures (`decisions`)
    frozen: dict[str, Any]  # bounds of corpus-wide verdicts


def decide(job: Job, shards: Sequence[str]) -> Decided:
    """Everything that this run's version would hold, and why the rest is not in it."""
    parts = {shard: _decided(job, shard, {}) for shard in shards}
    heard = _stacked(corpuswide.ROW, [part.heard for part in parts.values()])
    verdicts, frozen = _over_corpus(job, heard)
    hit = pc.is_in(heard["id"], pa.array(list(verdicts), pa.string()))
    for shard in pc.unique(heard["work_shard"].filter(hit)).to_pylist():
        parts[shard] = _decided(job, shard, verdicts)
    packaged = _stacked(_row_schema(job), [part.rows for part in parts.values()])
    packaged = packaged.take(pc.sort_indices(packaged["id"])).combine_chunks()
    _no_twins(packaged)
    table = _stacked(LEDGER, [part.ledger for part in parts.values()])
    order = pc.sort_indices(
        table, sort_keys=[("recording", "ascending"), ("start", "ascending"),
                          ("end", "ascending"), ("utterance", "ascending")],
    )  # fmt: skip
    asked = _stacked(decisions.schema_of(job), [part.utterances for part in parts.values()])
    return Decided(packaged, table.take(order), asked, frozen)


def corpus_verdicts(job: Job, shards: Sequence[str]) -> corpuswide.Verdicts:
    """Only those verdicts that need the whole corpus, by id."""
    if not corpuswide.takes_part(job):
        return {}
    heard = [_decided(job, shard, {}).heard for shard in shards]
    return _over_corpus(job, _stacked(corpuswide.ROW, heard))[0]


def _over_corpus(job: Job, heard: pa.Table) -> tuple[corpuswide.Verdicts, dict[str, Any]]:
    newest = versions.newest(job.out)
    before = versions.described(newest).get("frozen", {}) if newest else {}
    if not corpuswide.takes_part(job):
        return {}, before
    published = pq.read_table(newest / "utterances.parquet")["id"] if newest else pa.array([])
    return corpuswide.verdicts(job, heard, published.to_pylist(), before)


class _Part(NamedTuple):
    rows: pa.Table
    ledger: pa.Table
    utterances: pa.Table
    heard: pa.Table  # what corpus-wide verdicts are taken from


def _decided(job: Job, shard: str, verdicts: corpuswide.Verdicts) -> _Part:
    """One shard; `verdicts` are those of the whole corpus, which come last."""
    known = view_of(job, shard)
    utterances = []
    for utterance in known.decided():
        if utterance.outcome.outcome == "pending":  # its file changed under the run
            utterance.outcome = view.Outcome("failed", utterance.outcome.stage, "changed")
        elif verdicts and utterance.outcome.outcome == "packaged":
            utterance.outcome = verdicts.get(utterance.id, utterance.outcome)
        utterances.append(utterance)
    rows = [_row(job, shard, u) for u in utterances if u.outcome.outcome == "packaged"]
    heard = corpuswide.rows(job, shard, utterances) if corpuswide.takes_part(job) else []
    return _Part(
        pa.Table.from_pylist(rows, schema=_row_schema(job)),
        pa.Table.from_pylist(ledger.of_shard(known, utterances), schema=LEDGER),
        pa.Table.from_pylist(decisions.rows(job, utterances), schema=decisions.schema_of(job)),
        pa.Table.from_pylist(heard, schema=corpuswide.ROW),
    )


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


def _row_schema(job: Job) -> pa.Schema:
    """Columns of a row before it is laid out: those published, the measures, where its PCM is."""
    fields = [field for field in UTTERANCES if field.name not in LAID_OUT]
    for plugin in job.filter.filters:
        for column, (unit, doc) in plugins.load("filters", plugin.use).COLUMNS.items():
            fields.append(pa.field(column, pa.float64(), metadata={"doc": doc, "unit": unit}))
    return pa.schema([*fields, *SOURCE_COLUMNS])


def _before(newest: Path) -> pa.Table | None:
    """The newest version's utterances; None when an older release laid them out differently."""
    table = pq.read_table(newest / "utterances.parquet")
    return table if set(LAID_OUT) <= set(table.column_names) else None


def _balanced(job: Job, groups: list[Group], rows: pa.Table) -> dict[str, Any]:
    """How even the tars are for the readers; said in the log when they are not."""
    loads = layout.loads_of(groups, layout.seconds_of(rows))
    seconds, fraction = layout.worst(loads, job.package.readers)
    return {
        "readers": job.package.readers, "tars": len(groups),
        "worst_reader_extra_hours": round(seconds / 3600, 6),
        "worst_reader_extra_fraction": round(fraction, 6),
    }  # fmt: skip


def _pieces(
    job: Job,
    groups: list[Group],
    rows: pa.Table,
    newest: Path | None,
    described: dict[str, Any],
    before: pa.Table | None,
) -> list[Piece]:
    """What is to be written, format by format; with the file of the last version where it can
    stay."""
    pieces = []
    for name in job.package.formats:
        module = plugins.load("formats", name)
        same_version = described.get("formats", {}).get(name) == module.VERSION
        same = layout.same_as(groups, rows, before if same_version else None, module.COLUMNS)
        for index, (group, old) in enumerate(zip(groups, same, strict=True)):
            path = module.path(group.split, group.number)
            piece = Piece(name, path, index, len(group.rows))
            if old is not None and newest is not None:
                path = module.path(group.split, old)
                entry = described["files"][path]
                piece = replace(
                    piece, same_as=str(newest / path), sha256=entry["sha256"], size=entry["bytes"]
                )
            pieces.append(piece)
    return pieces


def _plan(job: Job, groups: list[Group], rows: pa.Table) -> pa.Table:
    """All rows in the order of the tars, with their places in those of the first format."""
    module = plugins.load("formats", job.package.formats[0])
    order = np.concatenate([group.rows for group in groups])
    table = rows.take(order)
    shards, generations, offsets = [], [], []
    at = 0
    for group in groups:
        count = len(group.rows)
        shards += [module.path(group.split, group.number)] * count
        generations += [group.generation] * count
        if hasattr(module, "offsets"):
            offsets.append(module.offsets(table.slice(at, count)))
        at += count
    places = {
        "shard": pa.array(shards, pa.string()),
        "generation": pa.array(generations, pa.int32()),
        "offset": pa.array(np.concatenate(offsets)) if offsets else pa.nulls(at, pa.int64()),
    }
    fields = {field.name: field for field in [*UTTERANCES, *table.schema]}
    schema = pa.schema([*UTTERANCES, *[f for n, f in fields.items() if n not in UTTERANCES.names]])
    columns = [places[n] if n in places else table[n] for n in schema.names]
    return pa.table(columns, schema=schema)


def _refuse(job: Job, table: pa.Table, rows: pa.Table) -> None:
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
    if not rows.num_rows:
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


def fingerprint(job: Job, rows: pa.Table, table: pa.Table, frozen: dict[str, Any]) -> str:
    """Hash of all that a version is made of; the layout follows from it and the versions before."""
    state = hashlib.sha256()
    for part in (rows.drop_columns([name for name, _ in SOURCE_COLUMNS]), table):
        for batch in part.to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                state.update(json.dumps(row, sort_keys=True).encode())
    formats = {name: plugins.load("formats", name).VERSION for name in job.package.formats}
    what = [PACKAGE_VERSION, datacard.settings(job), formats, frozen]
    state.update(json.dumps(what, sort_keys=True).encode())
    return state.hexdigest()


def pieces_of(staging: Path) -> list[Piece]:
    """What is to be written, in order."""
    return [Piece(**fields) for fields in json.loads((staging / PIECES).read_text())]


def _rows(staging: Path, piece: Piece) -> list[Row]:
    with pa.memory_map(str(staging / PLAN)) as file:
        rows: list[Row] = pa.ipc.open_file(file).get_batch(piece.group).to_pylist()
    return rows


def write(job: Job, staging: Path, piece: Piece) -> bool:
    """On a worker: write a piece, or link the last version's file when it is sound and the same.
    Returns whether it was linked. CorruptManifest when a blob is damaged."""
    # A dead worker's, and perhaps a link into a published version: never written through.
    (staging / piece.path).unlink(missing_ok=True)
    if piece.same_as:
        if versions.link(Path(piece.same_as), staging / piece.path, piece.sha256, piece.size):
            return True
        log.warning("%s is damaged or gone; the new version gets a new one", piece.same_as)
    rows = _rows(staging, piece)

    def pcm(row: Row) -> blobs.Pcm:
        return blobs.read(job.out, row["work_shard"], {**row, "offset": row["blob_offset"]})

    plugins.load("formats", piece.format).write(piece, rows, pcm, staging)
    return False


def check(staging: Path, piece: Piece) -> tuple[str, int]:
    """On a worker: reopen a piece, decode everything; (sha256, bytes) of its file."""
    faults = plugins.load("formats", piece.format).check(piece, _rows(staging, piece), staging)
    if faults:
        raise RunError(f"what was written does not read back: {'; '.join(faults[:3])}")
    return versions.hash_file(staging / piece.path)


def publish(
    job: Job, gathered: dict[str, Any], pieces: list[Piece], hashes: dict[str, tuple[str, int]]
) -> Path:
    """Lists, description and data card, then one rename. Returns the version's folder."""
    staging = Path(gathered["staging"])
    for name in job.package.formats:
        plugins.load("formats", name).finish([p for p in pieces if p.format == name], staging)
    (staging / PLAN).unlink()
    (staging / PIECES).unlink()
    table = pq.read_table(staging / "ledger.parquet")
    if gathered["summary"] != summary.of_ledger(table):
        raise RunError("the ledger on disk is not the one that was gathered; is the disk sound?")
    text = datacard.describe(job, gathered, staging, hashes)
    manifest.write_atomic(staging / "dataset.json", text)
    return versions.publish(job.out, staging, gathered["version"])
