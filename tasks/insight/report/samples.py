"""Chooses the spans that a report shows, and looks up their texts, measures and audio."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...accounting.summary import REMOVED
from ...base.arrays import Bools, Float64s
from ...base.schema import EnhancedRow, LedgerRow
from ...recording import Locator
from ...recording.tracks import locator_of
from ...settings.job import Job
from ...shard_store import hidden, manifest
from ...shard_store.text_values import final_text
from ...shard_store.utterance import FinalUtterance
from ...stages.stage import view_of
from ...storage import long_columns
from . import uncertain_clips
from .ledger_facts import Ledger
from .outcome_columns import Columns
from .uncertain_clips import DIFFERS, PACKAGED, Side, Why, least


@dataclass(slots=True)
class Sample:
    """A span of the ledger, with the facts that a report shows."""

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
        """The span's group: `packaged`, or `stage.reason`."""
        return "packaged" if self.kept else f"{self.row['stage']}.{self.row['reason']}"


def choose(ledger: Ledger, seed: int, columns: Columns) -> list[Sample]:
    """The samples, in the order of `chosen_rows`."""
    picks = chosen_rows(ledger, columns, seed)
    rows = dict(zip(sorted(picks), ledger.rows(list(picks)), strict=True))
    return [Sample(rows[number], whys) for number, whys in picks.items()]


def look_up(job: Job, samples: Sequence[Sample]) -> None:
    """Fill in the samples from the manifests; a sample whose recording is unknown is not
    changed."""
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
                _fill_in(job, sample, utterance)


def _fill_in(job: Job, sample: Sample, utterance: FinalUtterance) -> None:
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
    if utterance.heard.packed is not None and not utterance.heard.packed["error_code"]:
        sample.pcm = utterance.heard.packed


def _shards_of(job: Job, recordings: set[str]) -> dict[str, set[str]]:
    """By shard, those of these recordings that it holds."""
    inside = (
        (shard, recordings.intersection(manifest.recordings(job.out, shard)))
        for shard in manifest.shards(job.out)
    )
    return {shard: names for shard, names in inside if names}


# Chooses the spans to listen to: mostly the worst, and those nearest to a limit.
#
# First the clips whose recognised text differs most from the reference. For a reason with a limit:
# the spans furthest beyond it, those just beyond it, and packaged clips just inside. For a reason
# without one: the longest spans, then the least certain transcripts, or random spans if there are
# no transcripts. Of packaged clips: those with the most music or applause, for which recognisers
# invent words, the least certain transcripts, those nearest to any limit, and random ones if these
# are too few. Failed recordings are drawn at random. A uniform sample of a large corpus would show
# hardly any of these.
#
# One pass over the ledger keeps a few rows of each reason in four orders, because whole columns of
# a ledger of ten million utterances would take a gigabyte.

PER_REASON = 8  # clips; for packaged ones twice as many
IN_ALL = 80  # clips
DIFFERING = 48  # clips, from which `clip_table` takes some of each kind
COLUMNS = ("stage", "reason", "outcome", "value", "threshold", "start", "end")

#: Rows of a ledger, with the values that order them.
SPAN = np.dtype(
    [
        ("row", np.int64),
        ("chance", np.float64),  # a random number, which breaks ties
        ("value", np.float64),  # NaN if the reason has none; the same for the limit
        ("limit", np.float64),
        ("seconds", np.float64),
    ]
)
Spans = NDArray[np.void]  # of SPAN
Picks = list[tuple[int, Why]]  # (row number of a table, why it is shown)


def excess(spans: Spans) -> Float64s:
    """Distance of each value beyond its limit, as a share of the limit, because columns with
    different limits may share a reason. NaN without a value or limit."""
    limit: Float64s = spans["limit"]
    return np.abs(spans["value"] - limit) / np.where(limit == 0, 1.0, np.abs(limit))


#: The orders in which the first rows of a reason are kept; rows with NaN are not kept.
ORDERS: Mapping[str, Callable[[Spans], Float64s]] = {
    "worst": lambda spans: -excess(spans),
    "nearest": excess,
    "longest": lambda spans: -spans["seconds"],
    "drawn": lambda spans: spans["chance"],
}


@dataclass(slots=True)
class ReasonRows:
    """The number of rows of one reason, or of packaged ones, and the first rows in each order."""

    count: int = 0
    failed: bool = True  # whether all of them failed
    first: dict[str, Spans] = field(default_factory=dict)

    @property
    def ranked(self) -> bool:
        """Whether any row has a value and a limit."""
        return len(self.first["worst"]) > 0

    def add(self, spans: Spans, failed: Bools, most: int) -> None:
        self.count += len(spans)
        self.failed = self.failed and bool(failed.all())
        for name, key in ORDERS.items():
            best = spans[least(key(spans), most, spans["chance"])]
            best = np.concatenate([self.first.get(name, best[:0]), best])
            self.first[name] = best[least(key(best), most, best["chance"])]


