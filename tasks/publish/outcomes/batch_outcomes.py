"""Gathers the facts of shard batches on the workers (their utterances as they would be published,
and what limits may ask of them), and decides their outcomes; `shard_batches.py` reads both."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import storage
from ...accounting import ledger
from ...base.errors import PASSING, CorruptManifest
from ...base.schema import LEDGER, AnyRow, RecordingRow
from ...plugins.rules import judge
from ...recording.limits import FREE_SECONDS, REFUSED, WIDTH
from ...settings.job import Job, Spoken
from ...shard_store import clip_choice, enhanced, hypotheses, manifest, recipe, source_languages
from ...shard_store.cuts import Cut
from ...shard_store.shard_view import LONG_S, ShardView
from ...shard_store.utterance import (
    LEAST_CLIPS,
    PACKAGED,
    UNCONVERTED,
    UNHEARD,
    Outcome,
    Utterance,
)
from ...stages.filter import todo as cuts_lacking
from ...stages.stage import PER_SHARD
from ...storage import tables
from .. import corpus, published_columns
from ..corpus import identities, limits
from . import shard_batches
from .shard_batches import AT, DECIDED, LIMITS, SPANS, STATED, BatchFacts, ShardBatch, arrow_bytes

LEDGER_FACTS = pa.schema([*LEDGER, pa.field(AT, pa.int32()), pa.field(STATED, pa.string())])
MARGIN = 1.001  # of an extent, so that rounding does not matter
UNCUT = Outcome(ledger.PENDING, "filter", ledger.PENDING)  # of a recording without cuts
#: Batches that one query decides: to prepare it takes DuckDB ten times as long as to run it on one.
ASKED_TOGETHER = 50


class ShardFacts(NamedTuple):
    """Tables of one shard, whatever its limits, and their schemas. The first two have a row for
    each utterance, in the same order."""

    rows: pa.Table  # `published_columns.row_schema`: as it would be published
    limits: pa.Table  # `limits.schema_of`: what limits may ask
    ledger: pa.Table  # LEDGER_FACTS, with the outcomes that are known without limits
    heard: pa.Table  # `corpus.row_schema` and AT: the input of corpus-wide rules
    voices: pa.Table  # `identities.VOICES`: the input of speakers across recordings


def of_shard(view: FactView) -> ShardFacts:
    """The facts of one shard; columns of what is not computed yet are null."""
    job, shard = view.job, view.shard
    utterances = [*view.transcribed()]
    asked = limits.facts_of(job, utterances, [_stored(view, u) for u in utterances])
    # Only outcomes before all limits, which no limit changes, may share an id.
    fixed = pc.equal(asked["step"], limits.BEFORE_FILTERS).fill_null(False).to_pylist()
    numbers = {id(u): number for number, u in enumerate(utterances) if not fixed[number]}
    spans = [
        (*row, numbers.get(id(u)), u and u.language)
        for *row, u in ledger.of_shard(view, utterances, UNCUT)
    ]
    heard = list[AnyRow]()
    if corpus.takes_part(job):
        number_of = {u.id: numbers[id(u)] for u in utterances if id(u) in numbers}
        rows = corpus.rows(job, shard, utterances)
        heard = [{**row, AT: number_of[str(row["id"])]} for row in rows]
    spoken = identities.voices_in(view) if recipe.across_recordings(job) is not None else []
    return ShardFacts(
        published_columns.rows_of(view, utterances, asked),
        asked,
        pa.table(tables.columns_of(LEDGER_FACTS.names, spans), LEDGER_FACTS),
        tables.of_rows(heard, pa.schema([*corpus.row_schema(job), pa.field(AT, pa.int32())])),
        tables.of_rows(spoken, identities.VOICES),
    )


def _stored(view: ShardView, utterance: Utterance) -> tuple[str, int, bool]:
    """What KNOWN tells of an utterance's results: damage, converted, transcribed."""
    of_recording = view.cut_of(utterance.recording)
    damage = view.damage(utterance, of_recording) if of_recording and of_recording.faults else ""
    beside = sum(one.span[2] in view.audio for one in view.companions(utterance))
    transcribed = utterance.transcript is not None
    if not transcribed and utterance.audio in view.audio:  # it may be, even if filters have work
        clean = utterance.enhanced if enhanced.heard(view.job) else None
        text = view.transcript_recipe(utterance, None if clean in view.audio else clean)
        transcribed = text in view.transcripts
    return damage, (utterance.pcm is not None) + beside, transcribed


