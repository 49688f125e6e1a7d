"""Finds clips to check although no rule rejects them: near a limit, or with an uncertain text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...base.arrays import Bools, Float64s
from ...plugins.rules import Limit
from .outcome_columns import Columns

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


@dataclass(frozen=True, slots=True)
class Side:
    """One limit of a rule, and the group of its rejections."""

    group: str
    column: str
    side: str
    limit: float

    def distances(self, values: Float64s) -> Float64s:
        """Distances of values inside the limit; negative beyond it, NaN without a value."""
        return values - self.limit if self.side == "min" else self.limit - values

    def why(self, group: str, kind: str, value: float) -> Why:
        return Why(group, kind, self.column, float(value), self.limit, self.side)


def sides_of(columns: Columns) -> list[Side]:
    """Every limit of every rule."""
    sides = []
    for stage, rule in columns.rules:
        if isinstance(rule, Limit):
            for side, reason, limit in (("min", rule.low, rule.min), ("max", rule.high, rule.max)):
                if limit is not None:
                    sides.append(Side(f"{stage}.{reason}", rule.column, side, float(limit)))
    return sides


class Ranked(NamedTuple):
    """A row, its value of a measure, and the key by which rows are ordered."""

    row: int
    value: float
    key: float


def ranked(
    columns: Columns,
    name: str,
    key: Callable[[Float64s], Float64s],
    count: int,
    members: Bools | None = None,
    largest: str = "",
) -> list[Ranked]:
    """The rows with the smallest keys, sorted; rows whose key is NaN are left out. `name`: the
    measure from whose values `key` is computed; `members`: the rows to choose from, None: all;
    `largest`: a measure whose larger values come first among equal keys, else rows keep their
    order."""
    values = columns.values(name)
    keys = key(values) if members is None else np.where(members, key(values), np.nan)
    rows = least(keys, count, -np.nan_to_num(columns.values(largest)) if largest else None)
    return [*map(Ranked, rows, values[rows].tolist(), keys[rows].tolist())]


def inside(columns: Columns, sides: Sequence[Side], count: int) -> list[tuple[int, Why]]:
    """Packaged rows just inside the limits of a reason, nearest first."""
    candidates = []
    for side in sides:

        def away(values: Float64s, side: Side = side) -> Float64s:
            distances = side.distances(values)
            return np.where(distances >= 0, distances, np.nan)

        for row, value, distance in ranked(columns, side.column, away, count, columns.packaged):
            why = side.why(side.group, "just inside", value)
            candidates.append((distance / (abs(side.limit) or 1.0), row, why))
    return _first(candidates, count)


def near(columns: Columns, sides: Sequence[Side], count: int) -> list[tuple[int, Why]]:
    """Packaged rows nearest to any limit, at most two for each limit and `count` in all."""
    candidates = []
    for side in sides:
        values = columns.values(side.column)[columns.packaged]
        finite = values[np.isfinite(values)]
        if not len(finite):
            continue
        lowest, highest = np.quantile(finite, MIDDLE).tolist()
        unit = (highest - lowest) or abs(side.limit) or 1.0

        def away(values: Float64s, side: Side = side, unit: float = unit) -> Float64s:
            return np.abs(side.distances(values)) / unit

        for row, value, distance in ranked(columns, side.column, away, 2, columns.packaged):
            if distance <= NEAR:
                candidates.append((distance, row, side.why(PACKAGED, "near a limit", value)))
    return _first(candidates, count)


def _first(candidates: list[tuple[float, int, Why]], count: int) -> list[tuple[int, Why]]:
    """The rows of the candidates with the smallest numbers."""
    return [
        (row, why)
        for _, row, why in sorted(candidates, key=lambda candidate: candidate[:2])[:count]
    ]


def invented(columns: Columns, count: int) -> list[tuple[int, Why]]:
    """Packaged rows with the most music, singing or applause, whose texts may be invented."""

    def key(shares: Float64s) -> Float64s:
        return np.where(shares < LEAST_INVENTED, np.nan, -shares)

    why_by_row: dict[int, tuple[float, Why]] = {}
    for name in INVENTED:
        if name not in columns.names:
            continue
        for row, share, _ in ranked(columns, name, key, count, columns.packaged):
            if row not in why_by_row or share > why_by_row[row][0]:
                why_by_row[row] = share, Why(PACKAGED, "music or applause", name, share)
    return _first([(-share, row, why) for row, (share, why) in why_by_row.items()], count)


def uncertain(
    columns: Columns, sides: Sequence[Side], count: int, group: str = PACKAGED
) -> list[tuple[int, Why]]:
    """Rows of a group with the least certain transcripts: the first by each measure, then the
    second by each, and so on; `count` in all, without repetition."""
    members = columns.packaged if group == PACKAGED else columns.rejected(group)
    orders: list[list[tuple[int, Why]]] = []
    for name, side in CERTAINTY:
        if name not in columns.names:
            continue
        worst_first, best_first = (
            (np.positive, np.negative) if side == "min" else (np.negative, np.positive)
        )
        best = ranked(columns, name, best_first, 1, members)
        limits = [s.limit for s in sides if (s.column, s.side) == (name, side)]
        limit = limits[0] if limits else None
        # Rows with the best value of all are not uncertain.
        orders.append(
            [
                (row, Why(group, "least certain", name, value, limit, side))
                for row, value, _ in ranked(columns, name, worst_first, count, members)
                if value != best[0].value
            ]
        )
    why_by_row: dict[int, Why] = {}
    for rank in range(count):
        for order in orders:
            if rank < len(order) and len(why_by_row) < count:
                why_by_row.setdefault(*order[rank])
    return list(why_by_row.items())


def differing(columns: Columns, count: int) -> list[tuple[int, Why]]:
    """Rows with the highest word error rate against their reference, and among equals the most
    errors, whatever their outcome."""

    def key(rates: Float64s) -> Float64s:
        return np.where(rates > 0, -rates, np.nan)

    first = ranked(columns, "wer", key, count, largest="word_errors")
    return [(row, Why(DIFFERS, DIFFERS, "wer", rate)) for row, rate, _ in first]


def least(values: Float64s, count: int, chance: Float64s | None = None) -> list[int]:
    """Positions of the `count` smallest values, sorted; only finite ones. Ties are broken by
    `chance`, else by position."""
    places = np.flatnonzero(np.isfinite(values))
    if len(places) > count:  # with all ties of the last one, which are ordered below
        places = places[values[places] <= np.partition(values[places], count - 1)[count - 1]]
    ties = places if chance is None else chance[places]
    order: list[int] = places[np.lexsort((ties, values[places]))][:count].tolist()
    return order
