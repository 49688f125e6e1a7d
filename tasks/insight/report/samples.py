"""The facts about each span that a report shows: text, measures, the place of its audio."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.accounting.summary import REMOVED
from tasks.base.arrays import Bools, Float64s
from tasks.base.schema import EnhancedRow, LedgerRow
from tasks.insight.report import uncertain_clips
from tasks.insight.report.ledger_facts import Ledger
from tasks.insight.report.outcome_columns import Columns, flags_of, numbers_of
from tasks.insight.report.uncertain_clips import DIFFERS, PACKAGED, Side, Why, least
from tasks.recording import Locator
from tasks.recording.tracks import locator_of
from tasks.settings.job import Job
from tasks.shard_store import hidden
from tasks.shard_store.index import Index
from tasks.shard_store.text_values import final_text
from tasks.shard_store.utterance import FinalUtterance
from tasks.stages.listing import fingerprints, known_recordings
from tasks.stages.stage import view_of
from tasks.storage import long_columns


@dataclass(slots=True)
class Sample:
    """One span of the ledger, with everything that a report shows of it."""

    row: LedgerRow
    whys: list[Why] = field(default_factory=list)
    shard: str | None = None
    locator: Locator | None = None
    text: str | None = None
    text_source: str | None = None
    heard: str | None = None
    reference: str | None = None
    measures: dict[str, float] = field(default_factory=dict)
    pcm: EnhancedRow | None = None
    muted: str | None = None  # where words are silenced

    @property
    def kept(self) -> bool:
        return bool(self.row["outcome"] == "packaged")

    @property
    def seconds(self) -> float:
        return max(float(self.row["end"] - self.row["start"]), 0.0)

    @property
    def name(self) -> str:
        """Its group: `packaged`, or `stage.reason`."""
        return "packaged" if self.kept else f"{self.row['stage']}.{self.row['reason']}"


def choose(ledger: Ledger, seed: int, columns: Columns | None = None) -> list[Sample]:
    """The samples, in the order of `clip_choice`."""
    picks = chosen_rows(ledger, columns, seed)
    rows = dict(zip(sorted(picks), ledger.rows(list(picks)), strict=True))
    return [Sample(rows[number], whys) for number, whys in picks.items()]


def look_up(job: Job, samples: Sequence[Sample]) -> None:
    """Fill in the samples from the manifests; one whose recording is not found stays as it is."""
    wanted: dict[str, list[Sample]] = {}
    for sample in samples:
        wanted.setdefault(sample.row["recording"], []).append(sample)
    for shard, names in _shards_of(job, set(wanted)).items():
        view = view_of(job, shard)
        view.recordings = [r for r in view.recordings if r["recording"] in names]
        shard_samples = [s for r in view.recordings for s in wanted[r["recording"]]]
        locators = {r["recording"]: locator_of(r, job.filter) for r in view.recordings}
        utterances = (
            {u.cut.id: u for u in view.transcribed()}
            if any(s.row["utterance"] for s in shard_samples)
            else {}
        )
        for sample in shard_samples:
            sample.shard, sample.locator = shard, locators[sample.row["recording"]]
            utterance = utterances.get(sample.row["utterance"] or "")
            if utterance is not None:
                _tell(job, sample, utterance)


def _tell(job: Job, sample: Sample, utterance: FinalUtterance) -> None:
    sample.reference = utterance.cut.reference
    heard = utterance.heard.transcript
    if heard is not None and not heard["error_code"]:
        sample.text, sample.text_source = final_text(job, utterance.heard)
        sample.heard = heard["text"]
    elif utterance.cut.reference:
        sample.text, sample.text_source = utterance.cut.reference, "reference"
    sample.muted = utterance.muted
    language = heard["language"] if heard is not None else utterance.cut.language
    most = hidden.most_places(job, utterance.heard, sample.text)
    for name in ("text", "heard", "reference"):
        setattr(sample, name, hidden.shown(job, getattr(sample, name), language, most))
    values: dict[str, object] = {**utterance.heard.measures, **utterance.texts}
    sample.measures = {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if utterance.heard.pcm is not None and not utterance.heard.pcm["error_code"]:
        sample.pcm = utterance.heard.pcm


def _shards_of(job: Job, recordings: set[str]) -> dict[str, set[str]]:
    """Which shard holds which of these recordings."""
    listing, names = known_recordings.of(job.out, Index(job.out)), sorted(recordings)
    names_by_shard: dict[str, set[str]] = {}
    for name, row in zip(names, listing.find(fingerprints.keys(names)).tolist(), strict=True):
        if row >= 0:
            names_by_shard.setdefault(listing.shards[listing.columns.shard[row]], set()).add(name)
    return names_by_shard


# Which spans a report offers to listen to: the worst, and those nearest to a limit.
#
# Of a reason with a limit: the spans furthest beyond the limit, those just beyond it, and
# packaged clips just inside. Of a reason without one: the longest spans, then the least certain
# transcripts, or without transcripts random spans. Of the packaged clips: those with the most
# music or applause, for which recognisers invent words, the least certain transcripts, those
# nearest to any limit, and random ones if these are too few. Failed recordings are drawn at
# random. Before all of these, the clips whose recogniser differs most from their reference. A
# uniform sample of a large corpus would show hardly any of these.
#
# One pass over the ledger keeps a few rows of each reason by four orders: whole columns of a
# ledger of ten million utterances would take a gigabyte.

PER_REASON = 8  # clips; twice as many of the packaged ones
IN_ALL = 80
DIFFERING = 48  # clips, of which `disagreement` takes some of each kind
COLUMNS = ("stage", "reason", "outcome", "value", "threshold", "start", "end")

#: Rows of a ledger with what orders them.
SPAN = np.dtype(
    [
        ("row", np.int64),
        ("chance", np.float64),  # a random number, by which equal ones are ordered
        ("value", np.float64),  # NaN if the reason has none, as for the limit
        ("limit", np.float64),
        ("seconds", np.float64),
    ]
)
Spans = NDArray[np.void]  # of SPAN
Picks = list[tuple[int, Why]]  # row numbers of a table, each with why it is shown


def excess(spans: Spans) -> Float64s:
    """How far beyond its limit each value is, as a share of the limit: several columns may share a
    reason, and each has its own limit. NaN without value or limit."""
    limit: Float64s = spans["limit"]
    return np.abs(spans["value"] - limit) / np.where(limit == 0, 1.0, np.abs(limit))


#: The orders by which rows of a reason are kept; rows without the number are not.
ORDERS: Mapping[str, Callable[[Spans], Float64s]] = {
    "worst": lambda spans: -excess(spans),
    "nearest": excess,
    "longest": lambda spans: -spans["seconds"],
    "drawn": lambda spans: spans["chance"],
}


@dataclass(slots=True)
class ReasonRows:
    """The rows of one reason, or the packaged ones: how many, and the first by each order."""

    count: int = 0
    failed: bool = True  # all of them
    first: dict[str, Spans] = field(default_factory=dict)

    @property
    def ranked(self) -> bool:
        """Whether any row has a value and the limit that it broke."""
        return len(self.first["worst"]) > 0

    def add(self, spans: Spans, failed: Bools, most: int) -> None:
        self.count += len(spans)
        self.failed = self.failed and bool(failed.all())
        for name, key in ORDERS.items():
            best = spans[least(key(spans), most, spans["chance"])]
            best = np.concatenate([self.first.get(name, best[:0]), best])
            self.first[name] = best[least(key(best), most, best["chance"])]


def groups_of(ledger: Ledger, seed: int, most: int) -> dict[str, ReasonRows]:
    """Of each `stage.reason`, by name after the packaged ones, `most` rows by each order.
    Recordings that left their source are left out."""
    draw = np.random.default_rng(seed)
    groups: dict[str, ReasonRows] = {}
    first_row = 0
    for part in ledger.batches(*COLUMNS):
        spans = _spans(part, first_row, draw)
        failed, packaged = (
            flags_of(pc.equal(part["outcome"], word)) for word in ("failed", PACKAGED)
        )
        members = {PACKAGED: packaged}
        for name, rows in _reasons(part).items():
            members[name] = rows & ~packaged
        for name, rows in members.items():
            if rows.any():
                groups.setdefault(name, ReasonRows()).add(spans[rows], failed[rows], most)
        first_row += part.num_rows
    return dict(sorted(groups.items(), key=lambda item: (item[0] != PACKAGED, item[0])))


def _reasons(part: pa.Table) -> dict[str, Bools]:
    """Which rows have each `stage.reason`."""
    stage, reason = (pc.fill_null(part[name], "") for name in ("stage", "reason"))
    coded = long_columns.coded(pc.binary_join_element_wise(stage, reason, "."))
    codes = coded.indices.to_numpy()
    names = enumerate(coded.dictionary.to_pylist())
    return {name: codes == code for code, name in names if name.partition(".")[2] != REMOVED}


def _spans(part: pa.Table, first: int, draw: np.random.Generator) -> Spans:
    spans = np.empty(part.num_rows, SPAN)
    spans["row"] = np.arange(first, first + part.num_rows)
    spans["chance"] = draw.random(part.num_rows)
    spans["value"], spans["limit"] = numbers_of(part["value"]), numbers_of(part["threshold"])
    spans["seconds"] = numbers_of(part["end"]) - numbers_of(part["start"])
    return spans


def chosen_rows(ledger: Ledger, columns: Columns | None, seed: int) -> dict[int, list[Why]]:
    """Row numbers of the ledger, each with all reasons for showing it: group by group, the packaged
    first, in each group the worst first. Without a valid table of outcomes, `columns` is None and
    packaged clips are drawn at random."""
    groups = groups_of(ledger, seed, 2 * PER_REASON)
    most = _quota({name: group.count for name, group in groups.items()})
    sides = uncertain_clips.sides_of(columns) if columns is not None else []
    doubts = {} if columns is None else _doubts(ledger, columns, groups, sides, most)
    chosen = {row: [why] for row, why in doubts.get(DIFFERS, [])}
    for name, group in groups.items():
        if group.failed:
            picks = _by_chance(name, group, most)
        elif group.ranked:
            mine = [side for side in sides if side.group == name]
            picks = _beyond(name, group, mine, most) + doubts.get(name, [])
        else:
            picks = [] if name == PACKAGED else _longest(name, group, _parts(most)[0])
            picks += doubts.get(name, [])
            shown = dict(picks)
            picks += _by_chance(name, group, most - len(shown), shown)
        for row, why in picks:
            chosen.setdefault(row, []).append(why)
    return chosen


def _doubts(
    ledger: Ledger,
    columns: Columns,
    groups: Mapping[str, ReasonRows],
    sides: Sequence[Side],
    most: int,
) -> dict[str, Picks]:
    """Rows of the ledger that the table of outcomes adds to each group."""
    picks_by_group = {DIFFERS: uncertain_clips.differing(columns, DIFFERING)}
    for name, group in groups.items():
        if name == PACKAGED:
            picks = uncertain_clips.invented(columns, _parts(most)[0])
            picks += uncertain_clips.uncertain(columns, sides, most - len(picks))
            picks_by_group[name] = picks + uncertain_clips.near(columns, sides, most)
        elif group.ranked:
            mine = [side for side in sides if side.group == name]
            picks_by_group[name] = uncertain_clips.inside(columns, mine, _parts(most)[2])
        elif name.startswith("transcribe.") and not group.failed:
            picks_by_group[name] = uncertain_clips.uncertain(
                columns, sides, most - _parts(most)[0], name
            )
    wanted = sorted({row for picks in picks_by_group.values() for row, _ in picks})
    ids = columns.ids(wanted)
    row_of = ledger.find(ids)
    places = {row: row_of[key] for row, key in zip(wanted, ids, strict=True) if key in row_of}
    return {
        name: [(places[row], why) for row, why in picks if row in places]
        for name, picks in picks_by_group.items()
    }


def _quota(counts: Mapping[str, int]) -> int:
    """Clips of each reason, at least 1, so that the total is at most IN_ALL; of the packaged, twice
    as many."""

    def shown(name: str, most: int) -> int:
        if name == PACKAGED:
            return min(counts[name], 2 * most)
        return min(counts[name] + _parts(most)[2], most)

    for most in range(PER_REASON, 1, -1):
        if sum(shown(name, most) for name in counts) <= IN_ALL:
            return most
    return 1


def _parts(most: int) -> tuple[int, int, int]:
    """Of `most` clips of a reason: the worst, those just beyond the limit, those just inside."""
    worst = -(-most // 2)
    beyond = -(-(most - worst) // 2)
    return worst, beyond, most - worst - beyond


def _beyond(name: str, group: ReasonRows, sides: Sequence[Side], most: int) -> Picks:
    """The worst of a reason that has a limit, and those just beyond it, the nearest first."""
    worst, beyond, _ = _parts(most)
    first, near = group.first["worst"][:worst], group.first["nearest"]
    near = near[~np.isin(near["row"], first["row"])][:beyond]
    return [
        (int(span["row"]), _why(name, kind, float(span["value"]), float(span["limit"]), sides))
        for kind, spans in (("worst", first), ("just beyond", near))
        for span in spans
    ]


def _longest(name: str, group: ReasonRows, count: int) -> Picks:
    """The longest spans of a reason without a limit."""
    rows = group.first["longest"]["row"][:count]
    return [(row, Why(name, "longest")) for row in rows.tolist()]


def _why(name: str, kind: str, value: float, limit: float, sides: Sequence[Side]) -> Why:
    side = "min" if value < limit else "max"
    measure = (
        limit_side.column
        for limit_side in sides
        if (limit_side.side, limit_side.limit) == (side, limit)
    )
    return Why(name, kind, next(measure, ""), value, limit, side)


def _by_chance(name: str, group: ReasonRows, count: int, but: Collection[int] = ()) -> Picks:
    rows = [row for row in group.first["drawn"]["row"].tolist() if row not in but]
    return [(row, Why(name, "by chance")) for row in rows[: max(count, 0)]]
