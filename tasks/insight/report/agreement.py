"""The agreement of several recognisers: what a limit on it would keep, and how accurate that would
be. Covers utterances that at least two recognisers heard, whatever other rules say. A limit
cannot separate equal values, so a curve has one point per distinct value, thinned out."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import numpy as np

from tasks.base.arrays import Bools, Float64s
from tasks.insight.report import measure_charts
from tasks.insight.report.measure_charts import short
from tasks.insight.report.outcome_columns import Columns

POINTS = 100  # of a curve, at most
SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)  # of the hours, in the table
#: A measure, the better side of a limit on it, and its title.
RANKS = (("agreement", "by agreement"), ("avg_logprob", "by log-probability"))


class Line(NamedTuple):
    """For each limit that occurs, from the strictest on: share of the hours with at least that
    value, and the word error rate of those that have a reference, NaN if none has; float64."""

    limit: Float64s
    kept: Float64s
    wer: Float64s


class ThinnedLine(TypedDict):
    """At most POINTS points of a line."""

    limit: list[float | None]
    kept: list[float | None]
    wer: list[float | None]


class RankLine(ThinnedLine):
    """A line of the charts."""

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
    """The charts and the table; `items` and `hours` that several recognisers heard, `references` of
    the items."""

    lines: list[RankLine]
    table: list[RankRow]
    shares: tuple[float, ...]
    items: int
    hours: float
    references: int


def of(columns: Columns) -> Agreement | None:
    """The curves and the table; None if no utterance was heard by several."""
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
        limit = next((x.min for x in measure_charts.limits_on(columns, name) if x.min), None)
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
    """Utterances without a value are kept last, by no limit."""
    order = np.argsort(-values, kind="stable")  # NaN comes last
    sorted_, kept = values[order], np.cumsum(seconds[order])
    wrong, spoken = np.cumsum(errors[order]), np.cumsum(words[order])
    valued = int((~np.isnan(values)).sum())
    ends = np.flatnonzero(np.diff(sorted_[:valued], append=-np.inf))
    if valued < len(values):  # no limit at all
        ends = np.append(ends, len(values) - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.where(spoken > 0, wrong / spoken, np.nan)
    return Line(sorted_[ends], kept[ends] / kept[-1], rates[ends])


def _thinned(line: Line) -> ThinnedLine:
    """Points, evenly by the share that is kept, with the first and the last."""
    wanted = np.linspace(0.0, 1.0, POINTS)
    places = np.unique(np.searchsorted(line.kept, wanted).clip(0, len(line.kept) - 1))

    def points(values: Float64s) -> list[float | None]:
        thinned = values[places]
        return [None if np.isnan(x) else y for x, y in zip(thinned, short(thinned), strict=True)]

    return {"limit": points(line.limit), "kept": points(line.kept), "wer": points(line.wer)}


def _at(line: Line, share: float) -> Cell:
    """The loosest limit that keeps at most this share; None where even the strictest keeps more."""
    place = int(np.searchsorted(line.kept, share + 1e-9, "right")) - 1
    if place < 0:
        return {"limit": None, "kept": None, "wer": None}

    def point(values: Float64s) -> float | None:
        value = float(values[place])
        return None if np.isnan(value) else value

    return {"limit": point(line.limit), "kept": point(line.kept), "wer": point(line.wer)}
