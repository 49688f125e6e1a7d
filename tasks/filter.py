"""Stage filter: recordings in, utterances with measures out; one streaming decode each.

An item is a recording. Before: a row of the shard's recordings. After: one row of kind `recording`
(decoded length, or the error), and one row a span; utterances have their measures. Verdicts are not
stored: `tasks.checkpoints` applies the limits to the measures at every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain

from tasks import plugins, recipe
from tasks.accounting import ledger
from tasks.checkpoints import cuts, verdicts, view
from tasks.checkpoints.manifest import Row
from tasks.errors import ItemError
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.plugins.rules import judge
from tasks.recording import Locator
from tasks.recording.faults import Fault
from tasks.recording.turns import Turn
from tasks.schema import CUTS
from tasks.segmenters import Segmenter, Span
from tasks.settings import Plugin
from tasks.stages import cutting, handover, hearing, measuring, speaking
from tasks.stages.arriving import Readers
from tasks.stages.contract import OfRecording

SCHEMA = CUTS


@dataclass(frozen=True, slots=True)
class Unit(OfRecording):
    """A recording to cut (`spans` None), or spans of its stored cuts to measure, each with the
    filters that it lacks."""

    cut: str
    spans: tuple[tuple[Span, tuple[Plugin, ...]], ...] | None
    stored: frozenset[str] = frozenset()  # recipes of the shard's PCM, which needs no handover
    decoded: int = 0  # samples of the whole recording, if its cuts are known
    faults: tuple[Fault, ...] = ()  # its faults, if its cuts are known
    turned: str | None = None  # recipe of its turns; None: no diarization
    turns: tuple[Turn, ...] | None = None  # None: not known yet

    @property
    def items(self) -> int:
        return 1

    @property
    def spared(self) -> bool:
        """Whether it lacks only costly measures, unnecessary so far because a threshold rejects
        it."""
        lacking = [plugin for _, missing in self.spans or () for plugin in missing]
        return self.spans is not None and all(map(verdicts.costly, lacking))

    @property
    def seconds(self) -> float:
        return float(self.recording["header_seconds"] or 0.0)


def meta(job: Job) -> JsonObject:
    """Footer of a part: the recipe of each measure that its rows hold."""
    wanted = {p.use: recipe.of_plugin("filters", p) for p in job.filter.filters}
    return {"measures": wanted}


def todo(shard: view.ShardView) -> tuple[list[Unit], int]:
    """Recordings that lack cuts or measures, and how many lack nothing."""
    units, reused = [], 0
    stored: frozenset[str] | None = None  # one set for all units, and only if there are any
    for recording in shard.recordings:
        if recording["error_code"]:
            continue
        name = shard.cut_recipe(recording)
        speaks = shard.turned(recording)
        cut = shard.cuts.get(name)
        if cut is None or not cut.known:
            stored = frozenset(shard.audio) if stored is None else stored
            units.append(Unit(recording, name, None, stored, 0, (), *speaks))
            continue
        if cut.error_code:
            reused += 1
            continue
        if spans := _lacking(cut, shard):
            units.append(
                Unit(recording, name, spans, frozenset(), cut.decoded, cut.faults, *speaks)
            )
        else:
            reused += 1
    return units, reused


def _lacking(cut: cuts.Cut, shard: view.ShardView) -> tuple[tuple[Span, tuple[Plugin, ...]], ...]:
    """Utterances of a known cut that lack measures, with the filters that they lack."""
    found = []
    for s in cut.spans:
        if s["kind"] == "utterance" and s["end"] > s["start"]:
            key = s["start"], s["end"], s["given"]
            if missing := cut.lacks(key, shard.filter_columns, shard.job.filter.measure_all):
                span = Span(s["start"], s["end"], "utterance", s["given"], match=s.get("match"))
                found.append((span, missing))
    return tuple(found)


def compute(units: list[Unit], job: Job) -> Iterator[list[Row]]:
    """Rows of each unit, in order. A bad recording gives the row of its failure."""
    for unit in units:
        writer = handover.Writer(job, str(unit.recording["content"]), unit.stored)
        try:
            rows = _cut(unit, job, writer)
        except (ItemError, MemoryError) as error:
            writer.discard()
            if isinstance(error, ItemError):
                rows = failure(unit, error.code, error.detail, error.decoded, error.rate)
            else:
                rows = failure(unit, "out_of_memory", str(error))
        except BaseException:
            writer.discard()
            raise
        locator = Locator.loads(unit.recording["locator"])
        # If the file changed meanwhile, the samples do not belong to its digest.
        if cutting.unchanged(locator, unit.recording["guard"]):
            writer.publish()
        else:
            rows = []
            writer.discard()
        yield rows


def failure(unit: Unit, code: str, detail: str, decoded: int = 0, rate: int = 0) -> list[Row]:
    """The row of a recording that cannot be used; its decoded prefix is counted as failed."""
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
            "error_detail": detail[:500],
            "measures": [],
        }
    ]


def _cut(unit: Unit, job: Job, writer: handover.Writer) -> list[Row]:
    segmenter, settings = plugins.resolve("segmenters", job.filter.segmenter)
    given = cuts.segments_of(unit.recording)
    rules = verdicts.filter_rules(job.filter.filters)
    known = None if unit.spans is None else dict(unit.spans)
    facts = cutting.StreamFacts()
    rows: list[Row] = []
    locator = Locator.loads(unit.recording["locator"])
    recogniser = segmenter.hears(settings) if known is None else None
    text, language = unit.recording["text"], unit.recording["language"]
    heard = None
    if recogniser and text:
        emitting = segmenter.wants_emissions(settings)
        heard = hearing.heard(locator, recogniser, language, emitting)
    turns, new = speaking.turns_of(unit.turned, unit.turns, unit.recording, job)
    voices = speaking.voices(turns, job)

    def begin(rate: int, at: int) -> Segmenter:
        if heard is not None:
            return segmenter.start_heard(settings, rate, text, heard)
        if known is None:
            return speaking.segmenter(segmenter, settings, rate, given or (), voices(rate))
        return cutting.KnownSpans(list(known), at)

    def readers(start: int) -> Readers:
        filters = job.filter.filters if known is None else tuple(chain(*known.values()))
        works = {**measuring.reading(filters), **({} if known is not None else writer.reading())}
        return Readers(start, facts.rate, facts.channels, unit.recording["size"], works)

    first = min((span.start for span in known or ()), default=0)
    for span, clip in cutting.spans(locator, facts, begin, first, readers):
        found = measuring.Measured({}, {})
        if clip is not None:
            clip = clip.of_recording(None, unit.recording["size"])
            filters = job.filter.filters if known is None else known[span]
            long = facts.long if clip.is_lazy else None
            covered = long is not None and (span.start, span.end) == (long.start, facts.decoded)
            read = long.results() if long is not None and covered else {}
            found = measuring.measured(clip, filters, job.filter.measure_all, read)
            if known is None and judge(found.measures, rules) is None:
                writer.add(span.start, span.end, clip, read)
        rows.append(
            {
                "cut": unit.cut,
                "recording": unit.name,
                "kind": span.kind,
                "start": span.start,
                "end": span.end,
                "given": span.given,
                "reason": span.reason,
                "rate": facts.rate,
                "channels": facts.channels,
                "measures": found.measures,
                "prints": list(found.fingerprints.items()),
                "turn": span.turn,
                "text": span.text,
                "match": span.match,
                "voice": speaking.voice_of(span, turns),
            }
        )
    whole = measuring.WholeRecording(unit.decoded, unit.faults, turns)
    if known is None:
        whole = measuring.WholeRecording(facts.decoded, tuple(facts.faults), turns)
    for row in rows:
        if row["kind"] == "utterance" and row["end"] > row["start"]:
            key = Span(row["start"], row["end"], "utterance", row["given"], match=row["match"])
            filters = job.filter.filters if known is None else known[key]
            row["measures"].update(measuring.after_all(row, unit.recording, whole, filters))
            if known is None and judge(row["measures"], rules) is not None:
                writer.drop(row["start"], row["end"])
        row["measures"] = list(row["measures"].items())
    if known is not None:
        return [*new, *rows]
    ledger.check_cover(unit.name, facts.decoded, [(r["start"], r["end"]) for r in rows])
    recording = {
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
        "faults": [asdict(fault) for fault in facts.faults],
        "notes": facts.notes,
    }
    return [*new, recording, *rows]