def collect(
    job: Job,
    batch: ShardBatch,
    strict: bool = True,
    listings: Mapping[str, Sequence[RecordingRow]] | None = None,
) -> None:
    """On a worker: gather the facts of a batch's utterances and write its files.

    With `strict`, a damaged manifest raises CorruptManifest, so that its content is computed again.
    `listings`: by shard, the recordings that sources list now, for shards whose listing in OUT is
    outdated.
    """
    damaged = manifest.refuse if strict else manifest.leave
    # Costly measures count as missing whether or not a cheap one rejects the utterance now.
    measured = replace(job, filter=job.filter.model_copy(update={"measure_all": True}))
    parts: list[ShardFacts] = []
    recordings, unmeasured, by_passing, copies = list[int](), 0, False, False
    extents: list[tuple[float, float] | None] = []
    for shard in batch.shards:
        listed = (listings or {}).get(shard)
        view = FactView(measured, shard, damaged, listed, again=listed is not None)
        parts.append(of_shard(view))
        by_passing = by_passing or view.by_passing
        copies = copies or any(row.get("copy_of") for row in view.recordings)
        extents.append(_extent(view))
        recordings.append(sum(not row["error_code"] for row in view.processed))
        if not strict:
            unmeasured += sum(not unit.spared for unit in cuts_lacking(view)[0])
    rows = pa.concat_tables([part.rows for part in parts])
    data = {
        "rows.arrow": arrow_bytes(shard_batches.keyed(rows, job.package.seed)),
        LIMITS: arrow_bytes(pa.concat_tables([part.limits for part in parts])),
        SPANS: arrow_bytes(_numbered(parts, [part.ledger for part in parts])),
    }
    if recipe.across_recordings(job) is not None:
        data["voices.arrow"] = arrow_bytes(pa.concat_tables([part.voices for part in parts]))
    if corpus.takes_part(job):
        data["heard.arrow"] = arrow_bytes(_numbered(parts, [part.heard for part in parts]))
    bounded = [extent for extent in extents if extent is not None]
    facts = BatchFacts(
        files={name: hashlib.sha256(content).hexdigest()[:16] for name, content in data.items()},
        recordings=recordings,
        utterances=[part.rows.num_rows for part in parts],
        unmeasured=unmeasured,
        unsettled=[_is_unsettled(part.ledger) for part in parts],
        passing=shard_batches.passing_rules(job) if by_passing else None,
        copies=shard_batches.copying(job) if copies else None,
        guards=[job.filter.max_hours, job.filter.max_expansion],
        extent=list(map(max, zip(*bounded, strict=True))) if len(bounded) == len(extents) else None,
        people=shard_batches.said(job, rows["id"]),
    )
    storage.remove(batch.home / "facts.json")  # files of other limits may be there
    for name, content in data.items():
        storage.write_atomic(batch.home / name, content)
    storage.write_atomic(batch.home / "facts.json", facts.model_dump_json().encode())


