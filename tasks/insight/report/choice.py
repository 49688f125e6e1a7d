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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

from ...accounting.ledger import PENDING
from ...accounting.summary import REMOVED
from ...plugins.rules import Limit
from ...storage.queries import identifier, literal
from .spans import Spans

PER_REASON = 8  # clips; for packaged ones twice as many
IN_ALL = 80  # clips
DIFFERING = 48  # clips, from which `clip_table` takes some of each kind
PACKAGED = "packaged"
DIFFERS = "differs most"
UNMEASURED = ("longest", "by chance")  # kinds that tell no value
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

#: The spans of a ledger with the measures of their utterances. `kept`: packaged, or to be packaged
#: by the next run; `excess`: the distance of a value beyond its limit, as a share of the limit,
#: because columns with different limits may share a reason; `chance` orders ties.
_SPANS = f"""
CREATE OR REPLACE TABLE spans AS SELECT ledger.rowid AS row, value, threshold,
    hash(ledger.rowid, {{seed}}) AS chance, "end" - start AS length, ledger.outcome AS outcome,
    CASE ledger.outcome WHEN 'packaged' THEN ledger.outcome
        ELSE concat(ledger.stage, '.', ledger.reason) END AS name,
    coalesce(ledger.outcome IN ('packaged', '{PENDING}') AND o.outcome = 'packaged', false) AS kept,
    abs(value - threshold) / CASE threshold WHEN 0 THEN 1 ELSE abs(threshold) END AS excess
    {{measures}}
FROM ledger LEFT JOIN outcomes o ON o.id = ledger.utterance
WHERE ledger.outcome = 'packaged' OR ledger.reason IS DISTINCT FROM '{REMOVED}'
"""
_GROUPS = """
SELECT name, count(*), bool_and(coalesce(outcome = 'failed', false)),
    bool_or(coalesce(isfinite(excess), false))
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


class Pick(NamedTuple):
    """A span and why it is shown; picks of one kind are in the order of their keys."""

    key: float
    row: int  # number in the ledger
    why: Why


class Group(NamedTuple):
    """The rows of one reason, or the packaged ones."""

    name: str
    size: int
    failed: bool  # whether all of them failed
    limited: bool  # whether one has a value beyond a limit

    @property
    def members(self) -> str:
        return "kept" if self.name == PACKAGED else f"name = {literal(self.name)}"


class Side(NamedTuple):
    """One limit of a rule, and the group of its rejections."""

    group: str
    measure: str
    side: str
    limit: float

    @property
    def distance(self) -> str:
        """SQL: the distance of a value inside the limit, negative beyond it."""
        away = f"{column(self.measure)} - '{self.limit!r}'::DOUBLE"
        return f"({away})" if self.side == "min" else f"(-({away}))"


def column(measure: str) -> str:
    """SQL: a measure of a span."""
    return identifier(f"measure {measure}")


class Choosing:
    """The table of spans, and how many of a reason are shown."""

    def __init__(self, spans: Spans, seed: int) -> None:
        self._database = spans.database
        self.sides = [
            Side(f"{stage}.{reason}", rule.column, side, float(limit))
            for stage, rule in spans.rules
            if isinstance(rule, Limit)
            for side, reason, limit in (("min", rule.low, rule.min), ("max", rule.high, rule.max))
            if limit is not None
        ]
        wanted = {*INVENTED, "word_errors", *(name for name, _ in CERTAINTY)}
        wanted.update(side.measure for side in self.sides)
        self.measured = sorted(wanted.intersection(spans.names))
        measures = (f", o.{identifier(n)}::DOUBLE AS {column(n)}" for n in self.measured)
        self._database.execute(_SPANS.format(seed=seed, measures="".join(measures)))
        self.groups = [Group(*row) for row in self._database.execute(_GROUPS).fetchall()]
        self.most = _quota({group.name: group.size for group in self.groups})
        self.worst, self.beyond, self.inside = _parts(self.most)

    def first(self, why: Why, where: str, key: str, count: int, then: str = "chance") -> list[Pick]:
        """The spans with the smallest keys, sorted; those without a finite one are left out. `key`:
        SQL; `then`: orders equal keys. Of `why` the measure's value is filled in, or what the
        ledger says."""
        value, limit = (column(why.measure), "NULL") if why.measure else ("value", "threshold")
        rows = self._database.execute(
            f"SELECT ({key})::DOUBLE AS key, row, {value}, {limit} FROM spans "
            f"WHERE {where} AND isfinite(key) ORDER BY key, {then}, row LIMIT {max(count, 0)}"
        ).fetchall()
        if why.kind in UNMEASURED:
            return [Pick(key, row, why) for key, row, *_ in rows]
        return [
            Pick(key, row, replace(why, value=value, limit=why.limit if why.measure else limit))
            for key, row, value, limit in rows
        ]

    def of_group(self, group: Group) -> list[Pick]:
        """The spans that are shown in a group."""
        if group.limited and not group.failed:
            return self._beyond(group) + self._inside(group.name)
        picks: list[Pick] = []
        if group.name == PACKAGED:
            picks = self._invented()
            picks += self._uncertain(group, self.most - len(picks)) + self._near()
        elif not group.failed:
            why = Why(group.name, "longest")
            picks = self.first(why, group.members, "-length", self.worst)
            if group.name.startswith("transcribe."):
                picks += self._uncertain(group, self.most - self.worst)
        shown = {pick.row for pick in picks}
        left, why = max(self.most - len(shown), 0), Why(group.name, "by chance")
        drawn = self.first(why, f"name = {literal(group.name)}", "chance", left + len(shown))
        return picks + [pick for pick in drawn if pick.row not in shown][:left]

    def _beyond(self, group: Group) -> list[Pick]:
        """The worst spans of a reason with a limit, then those just beyond it, nearest first."""
        name = group.name
        picks = self.first(Why(name, "worst"), group.members, "-excess", self.worst)
        rows, most = {pick.row for pick in picks}, self.worst + self.beyond
        nearest = self.first(Why(name, "just beyond"), group.members, "excess", most)
        picks += [pick for pick in nearest if pick.row not in rows][: self.beyond]
        measure_of = {(s.group, s.side, s.limit): s.measure for s in reversed(self.sides)}
        for number, pick in enumerate(picks):
            value, limit = pick.why.value or 0.0, pick.why.limit or 0.0
            side = "min" if value < limit else "max"
            why = replace(pick.why, measure=measure_of.get((name, side, limit), ""), side=side)
            picks[number] = pick._replace(why=why)
        return picks

    def _inside(self, group: str) -> list[Pick]:
        """Packaged ones just inside the limits of a reason, nearest first."""
        picks = []
        for side in (side for side in self.sides if side.group == group):
            why = Why(group, "just inside", side.measure, None, side.limit, side.side)
            key = f"{side.distance} / {abs(side.limit) or 1.0!r}"
            picks += self.first(why, f"kept AND {side.distance} >= 0", key, self.inside)
        return _smallest(picks, self.inside)

    def _near(self) -> list[Pick]:
        """Packaged ones nearest to any limit, at most two for each limit."""
        picks: list[Pick] = []
        measures = [column(side.measure) for side in self.sides]
        ends = (f"quantile_cont({m}, {[*MIDDLE]}) FILTER (isfinite({m}))" for m in measures)
        sql = f"SELECT {', '.join(['count(*)', *ends])} FROM spans WHERE kept"
        [[_, *middles]] = self._database.execute(sql).fetchall()
        for side, middle in zip(self.sides, middles, strict=True):
            unit = (middle[1] - middle[0] if middle else 0.0) or abs(side.limit) or 1.0
            why = Why(PACKAGED, "near a limit", side.measure, None, side.limit, side.side)
            key = f"abs({side.distance}) / {unit!r}"
            picks += self.first(why, f"kept AND key <= {NEAR}", key, 2)
        return _smallest(picks, self.most)

    def _invented(self) -> list[Pick]:
        """Packaged ones with the most music, singing or applause, whose texts may be invented."""
        picks = []
        for name in (name for name in INVENTED if name in self.measured):
            where = f"kept AND {column(name)} >= {LEAST_INVENTED}"
            why = Why(PACKAGED, "music or applause", name)
            picks += self.first(why, where, f"-{column(name)}", self.worst)
        return _smallest(picks, self.worst)

    def _uncertain(self, group: Group, count: int) -> list[Pick]:
        """Those of a group with the least certain transcripts: the first by each measure, then the
        second by each, and so on; `count` in all."""
        ranked: list[Pick] = []
        for name, side in (pair for pair in CERTAINTY if pair[0] in self.measured):
            key = column(name) if side == "min" else f"-{column(name)}"
            best = f"(SELECT max({key}) FROM spans WHERE {group.members} AND isfinite({key}))"
            where = f"{group.members} AND {key} <> {best}"  # the best value is not uncertain
            limits = (s.limit for s in self.sides if (s.measure, s.side) == (name, side))
            why = Why(group.name, "least certain", name, None, next(limits, None), side)
            order = self.first(why, where, key, count)
            ranked += [pick._replace(key=rank) for rank, pick in enumerate(order)]
        return _smallest(ranked, count)

    def differing(self) -> list[Pick]:
        """Those with the highest word error rate against their reference, and among equals the most
        errors, whatever their outcome."""
        if "wer" not in self.measured:
            return []
        rate, then = column("wer"), f"coalesce({column('word_errors')}, 0) DESC"
        return self.first(Why(DIFFERS, DIFFERS, "wer"), f"{rate} > 0", f"-{rate}", DIFFERING, then)


def chosen_rows(spans: Spans, seed: int) -> dict[int, list[Why]]:
    """Row numbers of the ledger, each with all reasons for showing it, group by group: packaged
    ones first, the worst of each group first."""
    choosing = Choosing(spans, seed)
    chosen: dict[int, list[Why]] = {}
    for pick in chain(choosing.differing(), *map(choosing.of_group, choosing.groups)):
        chosen.setdefault(pick.row, []).append(pick.why)
    return chosen


def _smallest(picks: Iterable[Pick], count: int) -> list[Pick]:
    """The picks with the smallest keys, one for each row."""
    pick_by_row: dict[int, Pick] = {}
    for pick in sorted(picks, key=lambda pick: pick.key):
        pick_by_row.setdefault(pick.row, pick)
    return [*pick_by_row.values()][: max(count, 0)]


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
