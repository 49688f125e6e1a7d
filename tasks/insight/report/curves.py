"""Hours that would be kept if one limit had another value and everything else stayed the same.

Counted like `uttermill what-if`: corpus-wide verdicts (copies, outliers, splits) stay as they are,
and an utterance without a transcript is assumed to be kept, since no verdict on its text is known.
"""

from __future__ import annotations

from typing import Literal, TypedDict

import numpy as np

from tasks.base.arrays import Float64s
from tasks.insight.report.columns import Columns, ShelfRule
from tasks.insight.report.distributions import short
from tasks.plugins.rules import Limit

POSITIONS = 100  # of a slider, between the ends of the chart's axis
Side = Literal["min", "max"]


class Kept(TypedDict):
    """What the current limits keep."""

    hours: float
    items: int


class Curve(TypedDict):
    """One limit at every position of its slider.

    `positions` are sorted; None means "no limit" and is the first of a lower, the last of an upper
    limit. `at` is the index of the current limit, `today`.
    """

    side: Side
    today: float | None
    at: int
    positions: list[float | None]
    hours: list[float]
    items: list[int]


def now(columns: Columns) -> Kept:
    """The items and hours that the current limits keep, counted in the same way."""
    kept = ~columns.blocked & (columns.refusals == 0)
    return {"hours": float(columns.seconds[kept].sum() / 3600), "items": int(kept.sum())}


def sliders(columns: Columns, name: str, low: float, high: float) -> list[Curve]:
    """For each limit on a measure: positions, and hours and items kept at each."""
    drawn = []
    for asked in columns.asked:
        rule = asked.rule
        if isinstance(rule, Limit) and rule.column == name:
            sides: tuple[tuple[Side, float | None, str | None], ...]
            sides = (("min", rule.min, rule.low), ("max", rule.max, rule.high))
            drawn += [
                _curve(columns, asked, side, today, low, high)
                for side, today, reason in sides
                if reason
            ]
    return drawn


def _curve(
    columns: Columns, asked: ShelfRule, side: Side, today: float | None, low: float, high: float
) -> Curve:
    rule = asked.rule
    assert isinstance(rule, Limit)
    values, seconds = columns.values(rule.column), columns.seconds
    open_ = columns.only(asked)
    spared = np.isnan(values)
    if asked.shelf == "text":
        spared |= ~columns.heard
    for within in rule.unless:
        spared |= columns.inside(within.column, within.min, within.max)
    other = rule.max if side == "min" else rule.min
    if other is not None:  # what breaks the rule's other limit stays out
        open_ &= spared | (values <= other if side == "min" else values >= other)
    sure, contested = open_ & spared, open_ & ~spared
    steps = _steps(low, high, today)
    limited = values[contested]
    # The number of positions at or below a value (or below it): the limits that keep it.
    place = np.searchsorted(steps, limited, "right" if side == "min" else "left")
    count = np.bincount(place, minlength=len(steps) + 1)
    length = np.bincount(place, seconds[contested], len(steps) + 1)
    positions: list[float | None] = [*steps.tolist()]
    if side == "min":  # kept: values >= position; without a limit, all
        items, kept = count[::-1].cumsum()[::-1], length[::-1].cumsum()[::-1]
        positions.insert(0, None)
    else:  # kept: values <= position
        items, kept = count.cumsum(), length.cumsum()
        positions.append(None)
    return {
        "side": side,
        "today": today,
        "at": positions.index(today),
        "positions": positions,
        "hours": short((kept + seconds[sure].sum()) / 3600, 9),
        "items": [int(n) for n in items + int(sure.sum())],
    }


def _steps(low: float, high: float, today: float | None) -> Float64s:
    """Sorted positions from `low` to `high`; the current limit is exactly one of them."""
    steps = [float(f"{x:.6g}") for x in np.linspace(low, high, POSITIONS + 1)]
    if today is not None:
        steps.append(float(today))
    return np.unique(np.array(steps))