def groups_of(ledger: Ledger, seed: int, most: int) -> dict[str, ReasonRows]:
    """For the packaged rows and then for each `stage.reason`, sorted by name, `most` rows in each
    order. Removed recordings are left out."""
    draw = np.random.default_rng(seed)
    groups: dict[str, ReasonRows] = {}
    first_row = 0
    for part in ledger.portions(*COLUMNS):
        spans = _spans(part, first_row, draw)
        outcome = pc.fill_null(part["outcome"], "")
        failed, packaged = (pc.equal(outcome, word).to_numpy() for word in ("failed", PACKAGED))
        members = {PACKAGED: packaged}
        for name, rows in _reasons(part).items():
            members[name] = rows & ~packaged
        for name, rows in members.items():
            if rows.any():
                groups.setdefault(name, ReasonRows()).add(spans[rows], failed[rows], most)
        first_row += part.num_rows
    return dict(sorted(groups.items(), key=lambda item: (item[0] != PACKAGED, item[0])))


def _reasons(part: pa.Table) -> dict[str, Bools]:
    """By `stage.reason`, which rows have it."""
    stage, reason = (pc.fill_null(part[name], "") for name in ("stage", "reason"))
    coded = long_columns.coded(pc.binary_join_element_wise(stage, reason, "."))
    codes = coded.indices.to_numpy()
    names = enumerate(coded.dictionary.to_pylist())
    return {name: codes == code for code, name in names if name.partition(".")[2] != REMOVED}


def _spans(part: pa.Table, first: int, draw: np.random.Generator) -> Spans:
    spans = np.empty(part.num_rows, SPAN)
    spans["row"] = np.arange(first, first + part.num_rows)
    spans["chance"] = draw.random(part.num_rows)
    value, limit, start, end = (
        pc.cast(part[name], pa.float64()).to_numpy()  # NaN for null
        for name in ("value", "threshold", "start", "end")
    )
    spans["value"], spans["limit"], spans["seconds"] = value, limit, end - start
    return spans


def chosen_rows(ledger: Ledger, columns: Columns, seed: int) -> dict[int, list[Why]]:
    """Row numbers of the ledger, each with all reasons for showing it, group by group: packaged
    ones first, the worst of each group first."""
    groups = groups_of(ledger, seed, 2 * PER_REASON)
    most = _quota({name: group.count for name, group in groups.items()})
    sides = uncertain_clips.sides_of(columns)
    doubts = _doubts(ledger, columns, groups, sides, most)
    chosen = {row: [why] for row, why in doubts.get(DIFFERS, [])}
    for name, group in groups.items():
        if group.failed:
            picks = _by_chance(name, group, most)
        elif group.ranked:
            own_sides = [side for side in sides if side.group == name]
            picks = _beyond(name, group, own_sides, most) + doubts.get(name, [])
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
    """By group, rows of the ledger that are chosen by their measures."""
    picks_by_group = {DIFFERS: uncertain_clips.differing(columns, DIFFERING)}
    for name, group in groups.items():
        if name == PACKAGED:
            picks = uncertain_clips.invented(columns, _parts(most)[0])
            picks += uncertain_clips.uncertain(columns, sides, most - len(picks))
            picks_by_group[name] = picks + uncertain_clips.near(columns, sides, most)
        elif group.ranked:
            own_sides = [side for side in sides if side.group == name]
            picks_by_group[name] = uncertain_clips.inside(columns, own_sides, _parts(most)[2])
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
    """The number of clips for each reason, at least 1, so that the total is at most IN_ALL; twice
    as many are packaged ones."""

    def shown(name: str, most: int) -> int:
        if name == PACKAGED:
            return min(counts[name], 2 * most)
        return min(counts[name] + _parts(most)[2], most)

    for most in range(PER_REASON, 1, -1):
        if sum(shown(name, most) for name in counts) <= IN_ALL:
            return most
    return 1


def _parts(most: int) -> tuple[int, int, int]:
    """How many of `most` clips of a reason are the worst, just beyond the limit and just inside."""
    worst = -(-most // 2)
    beyond = -(-(most - worst) // 2)
    return worst, beyond, most - worst - beyond


def _beyond(name: str, group: ReasonRows, sides: Sequence[Side], most: int) -> Picks:
    """The worst spans of a reason with a limit, then those just beyond the limit, nearest first."""
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
