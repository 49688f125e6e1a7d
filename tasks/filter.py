"""Stage filter: recordings in, utterances with measures out, by one streaming decode each.

An item is a recording. Before: a row of the shard's recordings. After: one row of kind `recording`
(decoded length, or the error), and one row per span; utterances have their measures. Outcomes are
not stored: `tasks.shard_store` applies the limits to the measures in every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa

from .accounting import ledger
from .audio import Clip
from .base.errors import UNREACHABLE, ItemError, shortened
from .base.schema import CUTS, CutRow, FaultRow
from .plugins.contracts.segmenters import RecordingTranscript
from .plugins.rules import judge
from .recording import Locator, unreachable
from .recording.faults import Fault
from .recording.tracks import locator_of
from .recording.turns import Turn
from .segmenters import KnownSpans, Segmenter, Span
from .settings import Plugin
from .settings.job import Job
from .shard_store import chosen_rules, cuts, decisions, recipe, recuts, shard_view
from .shard_store.decision_log import Decision
from .shard_store.manifest import Footer
from .shard_store.stored_shard import samples_of
from .stages import cutting, handover, measuring, recording_turns, whole_transcript
from .stages.contract import OfRecording
from .stages.cutting import Readers, StreamFacts
from .stages.measuring import Chosen, Measured

SCHEMA = CUTS


@dataclass(frozen=True, slots=True)
class Unit(OfRecording):
    """A recording to cut (`spans` None), or spans of its stored cuts to measure, each with the
    filters that have not measured it."""

    cut: str
    spans: tuple[tuple[Span, tuple[Plugin, ...]], ...] | None
    stored: frozenset[str] = frozenset()  # recipes of the shard's PCM, which needs no handover
    decoded: int = 0  # samples of the whole recording, if its cuts are known
    faults: tuple[Fault, ...] = ()  # its faults, if its cuts are known
    recut: frozenset[cuts.Key] = frozenset()  # which of `spans` a person cut again
    turned: str | None = None  # recipe of its turns; None: no diarization
    turns: tuple[Turn, ...] | None = None  # None: unknown yet

    @property
    def items(self) -> int:
        return 1

    @property
    def spared(self) -> bool:
        """Whether only costly measures are missing, which are unnecessary because a threshold
        rejects it."""
        lacking = [plugin for _, missing in self.spans or () for plugin in missing]
        return self.spans is not None and all(map(chosen_rules.costly, lacking))

    @property
    def seconds(self) -> float:
        return float(self.recording["header_seconds"] or 0.0)


def meta(job: Job) -> Footer:
    """Footer of a part: the recipe of each measure in its rows."""
    wanted = {p.use: recipe.of_plugin("filters", p) for p in job.filter.all_filters}
    return {"measures": wanted}


def todo(shard: shard_view.ShardView) -> tuple[list[Unit], int]:
    """Recordings that lack cuts or measures, and the number of those that lack nothing."""
    units, reused = [], 0
    stored: frozenset[str] | None = None  # one set for all units, and only if there are any
    for recording in shard.processed:
        if recording["error_code"]:
            continue
        name, cut = shard.cut_recipe(recording), shard.cut_of(recording)
        speaks = shard.turned(recording)
        if cut is None or not cut.known:
            stored = frozenset(shard.audio) if stored is None else stored
            units.append(Unit(recording, name, None, stored, 0, (), frozenset(), *speaks))
            continue
        if cut.error_code:
            reused += 1
            continue
        if spans := _lacking(cut, shard.filter_columns, shard.job.filter.measure_all):
            units.append(
                Unit(
                    recording,
                    name,
                    spans,
                    frozenset(),
                    cut.decoded,
                    cut.faults,
                    frozenset(cut.recut),
                    *speaks,
                )
            )
        else:
            reused += 1
    return units, reused


def _lacking(
    cut: cuts.Cut, columns: cuts.FilterColumns, measure_all: bool
) -> tuple[tuple[Span, tuple[Plugin, ...]], ...]:
    """Utterances of a stored cut that lack measures, with the filters for these."""
    lacking = []
    for s in cut.spans:
        if s["kind"] == "utterance" and s["end"] > s["start"]:
            key = s["start"], s["end"], s["given"]
            if missing := cut.lacks(key, columns, measure_all):
                span = Span(s["start"], s["end"], "utterance", s["given"], match=s.get("match"))
                lacking.append((span, missing))
    return tuple(lacking)


def compute(units: list[Unit], job: Job) -> Iterator[list[CutRow]]:
    """Rows of each unit, in order. A bad recording gives the row of its failure."""
    chosen, cut_again = Chosen.of(job), recuts.asked(decisions.of(job))
    for unit in units:
        try:
            rows = unreachable.patience.read(partial(_rows, unit, chosen))
            if cut_again and (again := _cut_again(unit, rows, job, cut_again)):
                rows = [*rows, *unreachable.patience.read(partial(_rows, again, chosen))]
            yield rows
        except ItemError as error:
            yield failure(unit, error.code, error.detail, error.decoded, error.rate)


def _cut_again(
    unit: Unit, rows: list[CutRow], job: Job, asked: Mapping[str, Decision]
) -> Unit | None:
    """The clips that a person cut again, for a recording that was just cut; None if there are
    none."""
    if unit.spans is not None:
        return None
    by_recipe: dict[str, cuts.Cut] = {}
    stored = pa.Table.from_pylist(rows, schema=SCHEMA)  # as read from a part
    cuts.merge(by_recipe, stored, {plugin.use for plugin in job.filter.all_filters}, False)
    cut = by_recipe.get(unit.cut, cuts.Cut())
    cut = recuts.applied(cut, unit.recording, cuts.segments_of(unit.recording), asked)
    if not cut.recut:
        return None
    columns = cuts.filter_columns(job.filter.all_filters)
    spans = _lacking(cut, columns, job.filter.measure_all)
    return replace(
        unit, spans=spans, decoded=cut.decoded, faults=cut.faults, recut=frozenset(cut.recut)
    )


def _rows(unit: Unit, chosen: Chosen) -> list[CutRow]:
    """Rows of a unit; empty if its file changed, since the samples then do not belong to its
    digest. ItemError `unreachable` if a retry may help."""
    locator = locator_of(unit.recording, chosen.job.filter)
    writer = handover.Writer(chosen.job, samples_of(unit.recording, chosen.job.filter), unit.stored)
    try:
        try:
            rows = _cut(unit, locator, chosen, writer)
        except ItemError as error:
            if error.code == UNREACHABLE:
                raise
            writer.discard()
            rows = failure(unit, error.code, error.detail, error.decoded, error.rate)
        except MemoryError as error:
            writer.discard()
            rows = failure(unit, "out_of_memory", str(error))
        sound = cutting.unchanged(locator, unit.recording["guard"])
    except BaseException:
        writer.discard()
        raise
    if sound:
        writer.publish()
        return rows
    writer.discard()
    return []


def failure(unit: Unit, code: str, detail: str, decoded: int = 0, rate: int = 0) -> list[CutRow]:
    """The row of an unusable recording; its decoded prefix counts as failed."""
    return [failure_row(unit.cut, unit.name, code, detail, decoded, rate)]


def _cut(unit: Unit, locator: Locator, chosen: Chosen, writer: handover.Writer) -> list[CutRow]:
    """The rows of a unit. If the recording is cut now, `writer` gets the clips that pass all
    filters."""
    heard = _heard(unit, locator, chosen)
    turns, new = recording_turns.turns_of(unit.turned, unit.turns, unit.recording, chosen.job)
    cutter = _Cutter(unit, chosen, writer, turns)
    pieces = [cutter.measured(span, clip) for span, clip in cutter.spans(locator, heard)]
    rows = cutter.rows(pieces)
    if unit.spans is not None:
        return [*new, *rows]
    facts = cutter.facts
    ledger.check_cover(unit.name, facts.decoded, [(r["start"], r["end"]) for r in rows])
    return [*new, recording_row(unit.cut, unit.name, facts), *rows]


def _heard(unit: Unit, locator: Locator, chosen: Chosen) -> RecordingTranscript | None:
    """The transcript of the whole recording, if the segmenter cuts by it."""
    recogniser = chosen.hears if unit.spans is None else None
    if not recogniser or not unit.recording["text"]:
        return None
    emitting = chosen.segmenter.wants_emissions(chosen.settings)
    language, limits = unit.recording["language"], chosen.limits
    return whole_transcript.heard(locator, recogniser, language, emitting, limits)


class _Cutter:
    """Cuts a unit's recording into spans and measures these, in one pass over its samples."""

    def __init__(
        self, unit: Unit, chosen: Chosen, writer: handover.Writer, turns: tuple[Turn, ...] | None
    ) -> None:
        self._unit, self._chosen, self._writer, self._turns = unit, chosen, writer, turns
        self._known = None if unit.spans is None else dict(unit.spans)
        self.facts = cutting.StreamFacts()

    def spans(
        self, locator: Locator, heard: RecordingTranscript | None
    ) -> Iterator[tuple[Span, Clip | None]]:
        """Open the recording; yields its spans, utterances with their samples."""
        unit, known_spans = self._unit, self._known
        segmenter, settings = self._chosen.segmenter, self._chosen.settings
        if not unit.recording["text"]:
            settings = segmenter.without_text(settings)
        given = cuts.segments_of(unit.recording) or ()
        voices = recording_turns.voices(self._turns, self._chosen.job)

        def begin(rate: int, first_sample: int) -> Segmenter:
            if heard is not None:
                text = unit.recording["text"] or ""
                return segmenter.start_heard(settings, rate, text, heard)
            if known_spans is None:
                return recording_turns.segmenter(segmenter, settings, rate, given, voices(rate))
            return KnownSpans(known_spans, first_sample)

        first = min((span.start for span in known_spans or ()), default=0)
        limits = self._chosen.limits
        return cutting.spans(locator, self.facts, begin, first, self._readers, limits)

    def _readers(self, start: int) -> Readers:
        """The readers of a long clip while it is decoded."""
        if self._known is None:
            works = {**measuring.reading(self._chosen.filters), **self._writer.reading()}
        else:
            every = tuple(chain(*self._known.values()))
            works = measuring.reading(measuring.steps(every))
        facts = self.facts
        size = self._unit.recording["size"]
        return Readers(start, facts.rate, facts.channels, size, works, facts.weights)

    def _filters(self, span: Span) -> tuple[measuring.Step, ...]:
        return (
            self._chosen.filters if self._known is None else self._chosen.lacking(self._known[span])
        )

    def measured(self, span: Span, clip: Clip | None) -> tuple[Span, measuring.Measured]:
        """A span with the measures of its samples."""
        facts = self.facts
        result = measuring.Measured({}, {}, {})
        if clip is not None:
            clip = clip.of_recording(None, self._unit.recording["size"])
            long = facts.long if clip.is_lazy else None
            covered = long is not None and (span.start, span.end) == (long.start, facts.decoded)
            read = long.results() if long is not None and covered else {}
            measure_all = self._chosen.job.filter.measure_all
            result = measuring.measured(clip, self._filters(span), measure_all, read)
            if self._known is None and judge(result.values, self._chosen.rules) is None:
                self._writer.add(span.start, span.end, clip, read)
        return span, result

    def rows(self, pieces: Sequence[tuple[Span, measuring.Measured]]) -> list[CutRow]:
        """The rows of all spans, with the measures that need the whole recording."""
        unit, facts = self._unit, self.facts
        decoded, faults = unit.decoded, unit.faults
        if self._known is None:
            decoded, faults = facts.decoded, tuple(facts.faults)
        whole = measuring.WholeRecording(decoded, faults, self._turns, facts.beside)
        rows = []
        for span, result in pieces:
            if span.kind == "utterance" and span.end > span.start:
                start, end = span.start, span.end
                key = Span(start, end, "utterance", span.given, match=span.match)
                place = facts.rate, facts.channels
                result.add(
                    measuring.after_all(span, *place, unit.recording, whole, self._filters(key))
                )
                if self._known is None and judge(result.values, self._chosen.rules) is not None:
                    self._writer.drop(start, end)
            voice = recording_turns.voice_of(span, self._turns)
            row = span_row(unit.cut, unit.name, facts, span, result, voice)
            if (span.start, span.end, span.given) in unit.recut:
                row["kind"] = cuts.RECUT
            rows.append(row)
        return rows


# The rows that the filter stage stores for a recording: its decoding, and each span.


def recording_row(cut: str, recording: str, facts: StreamFacts) -> CutRow:
    return {
        "cut": cut,
        "recording": recording,
        "kind": "recording",
        "start": 0,
        "end": facts.decoded,
        "rate": facts.rate,
        "channels": facts.channels,
        "decoded": facts.decoded,
        "measures": [],
        "decode_faults": len(facts.faults),
        "faults": [_fault(fault) for fault in facts.faults],
        "notes": facts.notes,
    }


def _fault(fault: Fault) -> FaultRow:
    return {"start": fault.start, "end": fault.end, "what": fault.what, "shifts": fault.shifts}


def failure_row(
    cut: str, recording: str, code: str, detail: str, decoded: int, rate: int
) -> CutRow:
    """The row of an unusable recording; its decoded prefix counts as failed."""
    return {
        "cut": cut,
        "recording": recording,
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


def span_row(
    cut: str, recording: str, facts: StreamFacts, span: Span, measured: Measured, voice: int | None
) -> CutRow:
    """`voice`: number of its speaker."""
    return {
        "cut": cut,
        "recording": recording,
        "kind": span.kind,
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
        "voice": voice,
    }
