"""Chooses the spans to listen to: mostly the worst, and those nearest to a limit.

First the clips whose recognised text differs most from the reference. For a reason with a limit:
the spans furthest beyond it, those just beyond it, and packaged clips just inside. For a reason
without one: the longest spans, then the least certain transcripts, or random spans if there are
no transcripts. Of packaged clips: those with the most music or applause, for which recognisers
invent words, the least certain transcripts, those nearest to any limit, and random ones if these
are too few. Failed recordings are drawn at random. A uniform sample of a large corpus would show
hardly any of these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ...accounting.summary import REMOVED
from ...plugins.rules import Limit
from ...storage.queries import identifier, literal, streamed
from .ledger_facts import Ledger
from .outcome_columns import Columns

PER_REASON = 8  # clips; for packaged ones twice as many
IN_ALL = 80  # clips
DIFFERING = 48  # clips, from which `clip_table` takes some of each kind
PACKAGED = "packaged"
DIFFERS = "differs most"
MIDDLE = (0.05, 0.95)  # quantiles around the middle 90 % of values
NEAR = 0.5  # largest distance that is near, as a share of the range between these
#: Measures of a recogniser's certainty, and the end of each that means uncertain.
CERTAINTY = (
    ("avg_logprob", "min"),
    ("wer", "max"),
    ("speech_after_text", "max"),
    ("language_probability", "min"),
)
#: Measures of the share of a clip with sounds for which recognisers invent words.
INVENTED = ("sounds_applause", "sounds_music", "sounds_singing", "music_share")
LEAST_INVENTED = 0.05  # least share of a clip that counts

#: The columns of a ledger that decide, and the number of the row.
COLUMNS = {
    **dict.fromkeys(("stage", "reason", "outcome"), pa.string()),
    **dict.fromkeys(("value", "threshold", "start", "end"), pa.float64()),
}
SCHEMA = pa.schema({**COLUMNS, "row": pa.int64()})
#: The first rows of each reason in four orders, ties by chance. `excess`: the distance of a value
#: beyond its limit, as a share of the limit, because columns with different limits may share a
#: reason.
_GROUPS = """
WITH spans AS (
    SELECT *, "end" - start AS seconds, hash(row, {seed}) AS chance,
        CASE outcome WHEN 'packaged' THEN outcome ELSE concat(stage, '.', reason) END AS name,
        abs(value - threshold) / CASE threshold WHEN 0 THEN 1 ELSE abs(threshold) END AS excess,
        {{'row': row, 'value': value, 'limit': threshold}} AS span
    FROM given WHERE outcome = 'packaged' OR reason IS DISTINCT FROM '{removed}')
SELECT name, count(*) AS count, bool_and(coalesce(outcome = 'failed', false)) AS failed,
    max_by(span, {{'first': excess, 'then': chance}}, {most}) FILTER (isfinite(excess)) AS worst,
    min_by(span, {{'first': excess, 'then': chance}}, {most}) FILTER (isfinite(excess)) AS nearest,
    max_by(row, {{'first': seconds, 'then': chance}}, {most}) AS longest,
    min_by(row, chance, {most}) AS drawn