def _extent(view: FactView) -> tuple[float, float] | None:
    """The most hours and expansion of recordings; None if one is beyond `max_hours` or
    `max_expansion`."""
    hours = expansion = 0.0
    for row in view.processed:
        cut = view.cut_of(row)
        if cut is not None and cut.error_code in REFUSED:
            return None
        seconds = row["header_seconds"] or 0.0
        if cut is not None and cut.rate:
            seconds = max(seconds, cut.decoded / cut.rate)
        hours = max(hours, seconds / 3600)
        if seconds > FREE_SECONDS:
            wide = WIDTH * (row["header_channels"] or 1) * seconds * (row["header_rate"] or 1)
            expansion = max(expansion, wide / (row["size"] or 1))
    return MARGIN * hours, MARGIN * expansion


def _numbered(parts: Sequence[ShardFacts], tables_of_shards: Sequence[pa.Table]) -> pa.Table:
    """Tables of the batch's shards as one, with numbers (AT) of utterances in the whole batch."""
    first, numbered = 0, []
    for part, table in zip(parts, tables_of_shards, strict=True):
        numbers = pc.add(table[AT], pa.scalar(first, pa.int32()))
        numbered.append(tables.replaced(table, AT, numbers))
        first += part.rows.num_rows
    return pa.concat_tables(numbered)


def _is_unsettled(spans: pa.Table) -> bool:
    """Whether the next run must check rows without an utterance again, except those of the stage
    shard, which it always checks."""
    again = pc.and_(_checked_again(spans), pc.not_equal(spans["stage"], "shard"))
    return bool(pc.any(pc.and_(pc.is_null(spans[AT]), again)).as_py())


