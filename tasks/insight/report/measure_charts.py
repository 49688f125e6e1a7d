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
from typing import Literal, NamedTuple

import numpy as np

from ...base.arrays import Bools, Float64s, Int32s, Int64s
from ...base.json_types import JsonObject
from ...plugins.rules import Limit
from ...publish.corpus import limits
from .spans import Spans

BINS = 40
NO_BAR = 2 * BINS  # bin of utterances without a value, after those of other and of kept ones
SPREAD = (0.05, 0.5, 0.95)  # quantiles that are shown
EDGES = (0.005, 0.995)  # quantiles at the ends of an axis; values beyond are in the end bins
MOST_BEYOND = 1.0  # an axis grows by at most this multiple of its length to show a limit
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


def shown(spans: Spans) -> list[str]:
    """Names of all measures in the table, those in FIRST first."""
    names = [name for name in spans.names if name not in NOT_MEASURES]
    if "duration" in names:
        names.remove("seconds")  # the same number
    if not any(name.startswith("char_rate") for name in names):
        names.append("chars_per_second")
    first = [name for name in FIRST if name in names]
    return first + [name for name in names if name not in first]


def values_of(spans: Spans, name: str) -> Float64s:
    """A measure of each utterance; float64 [rows], NaN without a value."""
    if name != "chars_per_second":
        return spans.values(name)
    chars, seconds = spans.values("text_chars"), spans.seconds
    return np.divide(chars, seconds, out=np.full_like(chars, np.nan), where=seconds > 0)


def axis(values: Float64s, limits: Iterable[float]) -> tuple[float, float]:
    """(lowest, highest) of a readable axis over finite values and nearby limits."""
    low, high = np.quantile(values, EDGES).tolist()
    if high <= low:
        low, high = float(values.min()), float(values.max())
    reach = MOST_BEYOND * (high - low or 1.0)
    near = [x for x in limits if low - reach <= x <= high + reach]
    low, high = min([low, *near]), max([high, *near])
    if high <= low:
        low, high = low - 0.5, high + 0.5
    width = (high - low) / BINS
    power = 10.0 ** math.floor(math.log10(width))
    step = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= width or m == 10)
    return math.floor(low / step) * step, math.ceil(high / step) * step


def limits_on(spans: Spans, name: str) -> list[Limit]:
    """All rules that limit a measure."""
    rules = (rule for _, rule in spans.rules)
    return [rule for rule in rules if isinstance(rule, Limit) and rule.column == name]


def histogram_of(spans: Spans, name: str) -> JsonObject | None:
    """Histogram of one measure: `low`, `high`, the ends of its axis; `missing`, the utterances
    without a value; `groups`: the bars and quantiles of all utterances, of datasets and of
    languages. None if no utterance has a value."""
    values = values_of(spans, name)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return None
    set_ = [x for rule in limits_on(spans, name) for x in (rule.min, rule.max) if x is not None]
    low, high = axis(finite, set_)
    # The bin of each value: first those of other utterances, then of kept ones, then NO_BAR.
    is_finite = np.isfinite(values)
    bars = np.clip((np.where(is_finite, values, low) - low) * (BINS / (high - low)), 0, BINS - 1)
    bins = bars.astype(np.uint8) + np.uint8(BINS) * spans.packaged
    bins[~is_finite] = NO_BAR
    members: list[tuple[str, str | None, slice | Int32s]]
    members = [("all", "", slice(None)), *spans.groups]
    groups: list[JsonObject] = []
    for kind, group, rows in members:
        of_group, is_known, is_kept = values[rows], is_finite[rows], spans.packaged[rows]
        if is_known.any():
            sums = np.bincount(bins[rows], spans.seconds[rows] / 3600, NO_BAR + 1)
            hours = {"kept": short(sums[BINS:NO_BAR]), "other": short(sums[:BINS])}
            every, kept = of_group[is_known], of_group[is_known & is_kept]
            quantiles = {"spread": spread_of(every), "spread_kept": spread_of(kept)}
            counts = {"items": len(every), "items_kept": len(kept)}
            groups.append({"kind": kind, "name": group, **hours, **counts, **quantiles})
    missing = len(values) - len(finite)
    return {"name": name, "low": low, "high": high, "groups": groups, "missing": missing}


def spread_of(values: Float64s) -> list[float] | None:
    quantiles: list[float] = np.quantile(values, SPREAD).tolist() if len(values) else []
    return quantiles or None


def short(numbers: Iterable[float], digits: int = 5) -> list[float]:
    """Numbers rounded to the precision of a chart, so that the file stays small."""
    return [float(f"{number:.{digits}g}") for number in numbers]


def kept_now(spans: Spans) -> JsonObject:
    """Hours and items that the current limits keep, counted as in `sliders`."""
    kept = ~spans.blocked & (spans.refusals == 0)
    return {"hours": float(spans.seconds[kept].sum() / 3600), "items": int(kept.sum())}


