"""Histograms of measures, weighted by hours: all, by dataset, by language; kept and other."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypedDict

import numpy as np

from tasks.base.arrays import Bools, Float64s, Int16s, Int32s
from tasks.corpus import outcome_table
from tasks.insight.report.columns import Columns
from tasks.plugins.rules import Limit

BINS = 40
EDGES = (0.005, 0.995)  # quantiles at the ends of an axis; values beyond are in the end bins
MOST_BEYOND = 1.0  # an axis grows by at most its length to show a limit

#: The measures shown first, in this order; all others follow.
FIRST = (
    *("duration", "seconds", "snr", "nmf_snr", "dnsmos_ovrl", "dnsmos_sig", "dnsmos_bak"),
    *("loudness", "bandwidth", "char_rate_alphabetic", "char_rate_syllabic", "chars_per_second"),
    *("wer", "cer"),
)
CHARS_PER_SECOND = ("1/s", "characters of the text a second")
NOT_MEASURES = {*outcome_table.FIXED.names} - {"seconds"}


class Spread(TypedDict):
    """Count and 5 %, 50 % and 95 % quantiles of all and of kept utterances."""

    items: int
    spread: list[float] | None
    items_kept: int
    spread_kept: list[float] | None


class Bars(Spread):
    """Hours in each bar, [BINS]."""

    kept: list[float]
    other: list[float]


class GroupBars(Bars):
    """The bars of all utterances, or of a dataset or language."""

    kind: str  # all, dataset, language
    name: str | None


class Histogram(TypedDict):
    """One measure: its axis, and bars for `all` and for each group."""

    name: str
    low: float
    high: float
    groups: list[GroupBars]
    missing: int  # utterances without a value


def shown(columns: Columns) -> list[str]:
    """All measures of the table, those in FIRST first."""
    names = [name for name in columns.names if name not in NOT_MEASURES]
    if "duration" in names:
        names.remove("seconds")  # the same number
    if not any(name.startswith("char_rate") for name in names):
        names.append("chars_per_second")
    first = [name for name in FIRST if name in names]
    return first + [name for name in names if name not in first]


def values_of(columns: Columns, name: str) -> Float64s:
    """A measure of each utterance, NaN for none; float64 [rows]."""
    if name != "chars_per_second":
        return columns.values(name)
    chars, seconds = columns.values("text_chars"), columns.seconds
    return np.divide(chars, seconds, out=np.full_like(chars, np.nan), where=seconds > 0)


def axis(values: Float64s, limits: Iterable[float]) -> tuple[float, float]:
    """(lowest, highest) of a readable axis over finite values and nearby limits."""
    low, high = (float(v) for v in np.quantile(values, EDGES))
    if high <= low:
        low, high = float(values.min()), float(values.max())
    reach = MOST_BEYOND * (high - low or 1.0)
    near = [x for x in limits if low - reach <= x <= high + reach]
    low, high = min([low, *near]), max([high, *near])
    if high <= low:
        low, high = low - 0.5, high + 0.5
    step = _nice((high - low) / BINS)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _nice(step: float) -> float:
    """The next larger of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next((m * power for m in (1.0, 2.0, 2.5, 5.0) if m * power >= step), 10 * power)


def limits_on(columns: Columns, name: str) -> list[Limit]:
    """All rules that limit a measure."""
    rules = [asked.rule for asked in columns.asked]
    return [rule for rule in rules if isinstance(rule, Limit) and rule.column == name]


def of(columns: Columns, name: str) -> Histogram | None:
    """Histogram and quantiles of one measure, or None if no utterance has it."""
    values = values_of(columns, name)
    finite = np.isfinite(values)
    if not finite.any():
        return None
    finite_values = values[finite]
    set_ = [x for rule in limits_on(columns, name) for x in (rule.min, rule.max) if x is not None]
    low, high = axis(finite_values, set_)
    count = len(finite_values)
    del finite_values  # as much memory as all values
    bins = _bins(np.where(finite, values, low), low, high)
    bins[columns.packaged] += BINS

    def of_rows(rows: slice | Int32s) -> Bars:
        finite_rows = finite[rows]
        bars = np.bincount(
            bins[rows][finite_rows], columns.seconds[rows][finite_rows] / 3600, 2 * BINS
        )
        return {
            "kept": short(bars[BINS:]),
            "other": short(bars[:BINS]),
            **quantiles(values[rows][finite_rows], columns.packaged[rows][finite_rows]),
        }

    groups: list[GroupBars] = [{"kind": "all", "name": "", **of_rows(slice(None))}]
    for kind, group, rows in columns.groups:
        about = of_rows(rows)
        if about["items"]:
            groups.append({"kind": kind, "name": group, **about})
    return {
        "name": name,
        "low": low,
        "high": high,
        "groups": groups,
        "missing": int(len(values) - count),
    }


def _bins(values: Float64s, low: float, high: float) -> Int16s:
    """The bar of each value, which is overwritten."""
    values -= low
    values *= BINS / (high - low)
    return np.clip(values, 0, BINS - 1, out=values).astype(np.int16)


def quantiles(values: Float64s, kept: Bools) -> Spread:
    """Those of all utterances, and of the `kept` ones."""

    def three(some: Float64s) -> list[float] | None:
        return np.quantile(some, (0.05, 0.5, 0.95)).tolist() if len(some) else None

    good = values[kept]
    return {
        "items": len(values),
        "spread": three(values),
        "items_kept": len(good),
        "spread_kept": three(good),
    }


def short(numbers: Iterable[float], digits: int = 5) -> list[float]:
    """Numbers rounded to what a chart can show, so that the file stays small."""
    return [float(f"{number:.{digits}g}") for number in numbers]