def _checked_again(outcomes: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(outcomes["reason"], pa.array(["changed", ledger.PENDING, *PASSING]))


def _outcomes(
    job: Job, batches: Sequence[ShardBatch], left_out: tuple[type[CorruptManifest], ...]
) -> Iterator[tuple[ShardBatch, pa.Table, pa.Table]]:
    """Each batch, what the job's limits ask of its utterances, and how many items of them are
    `converted`, and their outcomes. A damaged batch raises CorruptManifest, unless such are
    `left_out`."""
    columns = [*dict.fromkeys((*limits.asked(job), "converted"))]
    with limits.asking(job) as ask:
        for low in range(0, len(batches), ASKED_TOGETHER):
            facts = list[tuple[ShardBatch, pa.Table]]()
            for batch in batches[low : low + ASKED_TOGETHER]:
                with suppress(*left_out):
                    facts.append((batch, batch.table(LIMITS, columns)))
            if not facts:
                continue
            outcomes, first = ask(pa.concat_tables(table for _, table in facts)), 0
            for batch, table in facts:
                yield batch, table, outcomes.slice(first, len(table))
                first += len(table)


def decide(
    job: Job,
    batches: Sequence[ShardBatch],
    scratch: Path | None,
    strict: bool = True,
    left_out: tuple[type[CorruptManifest], ...] = (),
) -> tuple[list[ShardBatch], dict[str, dict[str, int]]]:
    """Apply the limits to the facts of all batches, and write the outcomes of each into `scratch`,
    if it is given. Returns the decided batches, and the items of each stage of the shards that
    lack nothing; at the others the next run looks again. Companions of kept clips are no items.
    Batches that are decided already come back as they are, and without items.

    With `strict`, for versions, an utterance that the run did not finish has failed: its file
    changed meanwhile. Without it, such an utterance is pending. For `left_out` see `_outcomes`.
    """
    decided = {batch.home: batch for batch in batches if batch.decided}
    undecided = [batch for batch in batches if batch.home not in decided]
    items = dict[str, dict[str, int]]()
    for batch, facts, outcomes in _outcomes(job, undecided, left_out):
        again = _checked_again(outcomes).to_numpy(zero_copy_only=False)
        heard = pc.invert(shard_batches.unheard(outcomes))
        cut_only = pc.equal(outcomes["stage"], "filter")
        cut_only = pc.or_(cut_only, shard_batches.unchosen(outcomes))
        converted = pc.if_else(cut_only, 0, facts["converted"]).to_numpy()
        texts = heard.to_numpy(zero_copy_only=False)
        edges = pairwise(np.cumsum([0, *batch.facts.utterances]).tolist())
        shards = batch.shards, batch.facts.unsettled, batch.facts.recordings, edges
        for shard, flag, count, (a, b) in zip(*shards, strict=True):
            if not flag and not again[a:b].any():
                sums = int(converted[a:b].sum()), int(texts[a:b].sum())
                items[shard] = dict(zip(PER_SHARD, (count, *sums), strict=True))
        if scratch is None:
            continue
        outcomes = shard_batches.stopped(outcomes) if strict else outcomes
        path = scratch / DECIDED / f"{batch.home.name}.arrow"
        storage.store_of(path.parent).write(path, arrow_bytes(outcomes))
        waiting = pc.sum(pc.is_in(outcomes["outcome"], shard_batches.WAITING)).as_py() or 0
        decided[batch.home] = replace(batch, decided=path, count=waiting)
    return [decided[batch.home] for batch in batches if batch.home in decided], items


def source_languages_of(job: Job, batches: Sequence[ShardBatch]) -> Spoken:
    """The languages of sources that state none, by a vote of the clips in decided batches that no
    filter drops."""
    if job.transcribe.language_by != "recording":
        return {}

    def heard(batch: ShardBatch) -> pa.Table:
        asked = ("dataset", "detected_language", "detected_probability", "seconds")
        table = batch.utterances([*asked, "stated", "stage", "reason"])
        table = table.filter(
            pc.and_(pc.is_null(table["stated"]), pc.invert(shard_batches.unheard(table)))
        )
        names = ["dataset", "language", "probability", "seconds"]
        return table.select(asked).drop_null().rename_columns(names)

    return source_languages.vote(map(heard, batches))


class FactView(ShardView):
    """One shard without limits: `filtered`, `resampled` and `transcribed` reject no utterance by a
    rule.

    Limits are applied to these facts later, by `corpus.limits`. Only two values of a clip depend on
    which other clips of its recording pass the limits of filters: the language by vote, and the
    seconds of speech in a long recording. Both are taken among those that pass now.
    """

    #: Whether a clip's values depend on which clips of its recording pass the filters.
    by_passing = False

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._applied_later, self._filter_rules = self._filter_rules, ()

    def _filter_outcome(self, utterance: Utterance, cut: Cut) -> Outcome:
        outcome = super()._filter_outcome(utterance, cut)
        rejected = not utterance.spared and judge(utterance.measures, self._applied_later)
        utterance.passes = not rejected and outcome is not clip_choice.NOT_CHOSEN
        return UNCONVERTED if outcome is clip_choice.NOT_CHOSEN else outcome

    def _take_enhanced(self, utterance: Utterance) -> None:
        super()._take_enhanced(utterance)
        if utterance.outcome.outcome == "dropped":
            utterance.passes, utterance.outcome = False, UNHEARD

    def _hear(self, waiting: Sequence[Utterance]) -> float | None:
        spoken = super()._hear([u for u in waiting if u.passes])
        others = [u for u in waiting if not u.passes]
        hypotheses.hear(others, self._transcript, "clip", {})
        self.by_passing = self.by_passing or self._depends(waiting)
        return spoken

    def _depends(self, heard: Sequence[Utterance]) -> bool:
        """Whether other limits of filters may change values of these clips of one recording."""
        if len(heard) < 2:
            return False
        cut = self.cut_of(heard[0].recording)
        if cut is not None and cut.decoded >= LONG_S * cut.rate:
            return True
        votes = (u.transcript and u.transcript.get("detected_language") for u in heard)
        by = self.job.transcribe.language_by
        return by != "clip" and len(heard) >= LEAST_CLIPS and (by == "sound" or any(votes))

    def _outcome_by_text(self, utterance: Utterance) -> Outcome:
        return PACKAGED if utterance.person is None else PACKAGED._replace(detail=utterance.decided)
