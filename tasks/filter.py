"""Stage filter: recordings in, utterances with measures out; one streaming decode each.

An item is a recording. Before: a row of the shard's recordings. After: one row of kind `recording`
(decoded length, or the error), and one row a span; utterances have their measures. Verdicts are not
stored: `tasks.checkpoints` applies the limits to the measures at every run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from tasks import plugins, recipe
from tasks.accounting import ledger
from tasks.audio import Clip
from tasks.checkpoints import cuts, verdicts, view
from tasks.checkpoints.manifest import Row
from tasks.errors import ItemError
from tasks.job import Job
from tasks.plugins.rules import judge
from tasks.recording import Locator
from tasks.recording.faults import Fault, touching
from tasks.schema import CUTS
from tasks.segmenters import Segmenter, Span
from tasks.settings import Plugin
from tasks.stages import cutting, handover

SCHEMA = CUTS


@dataclass(frozen=True, slots=True)
class Unit:
    """A recording to cut (`spans` None), or spans of its stored cuts to measure, each with the
    filters that it lacks."""

    recording: Row
    cut: str
    spans: tuple[tuple[Span, tuple[Plugin, ...]], ...] | None
    stored: frozenset[str] = frozenset()  # recipes of the shard's PCM, which needs no handover
    decoded: int = 0  # samples of the whole recording, where its cuts are known
    faults: tuple[Fault, ...] = ()  # its faults, where its cuts are known

    @property
    def name(self) -> str:
        return str(self.recording["recording"])

    @property
    def recording_name(self) -> str:
        return self.name

    @property
    def items(self) -> int:
        return 1

    @property
    def spared(self) -> bool:
        """Whether it lacks only costly measures, which a threshold made unnecessary so far."""
        lacking = [plugin for _, missing in self.spans or () for plugin in missing]
        return self.spans is not None and all(map(verdicts.costly, lacking))

    @property
    def seconds(self) -> float:
        return float(self.recording["header_seconds"] or 0.0)


def meta(job: Job) -> dict[str, Any]:
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
        cut = shard.cuts.get(name)
        if cut is None or not cut.known:
            stored = frozenset(shard.audio) if stored is None else stored
            units.append(Unit(recording, name, None, stored))
            continue
        if cut.error_code:
            reused += 1
            continue
        if spans := _lacking(cut, shard.job):
            units.append(Unit(recording, name, spans, decoded=cut.decoded, faults=cut.faults))
        else:
            reused += 1
    return units, reused


def _lacking(cut: cuts.Cut, job: Job) -> tuple[tuple[Span, tuple[Plugin, ...]], ...]:
    """Utterances of a known cut that lack measures, with the filters that they lack."""
    found = []
    for s in cut.spans:
        if s["kind"] == "utterance" and s["end"] > s["start"]:
            key = s["start"], s["end"], s["given"]
            if missing := cut.lacks(key, job.filter.filters, job.filter.measure_all):
                found.append((Span(s["start"], s["end"], "utterance", s["given"]), missing))
    return tuple(found)


def compute(units: list[Unit], job: Job) -> Iterator[list[Row]]:
    """Rows of each unit, in order. A bad recording gives the row of its failure."""
    for unit in units:
        handed = handover.Writer(job, str(unit.recording["content"]), unit.stored)
        try:
            rows = _cut(unit, job, handed)
        except (ItemError, MemoryError) as error:
            handed.discard()
            if isinstance(error, ItemError):
                rows = failure(unit, error.code, error.detail, error.decoded, error.rate)
            else:
                rows = failure(unit, "out_of_memory", str(error))
        except BaseException:
            handed.discard()
            raise
        locator = Locator.loads(unit.recording["locator"])
        # If the file changed meanwhile, what was read does not belong to its digest.
        if cutting.unchanged(locator, unit.recording["guard"]):
            handed.publish()
        else:
            rows = []
            handed.discard()
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


def _cut(unit: Unit, job: Job, handed: handover.Writer) -> list[Row]:
    segmenter, settings = plugins.resolve("segmenters", job.filter.segmenter)
    given = cuts.segments_of(unit.recording)
    rules = verdicts.filter_rules(job.filter.filters)
    known = None if unit.spans is None else dict(unit.spans)
    facts = cutting.StreamFacts()
    rows: list[Row] = []
    locator = Locator.loads(unit.recording["locator"])

    def begin(rate: int, at: int) -> Segmenter:
        if known is None:
            return segmenter.start(settings, rate, given or ())
        return cutting.KnownSpans(list(known), at)

    first = min((span.start for span in known or ()), default=0)
    for span, clip in cutting.spans(locator, facts, begin, first):
        found = Measured({}, {})
        if clip is not None:
            clip = clip.of_recording(None, unit.recording["size"])
            filters = job.filter.filters if known is None else known[span]
            found = measured(clip, filters, job.filter.measure_all)
            if known is None and judge(found.measures, rules) is None:
                handed.add(span.start, span.end, clip)
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
            }
        )
    whole = WholeRecording(unit.decoded, unit.faults)
    if known is None:
        whole = WholeRecording(facts.decoded, tuple(facts.faults))
    for row in rows:
        if row["kind"] == "utterance" and row["end"] > row["start"]:
            key = Span(row["start"], row["end"], "utterance", row["given"])
            filters = job.filter.filters if known is None else known[key]
            row["measures"].update(_after_all(row, unit.recording, whole, filters))
            if known is None and judge(row["measures"], rules) is not None:
                handed.drop(row["start"], row["end"])
        row["measures"] = list(row["measures"].items())
    if known is not None:
        return rows
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
    return [recording, *rows]


class WholeRecording(NamedTuple):
    """What is known of a recording once it is decoded to its end."""

    decoded: int
    faults: tuple[Fault, ...]


def _after_all(
    row: Row, recording: Row, whole: WholeRecording, filters: Sequence[Plugin]
) -> dict[str, float | None]:
    """Measures of an utterance that need the whole recording, but none of its samples."""
    start, end = row["start"], row["end"]
    clip = Clip(
        row["rate"],
        row["channels"],
        end - start,
        recording["header_seconds"],
        recording["size"],
        recording_samples=whole.decoded,
        faults=touching(whole.faults, start, end),
    )
    found: dict[str, float | None] = {}
    for plugin in filters:
        module, settings = plugins.resolve("filters", plugin)
        if module.AFTER_ALL:
            found.update(module.measure(clip, settings))
    return found


class Measured(NamedTuple):
    """What was measured of one clip: numbers by column, fingerprints by filter."""

    measures: dict[str, float | None]
    fingerprints: dict[str, bytes]


def measured(clip: Clip, filters: Sequence[Plugin], measure_all: bool = False) -> Measured:
    """Run filters on a clip, cheap ones first; costly ones only if those reject nothing."""
    found = Measured({}, {})
    rules = verdicts.cheap_rules(tuple(filters))
    for plugin in sorted(filters, key=verdicts.costly):
        if verdicts.costly(plugin) and not measure_all and judge(found.measures, rules) is not None:
            break
        module, settings = plugins.resolve("filters", plugin)
        found.measures.update(module.measure(clip, settings))
        if module.fingerprint:
            found.fingerprints[plugin.use] = module.fingerprint(clip, settings)
    return found