def sliders(spans: Spans, name: str, low: float, high: float) -> list[JsonObject]:
    """A curve for each limit on a measure: `hours` and `items` that it keeps at each of
    `positions`, where None is "no limit", first for a lower and last for an upper one; `today`, the
    current limit, is at index `at`. `low`, `high`: ends of the chart's axis."""
    drawn = []
    for stage, rule in spans.rules:
        if not isinstance(rule, Limit) or rule.column != name:
            continue
        values, candidates = spans.values(name), spans.only(stage, rule)
        spared = np.isnan(values) | spans.flags(limits.spares(rule))
        if stage == "transcribe":
            spared |= ~spans.heard
        # Rows beyond the rule's other limit are rejected anyway.
        below = values <= (np.inf if rule.max is None else rule.max)
        above = values >= (-np.inf if rule.min is None else rule.min)
        sides: tuple[tuple[Side, float | None, str | None, Bools], ...]
        sides = (("min", rule.min, rule.low, below), ("max", rule.max, rule.high, above))
        for side, today, reason, within in sides:
            if reason:
                rows = candidates & (spared | within)
                steps = [float(f"{x:.6g}") for x in np.linspace(low, high, POSITIONS + 1)]
                steps += [] if today is None else [float(today)]
                positions = np.unique(np.array(steps))
                marked = np.where(spared[rows], np.nan, values[rows])
                drawn.append(_curve(marked, spans.seconds[rows], side, positions, today))
    return drawn


def _curve(
    values: Float64s, seconds: Float64s, side: Side, positions: Float64s, today: float | None
) -> JsonObject:
    """The curve of a limit over these rows; NaN: no position drops the row."""
    is_free, sign = np.isnan(values), -1 if side == "min" else 1  # -x <= -limit: x >= limit
    order = np.argsort(sign * values[~is_free])
    ranked, lengths = sign * values[~is_free][order], seconds[~is_free][order]
    edges = np.append(-np.inf, positions) if side == "min" else np.append(positions, np.inf)
    kept = np.searchsorted(ranked, sign * edges, "right")  # rows at each position
    names = [float(edge) if math.isfinite(edge) else None for edge in edges]
    hours = np.append(0.0, lengths.cumsum())[kept] + seconds[is_free].sum()
    return {
        "side": side,
        "today": today,
        "at": names.index(today),
        "positions": names,
        "hours": short(hours / 3600, 9),
        "items": (kept + is_free.sum()).tolist(),
    }


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


def of_agreement(spans: Spans) -> JsonObject | None:
    """The `lines` of the charts, and a `table` with a cell for each of `shares`; `items`, `hours`:
    utterances with several hypotheses; `references`: how many of these have one. None if no
    utterance has several hypotheses."""
    if "agreement" not in spans.names:
        return None
    values = spans.values("agreement")
    several = ~np.isnan(values)
    if not several.any():
        return None
    seconds = spans.seconds[several]
    ranked = {name: spans.values(name)[several] for name, _ in RANKS if name in spans.names}
    # Word errors of the first recogniser, and words of the reference; 0 without one.
    errors, words = (np.nan_to_num(spans.values(n)[several]) for n in ("word_errors", "words"))
    lines, table = list[JsonObject](), list[JsonObject]()
    for name, title in RANKS:
        if name not in ranked or np.isnan(ranked[name]).all():
            continue
        limit = next((x.min for x in limits_on(spans, name) if x.min), None)
        line = _line(ranked[name], seconds, errors, words)
        # Evenly spaced by the share that is kept, with the first and the last.
        points = np.searchsorted(line.kept, np.linspace(0.0, 1.0, POINTS))
        thinned = _at(line, np.unique(points.clip(0, len(line.kept) - 1)))
        lines.append({"name": name, "title": title, "today": limit, **thinned})
        # The loosest limit that keeps at most each share; all None if the strictest keeps more.
        loosest = np.searchsorted(line.kept, np.array(SHARES) + 1e-9, "right") - 1
        columns_of_cells = _at(line, loosest, digits=17)
        cells = [
            {key: None if place < 0 else column[n] for key, column in columns_of_cells.items()}
            for n, place in enumerate(loosest)
        ]
        table.append({"title": title, "cells": cells})
    return {
        "lines": lines,
        "table": table,
        "shares": SHARES,
        "items": int(several.sum()),
        "hours": float(seconds.sum() / 3600),
        "references": int((words > 0).sum()),
    }


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


def _at(line: Line, places: Int64s, digits: int = 5) -> dict[str, list[float | None]]:
    """Points of a line, rounded as `short` does; None without a value."""
    return {
        name: [None if math.isnan(x) else x for x in short(values[places], digits)]
        for name, values in line._asdict().items()
    }
