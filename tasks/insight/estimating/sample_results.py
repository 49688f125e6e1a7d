"""The results of a sample: kept seconds and bytes of each recording, and bytes of packaged clips.

Nothing is published: the functions of `package` write and check output shards in a temporary
folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import storage
from ...accounting import ledger, summary
from ...base.json_types import Reason
from ...publish import foreseen
from ...publish.choosing import clip_choice, weights
from ...publish.outcomes import shard_outcomes
from ...publish.output_shards import format_shards, layout
from ...publish.output_shards import plan as packaging_plan
from ...settings.job import Job
from ...shard_store import manifest
from ...stages import contract, stage
from ...stages.stage import view_of
from ...storage import tables
from .sample import Member, member

PACKAGED = 3600.0  # s of the sample, approximately, that are packaged on trial
FRAME = [
    *("recording", "dataset", "path", "format", "size"),
    *("header_seconds", "error_code", "present"),
]


@dataclass(slots=True)
class SampleResult:
    """The outcome of one recording."""

    kept: float = 0.0  # s that would be packaged, before corpus-wide rules
    pcm: int = 0  # bytes of its resampled audio
    pending: bool = False  # whether some of it is still to be computed
    lost: dict[str, tuple[int, float]] = field(default_factory=dict)  # (items, s) by reason
    scored: int = 0  # transcribed utterances with a reference
    words: int = 0
    word_errors: int = 0


class SampleOutcome(TypedDict):
    """Results of the sample as a whole: rejections by reason, and the word error rate of kept
    utterances (`scored`: those with a reference)."""

    reasons: dict[str, Reason]
    scored: int
    wer: float | None


class TrialPlan(TypedDict):
    """Clips that are packaged on trial."""

    shards: list[int]  # numbers of their output shards
    clips: int
    seconds: float
    tables: int  # bytes of utterances.parquet


def frame(out: Path, shards: Iterable[str]) -> tuple[list[Member], int]:
    """All readable recordings in these shards, and the number of unreadable ones."""
    members, failed = [], 0
    for shard in shards:
        for row in manifest.listed(out, shard).select(FRAME).to_pylist():
            if row["present"] and row["error_code"]:
                failed += 1
            elif row["present"]:
                members.append(member(row, shard))
    return members, failed


def known(
    job: Job, shards: Iterable[str], sampled: Collection[str] | None = None
) -> dict[str, SampleResult]:
    """The results of every recording whose work is done, in the sample or before. For recordings
    that are not in `sampled` (None: all are), only `kept` is filled in."""
    results: dict[str, SampleResult] = {}
    nothing: dict[str, tuple[int, float]] = {}  # shared, because there may be millions of results
    for shard in shards:
        for name, seen in _known(job, shard):
            if not seen.pending:
                bare = sampled is not None and name not in sampled
                results[name] = SampleResult(seen.kept, lost=nothing) if bare else seen
    return results


def _known(job: Job, shard: str) -> Iterator[tuple[str, SampleResult]]:
    view = view_of(job, shard)
    if not view.cuts:
        return
    cuts = ((row["recording"], view.cut_of(row)) for row in view.processed)
    results = {name: SampleResult() for name, cut in cuts if cut is not None and cut.known}
    utterances, packaged_clips = [*view.transcribed()], []
    for span in ledger.of_shard(view, utterances):
        if span["recording"] in results and span["outcome"] != "packaged":
            lost = results[span["recording"]].lost
            items, seconds = lost.get(reason := f"{span['stage']}.{span['reason']}", (0, 0.0))
            lost[reason] = items + 1, seconds + span["seconds"]
    for utterance in utterances:
        seen = results[utterance.cut.recording["recording"]]
        if utterance.heard.pcm is not None and not utterance.heard.pcm["error_code"]:
            clips = 2 if utterance.cut.enhanced else 1
            seen.pcm += 2 * utterance.heard.pcm["num_samples"] * clips
        seen.pending |= utterance.outcome.outcome == "pending"
        if utterance.outcome.outcome != "packaged":
            continue
        packaged_clips.append(utterance)
        if utterance.heard.transcript and utterance.heard.transcript["words"]:
            seen.scored += 1
            seen.words += utterance.heard.transcript["words"]
            seen.word_errors += utterance.heard.transcript["word_errors"] or 0
    rows = shard_outcomes.rows_of(view, packaged_clips, strict=False)
    draw, weight = weights.draws(job.package, rows)
    stays = clip_choice.chosen(job.package, rows) & ~(draw >= weight)
    for utterance, stay in zip(packaged_clips, stays, strict=True):
        if stay:
            results[utterance.cut.recording["recording"]].kept += utterance.cut.seconds
    yield from results.items()


def results_of(sampled: Iterable[SampleResult]) -> SampleOutcome:
    """The sums over the sampled recordings."""
    lost: dict[str, Reason] = {}
    scored = words = errors = 0
    for seen in sampled:
        scored, words, errors = scored + seen.scored, words + seen.words, errors + seen.word_errors
        for reason, (items, seconds) in seen.lost.items():
            entry = lost.setdefault(reason, {"items": 0, "seconds": 0.0})
            entry["items"] += items
            entry["seconds"] = round(entry["seconds"] + seconds, 6)
    return {
        "reasons": dict(sorted(lost.items())),
        "scored": scored,
        "wer": errors / words if words else None,
    }


def manifest_bytes(job: Job, shards: Sequence[str]) -> tuple[int, float]:
    """Bytes of a sample's rows in the checkpoints of all stages, and bytes of the files of one
    shard without rows (footers)."""
    rows, empty = 0, 0
    for name in stage.PER_SHARD:
        schema = contract.find(name).SCHEMA
        bare = _parquet(schema.empty_table())
        empty += bare
        parts = [
            part.table.select(schema.names).cast(schema)
            for shard in shards
            for part in manifest.read(job.out, name, shard)
        ]
        if parts:
            rows += max(0, _parquet(pa.concat_tables(parts)) - bare)
    return rows, float(empty)


def _parquet(table: pa.Table) -> int:
    return len(
        tables.parquet(table, compression="lz4", use_dictionary=False, write_statistics=False)
    )


def plan(job: Job, shards: Sequence[str], staging: Path) -> TrialPlan:
    """On a worker: lay out up to PACKAGED seconds of the sample's kept clips, in the order of their
    hashes, without splits and weights: splits only move clips, and `known` applies the weights.
    """
    bare = job.package.model_copy(update={"splits": {}, "weights": {}})
    job = replace(job, package=bare)
    with foreseen.version(job, shards) as version:
        rows = version.clips(shard_outcomes.row_schema(job).names)
    rows = rows.filter(pc.is_valid(rows["blob"]))  # no pending utterances
    rows = rows.sort_by([("sha256", "ascending"), ("id", "ascending")])
    seconds = summary.seconds_of(rows)
    rows = rows.filter(pa.array(np.cumsum(seconds) - seconds < PACKAGED)).combine_chunks()
    if not rows.num_rows:
        return {"shards": [], "clips": 0, "seconds": 0.0, "tables": 0}
    clips = layout.clips_of(rows, job.package)
    groups = layout.lay_out_clips(clips, job.package, 1)
    rows = rows.take(np.concatenate([group.rows for group in groups]))
    derived = format_shards.all_derived(job, rows.schema, rows.select)
    planned = [group.planned() for group in groups]
    published = packaging_plan.write(job, staging, planned, rows, derived)
    return {
        "shards": [*packaging_plan.numbered(staging)],
        "clips": rows.num_rows,
        "seconds": float(clips.seconds.sum()),
        "tables": _parquet(published),
    }


def bytes_of(staging: Path) -> dict[str, int]:
    """Bytes of the written output shards, by format."""
    sizes: dict[str, int] = {}
    for shard in packaging_plan.numbered(staging).values():
        size = sum(storage.of(staging).size(staging / path) for path in shard.files)
        sizes[shard.format] = sizes.get(shard.format, 0) + size
    return sizes
