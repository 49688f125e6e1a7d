"""Draws a stratified sample of recordings; the same input gives the same sample.

Strata are (dataset, format, length class). If EACH recordings of every stratum would exceed twice
the requested sample, formats are merged, then lengths. The recordings of a stratum are ordered by a
hash of seed and name, so that a larger sample contains a smaller one, and new recordings change the
sample little.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import storage
from ...accounting import summary
from ...accounting.ledger import PENDING
from ...base.json_types import JsonObject, Reason
from ...base.schema import RecordingRow
from ...publish import foreseen, published_columns
from ...publish.choosing import split_input
from ...publish.outcomes.shard_batches import LIMITS, ShardBatch, unheard
from ...publish.output_shards import format_shards, layout
from ...publish.output_shards import plan as packaging_plan
from ...settings.job import Job
from ...shard_store import clip_choice, manifest, recipe, requests
from ...stages import contract, stage
from ...stages.listing.shard_choice import seconds_of
from ...storage import tables

LENGTHS = (5.0, 30.0, 600.0)  # s: bounds of the length classes
EACH = 2  # recordings of every stratum, at least, if it has them


@dataclass(frozen=True, slots=True)
class Member:
    """The facts on a recording that a draw uses; `seconds` from its header, or guessed from its
    size."""

    recording: str
    shard: str
    dataset: str
    format: str
    seconds: float

    @property
    def length(self) -> int:
        """Index of the recording's length class."""
        return sum(self.seconds >= bound for bound in LENGTHS)


Key = tuple[str | int, ...]
#: Ways to divide recordings, from fine to coarse; the first with few enough strata is used.
KEYS = (("dataset", "format", "length"), ("dataset", "length"), ("dataset",), ())


def member(row: RecordingRow, shard: str) -> Member:
    """A member from a row of RECORDINGS; its format is the extension or, without one, the codec."""
    ending = PurePosixPath(row["path"]).suffix.lower().lstrip(".") or str(row["format"] or "")
    return Member(row["recording"], shard, row["dataset"], ending, max(seconds_of(row), 0.01))


def size(population: int, fraction: float, least: int) -> int:
    """The number of recordings to draw."""
    return min(population, max(least, round(fraction * population)))


def strata(members: Iterable[Member], wanted: int) -> dict[Key, list[Member]]:
    """The recordings by stratum, for a sample of about `wanted`."""
    every = list(members)
    for names in KEYS:
        by_key: dict[Key, list[Member]] = {}
        for recording in every:
            key = tuple(getattr(recording, name) for name in names)
            by_key.setdefault(key, []).append(recording)
        if sum(min(EACH, len(stratum)) for stratum in by_key.values()) <= 2 * wanted:
            break
    return dict(sorted(by_key.items()))


def draw(members: Iterable[Member], wanted: int, seed: int) -> dict[Key, list[Member]]:
    """The sample by stratum, in proportion to the strata's audio, at least EACH of each; `wanted`
    in total, or more if the strata need it."""
    population = strata(members, wanted)
    counts = allocate(
        [len(stratum) for stratum in population.values()],
        [sum(m.seconds for m in stratum) for stratum in population.values()],
        wanted,
    )

    def place(one: Member) -> bytes:
        return hashlib.sha256(f"{seed} {one.recording}".encode()).digest()

    return {
        key: sorted(stratum, key=place)[:count]
        for (key, stratum), count in zip(population.items(), counts, strict=True)
    }


def allocate(sizes: Sequence[int], seconds: Sequence[float], wanted: int) -> list[int]:
    """The number of recordings to draw from each stratum: the next one always comes from the
    stratum in which a sampled recording represents the most audio (highest averages, D'Hondt)."""
    counts = [min(EACH, size) for size in sizes]
    open_ = {i for i, size in enumerate(sizes) if counts[i] < size}
    for _ in range(wanted - sum(counts)):
        if not open_:
            break
        best = max(open_, key=lambda i: (seconds[i] / (counts[i] + 1), -i))
        counts[best] += 1
        if counts[best] == sizes[best]:
            open_.remove(best)
    return counts


# The results of a sample: kept seconds and bytes of each recording, and bytes of packaged clips.
#
# Nothing is published: the functions of `package` write and check output shards in a temporary
# folder.


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
    with foreseen.version(job, [*shards]) as version:
        for batch in version.batches:
            for name, seen in _known(job, batch).items():
                if not seen.pending:
                    bare = sampled is not None and name not in sampled
                    results[name] = SampleResult(seen.kept, lost=nothing) if bare else seen
    return results


