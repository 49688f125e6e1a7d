"""Charts of measures: histograms, and the hours that other limits would keep.

Histograms show hours, of kept and of other utterances: in all, by dataset and by language. A slider
shows the hours that would be kept if one limit had another value and everything else stayed the
same. They are counted like `uttermill what-if`: corpus-wide outcomes (copies, outliers, splits)
stay as they are, and an utterance without a transcript counts as kept, since no rejection of its
text is known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypedDict

import numpy as np

from ...base.arrays import Bools, Float64s, Int32s, Int64s, UInt8s
from ...corpus import limits
from ...plugins.rules import Limit
from .outcome_columns import (
    BLOCK,
    SPREAD,
    Columns,
    ShelfRule,
    quantiles,
)

BINS = 40
NO_BAR = 2 * BINS  # bin of utterances without a value, after those of other and of kept ones
EDGES = (0.005, 0.995)  # quantiles at the ends of an axis; values beyond are in the end bins
MOST_BEYOND = 1.0  # an axis grows by at most this multiple of its length to show a limit
CELLS = 1000  # of `Steps`
POSITIONS = 100  # intervals between a slider's positions, over the chart's axis
Side = Literal["min", "max"]

#: The measures shown first, in this order; all others follow.
FIRST = (
    *("duration", "seconds", "snr", "nmf_snr", "dnsmos_ovrl", "dnsmos_sig", "dnsmos_bak"),
    *("loudness", "bandwidth", "char_rate_alphabetic", "char_rate_syllabic", "chars_per_second"),
    *("wer", "cer"),
)
CHARS_PER_SECOND = ("1/s", "characters of the text a second")
NOT_MEASURES = {*limits.TOLD} - {"seconds"}


class Spread(TypedDict):
    """Number and 5 %, 50 % and 95 % quantiles of all and of kept utterances."""

    items: int
    spread: list[float] | None
    items_kept: int
    spread_kept: list[float] | None


class HourBars(TypedDict):
    """Hours in each bin, [BINS]."""

    kept: list[float]
    other: list[float]


class GroupBars(HourBars, Spread):
    """The bars of all utterances, or of a dataset or language."""

    kind: str  # all, dataset, language
    name: str | None


class Histogram(TypedDict):
    """The axis of one measure, and its bars for all utterances and for each group."""

    name: str
    low: float
    high: float
    groups: list[GroupBars]
    missing: int  # utterances without a value


def shown(columns: Columns) -> list[str]:
    """Names of all measures in the table, those in FIRST first."""
    names = [name for name in columns.names if name not in NOT_MEASURES]
    if "duration" in names:
        names.remove("seconds")  # the same number
    if not any(name.startswith("char_rate") for name in names):
        names.append("chars_per_second")
    first = [name for name in FIRST if name in names]
    return first + [name for name in names if name not in first]


def values_of(columns: Columns, name: str) -> Float64s:
    """A measure of each utterance; float64 [rows], NaN without a value."""
    if name != "chars_per_second":
        return columns.values(name)
    chars, seconds = columns.values("text_chars"), columns.seconds
    return np.divide(chars, seconds, out=np.full_like(chars, np.nan), where=seconds > 0)


def axis(ordered: Float64s, limits: Iterable[float]) -> tuple[float, float]:
    """(lowest, highest) of a readable axis over finite, sorted values and nearby limits."""
    low, high = quantiles(ordered, EDGES)
    if high <= low:
        low, high = float(ordered[0]), float(ordered[-1])
    reach = MOST_BEYOND * (high - low or 1.0)
    near = [x for x in limits if low - reach <= x <= high + reach]
    low, high = min([low, *near]), max([high, *near])
    if high <= low:
        low, high = low - 0.5, high + 0.5
    step = _nice((high - low) / BINS)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _nice(step: float) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that is not below `step`."""
    power = 10.0 ** math.floor(math.log10(step))
    return next((m * power for m in (1.0, 2.0, 2.5, 5.0) if m * power >= step), 10 * power)


def limits_on(columns: Columns, name: str) -> list[Limit]:
    """All rules that limit a measure."""
    rules = [shelf_rule.rule for shelf_rule in columns.rules]
    return [rule for rule in rules if isinstance(rule, Limit) and rule.column == name]