FROM spans GROUP BY name ORDER BY name <> 'packaged', name
"""


@dataclass(frozen=True, slots=True)
class Why:
    """Why a span is shown in `group`, which is `packaged` or `stage.reason`."""

    group: str
    kind: str  # worst, just beyond, just inside, music or applause, least certain, near a limit,
    # longest, by chance, differs most
    measure: str = ""  # column; empty if unknown
    value: float | None = None
    limit: float | None = None
    side: str = ""  # min, max: whether `limit` is a lower or an upper one


Picks = list[tuple[int, Why]]  # (row number of the ledger, why it is shown)
Doubts = list[tuple[str, Why]]  # (id of an utterance, why it is shown)


@dataclass(frozen=True, slots=True)
class Group:
    """The number of rows of one reason, or of packaged ones, and the first of them."""

    name: str
    count: int
    failed: bool  # whether all of them failed
    worst: Sequence[Mapping[str, Any]] | None  # row, value, limit; None: none has a limit
    nearest: Sequence[Mapping[str, Any]] | None
    longest: Sequence[int]
    drawn: Sequence[int]


class Side(NamedTuple):
    """One limit of a rule, and the group of its rejections."""

    group: str
    column: str
    side: str
    limit: float

    @property
    def distance(self) -> str:
        """SQL: the distance of a value inside the limit, negative beyond it."""
        away = f"{identifier(self.column)}::DOUBLE - '{self.limit!r}'::DOUBLE"
        return f"({away})" if self.side == "min" else f"(-({away}))"


def groups_of(ledger: Ledger, columns: Columns, seed: int, most: int) -> dict[str, Group]:
    """For the packaged rows and then for each `stage.reason`, sorted by name, `most` rows in each
    order. Removed recordings are left out."""

    def numbered() -> Iterator[pa.Table]:
        first = 0
        for part in ledger.portions(*COLUMNS):
            yield part.append_column("row", pa.array(np.arange(first, first + part.num_rows)))
            first += part.num_rows

    sql = _GROUPS.format(seed=seed, removed=REMOVED, most=most)
    with streamed(columns.database, numbered(), SCHEMA, sql) as batches:
        groups = [Group(**row) for batch in batches for row in batch.to_pylist()]
    return {group.name: group for group in groups}


def chosen_rows(ledger: Ledger, columns: Columns, seed: int) -> dict[int, list[Why]]:
    """Row numbers of the ledger, each with all reasons for showing it, group by group: packaged
    ones first, the worst of each group first."""
    groups = groups_of(ledger, columns, seed, 2 * PER_REASON)
    most = _quota({name: group.count for name, group in groups.items()})
    sides = [
        Side(f"{stage}.{reason}", rule.column, side, float(limit))
        for stage, rule in columns.rules
        if isinstance(rule, Limit)
        for side, reason, limit in (("min", rule.low, rule.min), ("max", rule.high, rule.max))
        if limit is not None
    ]
    doubts = {name: _doubts(columns, group, sides, most) for name, group in groups.items()}
    doubts[DIFFERS] = differing(columns, DIFFERING)
    row_of = ledger.find({key for picks in doubts.values() for key, _ in picks})
    doubtful = {
        name: [(row_of[key], why) for key, why in picks if key in row_of]
        for name, picks in doubts.items()
    }
    chosen = {row: [why] for row, why in doubtful[DIFFERS]}
    for name, group in groups.items():
        if group.failed:
            picks = _by_chance(group, most)
        elif group.worst:
            picks = _beyond(group, sides, most) + doubtful[name]
        else:
            longest = [] if name == PACKAGED else group.longest[: _parts(most)[0]]
            picks = [(row, Why(name, "longest")) for row in longest] + doubtful[name]
            shown = dict(picks)
            picks += _by_chance(group, most - len(shown), shown)
        for row, why in picks:
            chosen.setdefault(row, []).append(why)
    return chosen


def _doubts(columns: Columns, group: Group, sides: Sequence[Side], most: int) -> Doubts:
    """Utterances that are shown in a group for their measures."""
    worst, _, inside_limit = _parts(most)
    if group.name == PACKAGED:
        picks = invented(columns, worst)
        picks += uncertain(columns, sides, most - len(picks))
        return picks + near(columns, sides, most)
    if group.worst:
        return inside(columns, [s for s in sides if s.group == group.name], inside_limit)
    if group.name.startswith("transcribe.") and not group.failed:
        return uncertain(columns, sides, most - worst, group.name)
    return []


def _quota(counts: Mapping[str, int]) -> int:
    """The number of clips for each reason, at least 1, so that the total is at most IN_ALL; twice
    as many are packaged ones."""

    def shown(name: str, most: int) -> int:
        if name == PACKAGED:
            return min(counts[name], 2 * most)
        return min(counts[name] + _parts(most)[2], most)

    fitting = (n for n in range(PER_REASON, 1, -1) if sum(shown(m, n) for m in counts) <= IN_ALL)
    return next(fitting, 1)


def _parts(most: int) -> tuple[int, int, int]:
    """How many of `most` clips of a reason are the worst, just beyond the limit and just inside."""
    worst = -(-most // 2)
    beyond = -(-(most - worst) // 2)
    return worst, beyond, most - worst - beyond


def _beyond(group: Group, sides: Sequence[Side], most: int) -> Picks:
    """The worst spans of a reason with a limit, then those just beyond the limit, nearest first."""
    worst, beyond, _ = _parts(most)
    first = (group.worst or ())[:worst]
    rows = {span["row"] for span in first}
    near = [span for span in group.nearest or () if span["row"] not in rows][:beyond]
    picks: Picks = []
    for kind, spans in (("worst", first), ("just beyond", near)):
        for span in spans:
            row, value, limit = span["row"], span["value"], span["limit"]
            side = "min" if value < limit else "max"
            limits = (group.name, side, limit)
            measures = [s.column for s in sides if (s.group, s.side, s.limit) == limits]
            why = Why(group.name, kind, measures[0] if measures else "", value, limit, side)
            picks.append((row, why))
    return picks


def _by_chance(group: Group, count: int, but: Collection[int] = ()) -> Picks:
    rows = [row for row in group.drawn if row not in but]
    return [(row, Why(group.name, "by chance")) for row in rows[: max(count, 0)]]


# Of the facts of utterances: clips that are worth a check although no rule rejects them.

KEPT = "outcome = 'packaged'"


def ranked(
    columns: Columns, name: str, key: str, count: int, where: str, then: str = "rowid"
) -> list[tuple[str, float, float]]:
    """(id, measure, key) of the utterances with the smallest keys, sorted. `key`: SQL; those with
    NULL are left out; `then`: orders equal keys, else they keep their order."""
    rows: list[tuple[str, float, float]] = columns.database.execute(
        f"SELECT id, {identifier(name)}::DOUBLE, ({key})::DOUBLE AS key FROM outcomes "
        f"WHERE {where} AND isfinite(key) ORDER BY key, {then}, rowid LIMIT {max(count, 0)}"
    ).fetchall()
    return rows


def inside(columns: Columns, sides: Sequence[Side], count: int) -> Doubts:
    """Packaged ones just inside the limits of a reason, nearest first."""
    candidates = []
    for side in sides:
        where = f"{KEPT} AND {side.distance} >= 0"
        for key, value, distance in ranked(columns, side.column, side.distance, count, where):
            why = Why(side.group, "just inside", side.column, value, side.limit, side.side)
            candidates.append((distance / (abs(side.limit) or 1.0), key, why))
    return _first(candidates, count)


def near(columns: Columns, sides: Sequence[Side], count: int) -> Doubts:
    """Packaged ones nearest to any limit, at most two for each limit and `count` in all."""
    candidates = []
    for side in sides:
        column = f"{identifier(side.column)}::DOUBLE"
        [[middle]] = columns.database.execute(
            f"SELECT quantile_cont({column}, {[*MIDDLE]}) FROM outcomes "
            f"WHERE {KEPT} AND isfinite({column})"
        ).fetchall()
        if not middle:
            continue
        unit = (middle[1] - middle[0]) or abs(side.limit) or 1.0
        for key, value, away in ranked(columns, side.column, f"abs({side.distance})", 2, KEPT):
            if away / unit <= NEAR:
                why = Why(PACKAGED, "near a limit", side.column, value, side.limit, side.side)
                candidates.append((away / unit, key, why))
    return _first(candidates, count)


def _first(candidates: list[tuple[float, str, Why]], count: int) -> Doubts:
    """The ids of the candidates with the smallest numbers."""
    order = sorted(candidates, key=lambda candidate: candidate[:2])
    return [(key, why) for _, key, why in order[:count]]


def invented(columns: Columns, count: int) -> Doubts:
    """Packaged ones with the most music, singing or applause, whose texts may be invented."""
    why_by_id: dict[str, tuple[float, Why]] = {}
    for name in (name for name in INVENTED if name in columns.names):
        where = f"{KEPT} AND {identifier(name)} >= {LEAST_INVENTED}"
        for key, share, _ in ranked(columns, name, f"-{identifier(name)}", count, where):
            if key not in why_by_id or share > why_by_id[key][0]:
                why_by_id[key] = share, Why(PACKAGED, "music or applause", name, share)
    return _first([(-share, key, why) for key, (share, why) in why_by_id.items()], count)


def uncertain(columns: Columns, sides: Sequence[Side], count: int, group: str = PACKAGED) -> Doubts:
    """Those of a group with the least certain transcripts: the first by each measure, then the
    second by each, and so on; `count` in all, without repetition."""
    members = f"outcome <> 'packaged' AND stage || '.' || reason = {literal(group)}"
    members = KEPT if group == PACKAGED else members
    orders: list[Doubts] = []
    for name, side in CERTAINTY:
        if name not in columns.names:
            continue
        sign = "" if side == "min" else "-"
        key = f"({sign}{identifier(name)}::DOUBLE)"
        best = f"(SELECT max({key}) FROM outcomes WHERE {members} AND isfinite({key}))"
        where = f"{members} AND {key} <> {best}"  # those with the best value are not uncertain
        limits = (s.limit for s in sides if (s.column, s.side) == (name, side))
        limit = next(limits, None)
        orders.append(
            [
                (key, Why(group, "least certain", name, value, limit, side))
                for key, value, _ in ranked(columns, name, key, count, where)
            ]
        )
    why_by_id: dict[str, Why] = {}
    for rank in range(count):
        for order in orders:
            if rank < len(order) and len(why_by_id) < count:
                why_by_id.setdefault(*order[rank])
    return [*why_by_id.items()]


def differing(columns: Columns, count: int) -> Doubts:
    """Those with the highest word error rate against their reference, and among equals the most
    errors, whatever their outcome."""
    most = '-coalesce("word_errors"::DOUBLE, 0)'
    rows = ranked(columns, "wer", '-"wer"', count, '"wer" > 0', most)
    return [(key, Why(DIFFERS, DIFFERS, "wer", rate)) for key, rate, _ in rows]
