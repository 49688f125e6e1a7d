"""Stage filter: recordings in, utterances with measures out, by one streaming decode each.

The same pass over the samples converts the utterances that pass, for the resample stage.

An item is a recording. Before: a row of the shard's recordings. After: one row of kind `recording`
(decoded length, or the error), and one row per span; utterances have their measures. Outcomes are
not stored: `tasks.shard_store` applies the limits to the measures in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import itemgetter
from typing import cast

import pyarrow as pa

from ..accounting import ledger
from ..base.errors import UNREACHABLE, ItemError, shortened
from ..base.schema import CUTS, CutRow, FaultRow
from ..plugins.rules import judge
from ..recording import Locator, unreachable
from ..recording.faults import Fault
from ..recording.tracks import locator_of
from ..recording.turns import Turn
from ..scoring import unmarked
from ..segmenters import KnownSpans, Segmenter, Span
from ..settings import Plugin
from ..settings.job import Job
from ..shard_store import (
    annotated,
    clip_choice,
    cuts,
    decision_log,
    recipe,
    shard_view,
    stored_shard,
)
from ..shard_store.blobs import MadeAudio
from ..shard_store.decision_log import Decision
from ..shard_store.manifest import Footer
from ..shard_store.stored_shard import samples_of
from . import cutting, whole_transcript
from .contract import OfRecording
from .cutting import Chosen, Measured, Step, StreamFacts
from .pcm import Conversion

SCHEMA = CUTS
Piece = tuple[Span, tuple[Step, ...], Measured]  # with the filters that measure it


@dataclass(frozen=True, slots=True)
class Unit(OfRecording):
    """A recording to cut (`spans` None), or spans of its stored cuts to measure, each with the
    filters that have not measured it."""

    cut: str
    spans: tuple[tuple[Span, tuple[Plugin, ...]], ...] | None
    stored: frozenset[str] = frozenset()  # recipes of the shard's PCM, which is not made again
    decoded: int = 0  # samples of the whole recording, if its cuts are known
    faults: tuple[Fault, ...] = ()  # its faults, if its cuts are known
    recut: frozenset[cuts.Key] = frozenset()  # which of `spans` a person cut again
    turned: str | None = None  # recipe of its turns; None: no diarization
    turns: tuple[Turn, ...] | None = None  # None: unknown yet

    @property
    def spared(self) -> bool:
        """Whether only costly measures are missing, which a threshold makes unnecessary."""
        lacking = [plugin for _, missing in self.spans or () for plugin in missing]
        return self.spans is not None and all(map(annotated.costly, lacking))

    @property
    def seconds(self) -> float:
        return float(self.recording["header_seconds"] or 0.0)


def meta(job: Job) -> Footer:
    """Footer of a part: the recipe of each measure in its rows."""
    return {"measures": recipe.of_filters(job)}


def todo(shard: shard_view.ShardView) -> tuple[list[Unit], int]:
    """Recordings that lack cuts or measures, and the number of those that lack nothing."""
    units, reused = [], 0
    stored: frozenset[str] | None = None  # one set for all units, and only if there are any
    for recording in shard.processed:
        if recording["error_code"]:
            continue
        name, cut = shard.cut_recipes[recording["recording"]], shard.cut_of(recording)
        turned, turns = shard.turned(recording)
        if cut is None or not cut.known:
            stored = frozenset(shard.audio) if stored is None else stored
            units.append(Unit(recording, name, None, stored, turned=turned, turns=turns))
            continue
        measure_all = shard.job.filter.measure_all
        if not cut.error_code and (spans := _lacking(cut, shard.filters, measure_all)):
            units.append(
                Unit(
                    recording,
                    name,
                    spans,
                    decoded=cut.decoded,
                    faults=cut.faults,
                    recut=frozenset(cut.recut),
                    turned=turned,
                    turns=turns,
                )
            )
        else:
            reused += 1
    return units, reused


def _lacking(
    cut: cuts.Cut, filters: tuple[Plugin, ...], measure_all: bool
) -> tuple[tuple[Span, tuple[Plugin, ...]], ...]:
    """Utterances of a stored cut that lack measures, with the filters for these."""
    lacking = []
    for s in cut.spans:
        if s["kind"] == "utterance" and s["end"] > s["start"]:
            key = s["start"], s["end"], s["given"]
            if missing := cut.lacks(key, filters, measure_all):
                span = Span(s["start"], s["end"], "utterance", s["given"], match=s.get("match"))
                lacking.append((span, missing))
    return tuple(lacking)


def compute(units: list[Unit], job: Job) -> Iterator[list[CutRow | MadeAudio]]:
    """Rows of each unit and of its PCM, in order; of a bad recording, that of its failure."""
    chosen, people = Chosen.from_job(job), decision_log.by_utterance(job)
    for unit in units:
        try:
            rows = unreachable.patience.read(partial(_rows, unit, chosen))
            if people and (again := _cut_again(unit, rows, job, people)):
                rows = [*rows, *unreachable.patience.read(partial(_rows, again, chosen))]
            yield rows
        except ItemError as error:
            yield [*failure(unit, error.code, error.detail, error.decoded, error.rate)]


def _cut_again(
    unit: Unit, rows: list[CutRow | MadeAudio], job: Job, people: Mapping[str, Decision]
) -> Unit | None:
    """The clips that a person cut again, of a recording that was just cut; None: none."""
    if unit.spans is not None:
        return None
    by_recipe: dict[str, cuts.Cut] = {}
    cut_rows = [row for row in rows if "cut" in row]
    stored = pa.Table.from_pylist(cut_rows, schema=SCHEMA)  # as read from a part
    cuts.merge(by_recipe, stored, {plugin.use for plugin in job.filter.all_filters}, False)
    cut = by_recipe.get(unit.cut, cuts.Cut())
    cut = stored_shard.recut(cut, unit.recording, cuts.segments_of(unit.recording), people)
    if not cut.recut:
        return None
    spans = _lacking(cut, job.filter.all_filters, job.filter.measure_all)
    return replace(
        unit, spans=spans, decoded=cut.decoded, faults=cut.faults, recut=frozenset(cut.recut)
    )


def _rows(unit: Unit, chosen: Chosen) -> list[CutRow | MadeAudio]:
    """Rows of a unit; empty if its file changed, since the samples then do not belong to its
    digest. ItemError `unreachable` if a retry may help."""
    locator = locator_of(unit.recording, chosen.job.filter)
    rows: list[CutRow | MadeAudio]
    try:
        content = samples_of(unit.recording, chosen.job.filter)
        with Conversion(chosen.job, unit.name, content, unit.stored) as conversion:
            rows = _one_pass(unit, locator, chosen, conversion)
    except ItemError as error:
        if error.code == UNREACHABLE:
            raise
        rows = [*failure(unit, error.code, error.detail, error.decoded, error.rate)]
    except MemoryError as error:
        rows = [*failure(unit, "out_of_memory", str(error))]
    return rows if cutting.unchanged(locator, unit.recording["guard"]) else []


def failure(unit: Unit, code: str, detail: str, decoded: int = 0, rate: int = 0) -> list[CutRow]:
    """The row of an unusable recording; its decoded prefix counts as failed."""
    return [
        {
            "cut": unit.cut,
            "recording": unit.name,
            "kind": "recording",
            "start": 0,
            "end": decoded,
            "rate": rate,
            "channels": 0,
            "decoded": decoded,
            "error_code": code,
            "error_detail": shortened(detail),
            "measures": [],
        }
    ]


def _one_pass(
    unit: Unit, locator: Locator, chosen: Chosen, conversion: Conversion
) -> list[CutRow | MadeAudio]:
    """Decode a recording once: cut it, measure each utterance, and convert those that pass.

    Spans that are known already are only measured."""
    job, recording = chosen.job, unit.recording
    facts = StreamFacts(recording["size"])
    turns, new = cutting.turns_of(unit.turned, unit.turns, recording, job)
    known_spans = None if unit.spans is None else dict(unit.spans)
    pieces: list[Piece] = []
    may_choose = clip_choice.of_uncut(job, recording)
    begin = _segmenter(unit, locator, chosen, turns)
    first = min(span.start for span in known_spans) if known_spans else 0
    for span, clip in cutting.spans(locator, facts, begin, first, chosen.limits):
        filters = chosen.filters if known_spans is None else cutting.steps(known_spans[span])
        measured = Measured({}, {}, {})
        if clip is not None:
            measured = cutting.measured(clip, filters, job.filter.measure_all)
            passes = known_spans is None and judge(measured.values, chosen.rules) is None
            if passes and may_choose(span.turn if span.given is None else span.given):
                conversion.add(span.start, span.end, clip)
        pieces.append((span, filters, measured))
    if known_spans is not None:
        facts.decoded, facts.faults = unit.decoded, [*unit.faults]  # of the whole recording
        return [*new, *_span_rows(unit, pieces, facts, turns)]
    rows = _span_rows(unit, pieces, facts, turns)
    ledger.check_cover(unit.name, facts.decoded, [*map(itemgetter("start", "end"), rows)])
    if any(step.module.AFTER_ALL for step in chosen.filters):  # they may reject what was converted
        for span, _, measured in pieces:
            if span.kind == "utterance" and judge(measured.values, chosen.rules) is not None:
                conversion.drop(span.start, span.end)
    decoded: CutRow = {
        "cut": unit.cut,
        "recording": unit.name,
        "kind": "recording",
        "start": 0,
        "end": facts.decoded,
        "rate": facts.rate,
        "channels": facts.channels,
        "decoded": facts.decoded,
        "measures": [],
        "decode_faults": len(facts.faults),
        "faults": cast(list[FaultRow], [*map(asdict, facts.faults)]),
        "notes": facts.notes,
    }
    return [*new, decoded, *rows, *conversion.rows()]


def _span_rows(
    unit: Unit, pieces: Sequence[Piece], facts: StreamFacts, turns: tuple[Turn, ...] | None
) -> list[CutRow]:
    """The rows of all spans; adds measures of the whole recording to the pieces, too."""
    rows: list[CutRow] = []
    for span, filters, measured in pieces:
        if span.kind == "utterance" and span.end > span.start:
            cutting.after_all(measured, span, facts, unit.recording, turns, filters)
        recut = (span.start, span.end, span.given) in unit.recut
        rows.append(
            {
                "cut": unit.cut,
                "recording": unit.name,
                "kind": cuts.RECUT if recut else span.kind,
                "start": span.start,
                "end": span.end,
                "given": span.given,
                "reason": span.reason,
                "rate": facts.rate,
                "channels": facts.channels,
                "measures": list(measured.measures.items()),
                "prints": list(measured.stored.items()),
                "turn": span.turn,
                "text": span.text,
                "match": span.match,
                "voice": cutting.voice_of(span, turns),
            }
        )
    return rows


def _segmenter(
    unit: Unit, locator: Locator, chosen: Chosen, turns: tuple[Turn, ...] | None
) -> Callable[[int, int], Segmenter]:
    """What makes the recording's segmenter, from its rate and its first sample."""
    if unit.spans is not None:
        known_spans = [span for span, _ in unit.spans]
        return lambda rate, first_sample: KnownSpans(known_spans, first_sample)
    module, settings, recording = chosen.segmenter, chosen.settings, unit.recording
    text = unmarked(recording["text"] or "")
    if not text:
        settings = module.without_text(settings)
    elif chosen.hears:
        emitting = module.wants_emissions(chosen.settings)
        language, limits = recording["language"], chosen.limits
        transcript = whole_transcript.transcribed(locator, chosen.hears, language, emitting, limits)
        return lambda rate, _: module.start_heard(settings, rate, text, transcript)
    given = cuts.segments_of(recording) or ()
    return lambda rate, _: cutting.segmenter_of(
        module, settings, rate, given, cutting.voices(turns, chosen.job, rate)
    )