def histogram_of(columns: Columns, name: str) -> Histogram | None:
    """Histogram and quantiles of one measure; None if no utterance has a value."""
    values = values_of(columns, name)
    ordered = _ordered(values)
    if not len(ordered):
        return None
    set_ = [x for rule in limits_on(columns, name) for x in (rule.min, rule.max) if x is not None]
    low, high = axis(ordered, set_)
    whole = spread_of(ordered, _ordered(values[columns.packaged]))
    del ordered  # frees as much memory as all values take
    bins = np.concatenate(
        [_bins(values[rows], columns.packaged[rows], low, high) for rows in columns.blocks]
    )
    groups: list[GroupBars] = [
        {"kind": "all", "name": "", **_bars(columns, bins, columns.blocks), **whole}
    ]
    for kind, group, rows in columns.groups:
        some = values[rows]
        about = spread_of(_ordered(some), _ordered(some[columns.packaged[rows]]))
        if about["items"]:
            blocks = np.array_split(rows, len(rows) // BLOCK + 1)
            groups.append({"kind": kind, "name": group, **_bars(columns, bins, blocks), **about})
    return {
        "name": name,
        "low": low,
        "high": high,
        "groups": groups,
        "missing": len(values) - whole["items"],
    }


def _bins(values: Float64s, kept: Bools, low: float, high: float) -> UInt8s:
    """The bin of each value: first those of other utterances, then of kept ones, then NO_BAR."""
    finite = np.isfinite(values)
    bars = np.clip((np.where(finite, values, low) - low) * (BINS / (high - low)), 0, BINS - 1)
    places: UInt8s = bars.astype(np.uint8) + np.uint8(BINS) * kept
    places[~finite] = NO_BAR
    return places


def _bars(columns: Columns, bins: UInt8s, blocks: Iterable[slice] | Iterable[Int32s]) -> HourBars:
    """Hours in each bar, of rows that are given in blocks."""
    hours = np.zeros(NO_BAR + 1)
    for rows in blocks:
        hours = added(hours, bins[rows], columns.seconds[rows] / 3600)
    return {"kept": short(hours[BINS:NO_BAR]), "other": short(hours[:BINS])}


def added(sums: Float64s, place: Int64s | UInt8s, numbers: Float64s) -> Float64s:
    """`sums` with each number added at its place, in this order."""
    places = np.concatenate([np.arange(len(sums)), place])
    weights = np.concatenate([sums, numbers])
    return np.bincount(places, weights, len(sums)).astype(np.float64, copy=False)


def _ordered(values: Float64s) -> Float64s:
    """The finite values, sorted."""
    finite = values[np.isfinite(values)]
    finite.sort()
    return finite


def spread_of(every: Float64s, kept: Float64s) -> Spread:
    """Numbers and quantiles of sorted values, of all and of kept utterances."""

    def three(ordered: Float64s) -> list[float] | None:
        return quantiles(ordered, SPREAD) if len(ordered) else None

    return {
        "items": len(every),
        "spread": three(every),
        "items_kept": len(kept),
        "spread_kept": three(kept),
    }


def short(numbers: Iterable[float], digits: int = 5) -> list[float]:
    """Numbers rounded to the precision of a chart, so that the file stays small."""
    return [float(f"{number:.{digits}g}") for number in numbers]


class Kept(TypedDict):
    """Hours and utterances that the current limits keep."""

    hours: float
    items: int


class Curve(TypedDict):
    """Hours and items that one limit keeps at every position of its slider."""

    side: Side
    today: float | None  # the current limit
    at: int  # its index in `positions`
    #: Sorted; None is "no limit", first for a lower and last for an upper limit.
    positions: list[float | None]
    hours: list[float]
    items: list[int]


def kept_now(columns: Columns) -> Kept:
    """Hours and items that the current limits keep, counted as in `sliders`."""
    kept = ~columns.blocked & (columns.refusals == 0)
    return {"hours": float(columns.seconds[kept].sum() / 3600), "items": int(kept.sum())}


def sliders(columns: Columns, name: str, low: float, high: float) -> list[Curve]:
    """A curve for each limit on a measure. `low`, `high`: ends of the chart's axis."""
    drawn = []
    for shelf_rule in columns.rules:
        rule = shelf_rule.rule
        if isinstance(rule, Limit) and rule.column == name:
            sides: tuple[tuple[Side, float | None, str | None], ...]
            sides = (("min", rule.min, rule.low), ("max", rule.max, rule.high))
            drawn += [
                _curve(columns, shelf_rule, side, today, low, high)
                for side, today, reason in sides
                if reason
            ]
    return drawn


def _curve(
    columns: Columns,
    shelf_rule: ShelfRule,
    side: Side,
    today: float | None,
    low: float,
    high: float,
) -> Curve:
    steps = Steps(_steps(low, high, today), strict=side == "max")
    # Utterances and their seconds by the number of positions that keep them; the last entry is for
    # utterances to which the limit does not apply.
    count, length = np.zeros(len(steps.edges) + 2, np.int64), np.zeros(len(steps.edges) + 2)
    for number, rows in enumerate(columns.blocks):
        kept, place = _places(columns, shelf_rule, side, steps, number)
        count += np.bincount(place, minlength=len(count))
        length = added(length, place, columns.seconds[rows][kept])
    spared, spared_seconds = count[-1], length[-1]
    count, length = count[:-1], length[:-1]
    positions: list[float | None] = [*steps.edges.tolist()]
    if side == "min":  # kept: values >= position; without a limit, all
        items, lengths = count[::-1].cumsum()[::-1], length[::-1].cumsum()[::-1]
        positions.insert(0, None)
    else:  # kept: values <= position
        items, lengths = count.cumsum(), length.cumsum()
        positions.append(None)
    return {
        "side": side,
        "today": today,
        "at": positions.index(today),
        "positions": positions,
        "hours": short((lengths + spared_seconds) / 3600, 9),
        "items": (items + spared).tolist(),
    }


def _places(
    columns: Columns, shelf_rule: ShelfRule, side: Side, steps: Steps, number: int
) -> tuple[Bools, Int64s]:
    """The rows of a block that some position keeps, and for each the number of positions that its
    value has passed, or `len(steps.edges) + 1` if the limit does not apply to it."""
    rule = shelf_rule.rule
    assert isinstance(rule, Limit)
    values, kept = columns.block(rule.column, number), columns.only(shelf_rule, number)
    spared = np.isnan(values)
    if shelf_rule.shelf == "text":
        spared |= ~columns.heard[columns.blocks[number]]
    for within in rule.unless:
        spared |= columns.inside(within, number)
    other = rule.max if side == "min" else rule.min
    if other is not None:  # rows beyond the rule's other limit are rejected anyway
        kept &= spared | (values <= other if side == "min" else values >= other)
    place = np.full(np.count_nonzero(kept), len(steps.edges) + 1)
    place[~spared[kept]] = steps.below(values[kept & ~spared])
    return kept, place


class Steps:
    """Counts the positions below values: `np.searchsorted`, which takes five times as long.

    The axis is divided into CELLS equal cells, of which most have no position. A value's cell gives
    the number of positions in lower cells; those in the same cell are compared one by one.
    """

    def __init__(self, edges: Float64s, strict: bool) -> None:
        self.edges = edges
        self._passed = np.greater if strict else np.greater_equal  # (value, position)
        self._scale = CELLS / (edges[-1] - edges[0] or 1.0)
        cells = self._cells(edges)
        self._below = np.searchsorted(cells, np.arange(CELLS + 1))
        self._most = int(np.bincount(cells).max())  # positions in one cell
        self._next = np.append(edges, np.full(self._most, np.nan))

    def _cells(self, values: Float64s) -> Int64s:
        """The cell of each value; monotonic in spite of rounding."""
        cells: Int64s = ((values - self.edges[0]) * self._scale).clip(0, CELLS).astype(np.int64)
        return cells

    def below(self, values: Float64s) -> Int64s:
        """The number of positions that each value has passed; int64 [values]."""
        first = self._below[self._cells(values)]
        place = first.copy()
        for number in range(self._most):
            place += self._passed(values, self._next[first + number])
        return place


def _steps(low: float, high: float, today: float | None) -> Float64s:
    """Sorted positions from `low` to `high`, among them exactly the current limit."""
    steps = [float(f"{x:.6g}") for x in np.linspace(low, high, POSITIONS + 1)]
    if today is not None:
        steps.append(float(today))
    return np.unique(np.array(steps))


# The agreement of several recognisers: the hours that a limit on it would keep, and their word
# error rate. Includes all utterances with at least two hypotheses, whatever other rules say. A
# limit cannot separate equal values, so a curve has one point for each distinct value, thinned out.

POINTS = 100  # most points of a curve
SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)  # of the hours: columns of the table
#: Measures by which utterances are ranked, and their titles.
RANKS = (("agreement", "by agreement"), ("avg_logprob", "by log-probability"))


