"""Clips worth checking though nothing rejects them: near a limit, or transcribed with doubt.

They are found in the table of outcomes, one column at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tasks.base.arrays import Float64s
from tasks.insight.report.outcome_columns import Columns
from tasks.plugins.rules import Limit

PACKAGED = "packaged"
DIFFERS = "differs most"
NEAR = 0.5  # of the range of the middle 90 % of values: the largest distance that is near
#: Measures of a recogniser's certainty, and which end of each means doubt.
CERTAINTY = (
    ("avg_logprob", "min"),
    ("wer", "max"),
    ("speech_after_text", "max"),
    ("language_probability", "min"),
)
#: Shares of a clip in which sounds are heard that recognisers invent words for.
INVENTED = ("sounds_applause", "sounds_music", "sounds_singing", "music_share")
LEAST_INVENTED = 0.05  # of a clip
_STAGES = {"filters": "filter", "enhance": "enhance", "text": "transcribe"}  # by shelf


@dataclass(frozen=True, slots=True)
class Why:
    """Why a span is shown among the clips of `group`, which is `packaged` or `stage.reason`."""

    group: str
    kind: str  # worst, just beyond, just inside, music or applause, least certain, near a limit,
    # longest, by chance, differs most
    measure: str = ""  # column; empty if unknown
    value: float | None = None
    limit: float | None = None
    side: str = ""  # min, max: what `limit` bounds


@dataclass(frozen=True, slots=True)
class Side:
    """One limit of a rule, and the group of rejections it causes."""

    group: str
    column: str
    side: str
    limit: float

    def distances(self, values: Float64s) -> Float64s:
        """How far values are inside the limit; negative beyond it, NaN if unknown."""
        return values - self.limit if self.side == "min" else self.limit - values

    def why(self, group: str, kind: str, value: float) -> Why:
        return Why(group, kind, self.column, float(value), self.limit, self.side)


def sides_of(columns: Columns) -> list[Side]:
    """Every limit of every rule."""
    sides = []
    for asked in columns.asked:
        if isinstance(asked.rule, Limit):
            rule, stage = asked.rule, _STAGES[asked.shelf]
            for side, reason, limit in (("min", rule.low, rule.min), ("max", rule.high, rule.max)):
                if limit is not None:
                    sides.append(Side(f"{stage}.{reason}", rule.column, side, float(limit)))
    return sides


def inside(columns: Columns, sides: Sequence[Side], count: int) -> list[tuple[int, Why]]:
    """Packaged rows just inside the limits of a reason, the nearest first."""
    candidates = []
    for side in sides:
        values = columns.values(side.column)
        away = np.where(columns.packaged, side.distances(values), np.nan)
        for row in least(np.where(away >= 0, away, np.nan), count):
            share = float(away[row]) / (abs(side.limit) or 1.0)
            candidates.append((share, row, side.why(side.group, "just inside", values[row])))
    return _first(candidates, count)


def near(columns: Columns, sides: Sequence[Side], count: int) -> list[tuple[int, Why]]:
    """Packaged rows nearest to any limit, at most two per limit and `count` in all."""
    candidates = []
    for side in sides:
        values = np.where(columns.packaged, columns.values(side.column), np.nan)
        finite = values[np.isfinite(values)]
        if not len(finite):
            continue
        low, high = np.quantile(finite, (0.05, 0.95))
        away = np.abs(side.distances(values)) / ((high - low) or abs(side.limit) or 1.0)
        for row in least(away, 2):
            if away[row] <= NEAR:
                why = side.why(PACKAGED, "near a limit", values[row])
                candidates.append((float(away[row]), row, why))
    return _first(candidates, count)


def _first(candidates: list[tuple[float, int, Why]], count: int) -> list[tuple[int, Why]]:
    """The rows with the smallest numbers."""
    return [
        (row, why)
        for _, row, why in sorted(candidates, key=lambda candidate: candidate[:2])[:count]
    ]


def invented(columns: Columns, count: int) -> list[tuple[int, Why]]:
    """Packaged rows with the most music or applause, whose texts may be invented."""
    why_by_row: dict[int, tuple[float, Why]] = {}
    for name in INVENTED:
        if name not in columns.names:
            continue
        shares = np.where(columns.packaged, columns.values(name), np.nan)
        shares[shares < LEAST_INVENTED] = np.nan
        for row in least(-shares, count):
            why = Why(PACKAGED, "music or applause", name, float(shares[row]))
            if row not in why_by_row or shares[row] > why_by_row[row][0]:
                why_by_row[row] = float(shares[row]), why
    return _first([(-share, row, why) for row, (share, why) in why_by_row.items()], count)


def uncertain(
    columns: Columns, sides: Sequence[Side], count: int, group: str = PACKAGED
) -> list[tuple[int, Why]]:
    """Rows of a group that the recogniser was least sure of: the first by each measure, then the
    second by each; `count` in all, without repetition."""
    members = columns.packaged if group == PACKAGED else columns.rejected(group)
    orders: list[list[tuple[int, Why]]] = []
    for name, side in CERTAINTY:
        if name not in columns.names:
            continue
        values = np.where(members, columns.values(name), np.nan)
        doubt = values if side == "min" else -values
        best = np.max(doubt, where=np.isfinite(doubt), initial=-np.inf)
        limits = [s.limit for s in sides if (s.column, s.side) == (name, side)]
        limit = limits[0] if limits else None
        # Rows with the best value of all raise no doubt.
        rows = [row for row in least(doubt, count) if doubt[row] < best]
        whys = [Why(group, "least certain", name, float(values[r]), limit, side) for r in rows]
        orders.append(list(zip(rows, whys, strict=True)))
    why_by_row: dict[int, Why] = {}
    for rank in range(count):
        for order in orders:
            if rank < len(order) and len(why_by_row) < count:
                why_by_row.setdefault(*order[rank])
    return list(why_by_row.items())


def differing(columns: Columns, count: int) -> list[tuple[int, Why]]:
    """Rows whose recogniser's text has the most errors against their reference for its length, and
    among equals the most errors, whatever became of them."""
    rates = columns.values("wer")
    errors = columns.values("word_errors")
    rows = least(np.where(rates > 0, -rates, np.nan), count, -np.nan_to_num(errors))
    return [(row, Why(DIFFERS, DIFFERS, "wer", float(rates[row]))) for row in rows]


def least(values: Float64s, count: int, chance: Float64s | None = None) -> list[int]:
    """Positions of the smallest values, sorted, without NaN; equal ones by `chance`, else as they
    come."""
    places = np.flatnonzero(np.isfinite(values))
    if len(places) > count:  # all ties with the last one stay, so that the order decides
        places = places[values[places] <= np.partition(values[places], count - 1)[count - 1]]
    ties = places if chance is None else chance[places]
    order: list[int] = places[np.lexsort((ties, values[places]))][:count].tolist()
    return order