def _known(job: Job, batch: ShardBatch) -> dict[str, SampleResult]:
    """The results of a batch's recordings that are readable."""
    results: dict[str, SampleResult] = {}
    keys = ["recording", "outcome", "stage", "reason"]
    spans = batch.ledger().select([*keys, "seconds"]).group_by(keys, use_threads=False)
    for some in spans.aggregate([("seconds", "count"), ("seconds", "sum")]).to_pylist():
        if some["stage"] == "shard" and some["outcome"] == "failed":
            continue
        seen = results.setdefault(some["recording"], SampleResult())
        seen.pending |= some["outcome"] == PENDING
        if some["outcome"] != "packaged":
            reason = f"{some['stage']}.{some['reason']}"
            items, seconds = seen.lost.get(reason, (0, 0.0))
            seen.lost[reason] = items + some["seconds_count"], seconds + some["seconds_sum"]
    rows, outcomes = replace(batch, decided=None).table("rows.arrow"), batch.outcomes()
    passed = pc.invert(unheard(outcomes))
    packaged = pc.equal(outcomes["outcome"], "packaged")
    draw, weight = split_input.weight_draws(job.package, rows)
    stays = clip_choice.chosen(job.package, rows) & ~(draw >= weight)
    words = pc.fill_null(rows["words"], 0)
    scored = pc.and_(packaged, pc.greater(words, 0))
    copies = pa.scalar(1 + recipe.enhancing(job))
    if requests.writes_sides(job):
        copies = pc.add(copies, pc.if_else(rows["left_blob"].is_valid(), 2, 0))
    pcm = pc.multiply(rows["num_samples"], pc.multiply(copies, 2))  # bytes
    # Bytes of the PCM of turns that are heard in their own channels:
    if requests.asks_channels(job):
        turns, rates = (rows[name].to_pylist() for name in ("turns", "sample_rate"))
        heard = [[t for t in some or () if t["channel"] is not None] for some in turns]
        beside = 2 * requests.BESIDE_S
        lengths = [sum(t["end"] - t["start"] + beside for t in some) for some in heard]
        of_turns = [2 * round(s * rate) for s, rate in zip(lengths, rates, strict=True)]
        pcm = pc.add(pcm, pa.array(of_turns, pa.int64()))
    seconds = batch.table(LIMITS, ("seconds",))["seconds"]
    amounts = {
        "kept": pc.if_else(pc.and_(packaged, pa.array(stays)), seconds, 0.0),
        "pcm": pc.if_else(pc.and_(passed, pc.is_valid(rows["blob"])), pcm, 0),
        "scored": pc.cast(scored, pa.int64()),
        "words": pc.if_else(scored, words, 0),
        "word_errors": pc.if_else(scored, pc.fill_null(rows["word_errors"], 0), 0),
    }
    of_clips = pa.table({"recording": rows["recording"], **amounts})
    sums = summary.sums_by(of_clips, ["recording"], list(amounts))
    for row in sums.to_pylist():
        seen = results[row.pop("recording")]
        for name, amount in row.items():
            setattr(seen, name, amount)
    return results


def results_of(sampled: Iterable[SampleResult]) -> JsonObject:
    """Results of the sample as a whole: rejections by reason, and the word error rate of kept
    utterances (`scored`: those with a reference)."""
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


def plan(job: Job, shards: Sequence[str], staging: Path) -> JsonObject:
    """On a worker: lay out up to PACKAGED seconds of the sample's kept clips, in the order of their
    hashes, without splits and weights: splits only move clips, and `known` applies the weights.

    Returns the numbers of their output `shards`, how many `clips` they are, their `seconds`, and
    the bytes of their `tables`.
    """
    bare = job.package.model_copy(update={"splits": {}, "weights": {}})
    job = replace(job, package=bare)
    with foreseen.version(job, shards) as version:
        rows = version.clips(published_columns.row_schema(job).names)
    rows = rows.filter(pc.is_valid(rows["blob"]))  # no pending utterances
    rows = rows.sort_by([("sha256", "ascending"), ("id", "ascending")])
    seconds = summary.seconds_of(rows)
    rows = rows.filter(pa.array(np.cumsum(seconds) - seconds < PACKAGED)).combine_chunks()
    if not rows.num_rows:
        return {"shards": [], "clips": 0, "seconds": 0.0, "tables": 0}
    clips = layout.clips_of(rows, job.package)
    groups = layout.lay_out_clips(clips, job.package, 1)
    rows = rows.take(np.concatenate([group.rows for group in groups]))
    places = format_shards.places(job.package.formats, rows.select)
    with_places = format_shards.with_places(rows, places)
    published = packaging_plan.save(job, staging, groups, with_places)
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
        size = sum(storage.store_of(staging).size(staging / path) for path in shard.files)
        sizes[shard.format] = sizes.get(shard.format, 0) + size
    return sizes