class Line(NamedTuple):
    """For each distinct value as a limit, from the strictest on; float64 [limits]."""

    limit: Float64s
    kept: Float64s  # share of the hours with at least that value
    wer: Float64s  # word error rate of those with a reference; NaN without any


class ThinnedLine(TypedDict):
    """At most POINTS points of a line."""

    limit: list[float | None]
    kept: list[float | None]
    wer: list[float | None]


class RankLine(ThinnedLine):
    """A line of a chart."""

    name: str
    title: str
    today: float | None  # the current limit


class Cell(TypedDict):
    """One point of a line."""

    limit: float | None
    kept: float | None
    wer: float | None


class RankRow(TypedDict):
    """A line of the table: a cell for each of SHARES."""

    title: str
    cells: list[Cell]


class Agreement(TypedDict):
    """The charts and the table."""

    lines: list[RankLine]
    table: list[RankRow]
    shares: tuple[float, ...]
    items: int  # utterances with several hypotheses
    hours: float  # of these
    references: int  # how many of these have a reference


def of_agreement(columns: Columns) -> Agreement | None:
    """The curves and the table; None if no utterance has several hypotheses."""
    if "agreement" not in columns.names:
        return None
    values = columns.values("agreement")
    several = ~np.isnan(values)
    if not several.any():
        return None
    seconds = columns.seconds[several]
    ranked = {name: columns.values(name)[several] for name, _ in RANKS if name in columns.names}
    errors, words = _errors(columns, several)
    lines: list[RankLine] = []
    table: list[RankRow] = []
    for name, title in RANKS:
        if name not in ranked or np.isnan(ranked[name]).all():
            continue
        limit = next((x.min for x in limits_on(columns, name) if x.min), None)
        line = _line(ranked[name], seconds, errors, words)
        lines.append({"name": name, "title": title, "today": limit, **_thinned(line)})
        table.append({"title": title, "cells": [_at(line, share) for share in SHARES]})
    return {
        "lines": lines,
        "table": table,
        "shares": SHARES,
        "items": int(several.sum()),
        "hours": float(seconds.sum() / 3600),
        "references": int((words > 0).sum()),
    }


def _errors(columns: Columns, rows: Bools) -> tuple[Float64s, Float64s]:
    """Word errors of the first recogniser, and words of the reference; 0 without one."""
    errors, words = (columns.values(name)[rows] for name in ("word_errors", "words"))
    return np.nan_to_num(errors), np.nan_to_num(words)


def _line(values: Float64s, seconds: Float64s, errors: Float64s, words: Float64s) -> Line:
    """The line of a measure. Utterances without a value come last, at the limit NaN."""
    order = np.argsort(-values, kind="stable")  # NaN comes last
    sorted_, kept = values[order], np.cumsum(seconds[order])
    wrong, spoken = np.cumsum(errors[order]), np.cumsum(words[order])
    valued = int((~np.isnan(values)).sum())
    ends = np.flatnonzero(np.diff(sorted_[:valued], append=-np.inf))
    if valued < len(values):  # without a limit, all are kept
        ends = np.append(ends, len(values) - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.where(spoken > 0, wrong / spoken, np.nan)
    return Line(sorted_[ends], kept[ends] / kept[-1], rates[ends])


def _thinned(line: Line) -> ThinnedLine:
    """Up to POINTS points, evenly spaced by the share that is kept, with the first and the last."""
    wanted = np.linspace(0.0, 1.0, POINTS)
    places = np.unique(np.searchsorted(line.kept, wanted).clip(0, len(line.kept) - 1))

    def points(values: Float64s) -> list[float | None]:
        thinned = values[places]
        return [None if np.isnan(x) else y for x, y in zip(thinned, short(thinned), strict=True)]

    return {"limit": points(line.limit), "kept": points(line.kept), "wer": points(line.wer)}


def _at(line: Line, share: float) -> Cell:
    """The point with the loosest limit that keeps at most this share; all None if the strictest
    keeps more."""
    place = int(np.searchsorted(line.kept, share + 1e-9, "right")) - 1
    if place < 0:
        return {"limit": None, "kept": None, "wer": None}

    def point(values: Float64s) -> float | None:
        value = float(values[place])
        return None if np.isnan(value) else value

    return {"limit": point(line.limit), "kept": point(line.kept), "wer": point(line.wer)}
