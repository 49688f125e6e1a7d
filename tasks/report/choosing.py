"""Which spans a report offers to listen to: the worst, and those nearest to a limit.

Of a reason with a limit: the spans furthest beyond the limit, those just beyond it, and packaged
clips just inside. Of a reason without one: the longest spans, then the least certain transcripts,
or without transcripts random spans. Of the packaged clips: the least certain transcripts, those
nearest to any limit, and random ones if these are too few. Failed recordings are drawn at random. A
uniform sample of a large corpus would show hardly any of these.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.report import doubtful
from tasks.report.columns import Columns
from tasks.report.doubtful import PACKAGED, Numbers, Side, Why
from tasks.report.facts import REMOVED, Ledger

PER_REASON = 8  # clips; twice as many of the packaged ones
IN_ALL = 80

Rows = NDArray[np.int64]
Picks = list[tuple[int, Why]]  # row numbers of a table, each with why it is shown


def choose(ledger: Ledger, columns: Columns | None, seed: int) -> dict[int, list[Why]]:
    """Row numbers of the ledger, each with all reasons for showing it: group by group, the packaged
    first, in each group the worst first. Without a valid table of decisions, `columns` is None and
    packaged clips are drawn at random."""
    draw = np.random.default_rng(seed)
    groups = _Groups(ledger)
    most = _quota({name: len(rows) for name, rows in groups.rows.items()})
    sides = doubtful.sides_of(columns) if columns is not None else []
    doubts = {} if columns is None else _doubts(ledger, columns, groups, sides, most)
    chosen: dict[int, list[Why]] = {}
    for name, rows in groups.rows.items():
        if groups.failed(rows):
            picks = _by_chance(name, rows, draw, most)
        elif groups.ranked(rows).any():
            mine = [side for side in sides if side.group == name]
            picks = _beyond(name, rows, groups, mine, draw, most) + doubts.get(name, [])
        else:
            picks = [] if name == PACKAGED else _longest(name, rows, groups, draw, _parts(most)[0])
            picks += doubts.get(name, [])
            shown = dict(picks)
            picks += _by_chance(name, rows, draw, most - len(shown), shown)
        for row, why in picks:
            chosen.setdefault(row, []).append(why)
    return chosen


def _doubts(
    ledger: Ledger, columns: Columns, groups: _Groups, sides: Sequence[Side], most: int
) -> dict[str, Picks]:
    """Rows of the ledger that the table of decisions adds to each group."""
    found: dict[str, Picks] = {}
    for name, rows in groups.rows.items():
        if name == PACKAGED:
            found[name] = doubtful.uncertain(columns, sides, most)
            found[name] += doubtful.near(columns, sides, most)
        elif groups.ranked(rows).any():
            mine = [side for side in sides if side.group == name]
            found[name] = doubtful.inside(columns, mine, _parts(most)[2])
        elif name.startswith("transcribe.") and not groups.failed(rows):
            found[name] = doubtful.uncertain(columns, sides, most - _parts(most)[0], name)
    wanted = sorted({row for picks in found.values() for row, _ in picks})
    ids = columns.ids(wanted)
    there = ledger.find(ids)
    places = {row: there[key] for row, key in zip(wanted, ids, strict=True) if key in there}
    return {
        name: [(places[row], why) for row, why in picks if row in places]
        for name, picks in found.items()
    }


class _Groups:
    """Rows of the ledger by `stage.reason`, packaged ones first, and what ranks them."""

    def __init__(self, ledger: Ledger) -> None:
        codes, reasons = ledger.reasons()
        outcomes = [(np.zeros(0, bool), np.zeros(0, bool))]
        numbers = [(np.zeros(0), np.zeros(0), np.zeros(0))]
        for part in ledger.portions("outcome", "value", "threshold", "start", "end"):
            outcome = part["outcome"]
            failed, kept = (_flags(pc.equal(outcome, name)) for name in ("failed", PACKAGED))
            outcomes.append((failed, kept))
            seconds = _floats(part["end"]) - _floats(part["start"])
            numbers.append((_floats(part["value"]), _floats(part["threshold"]), seconds))
        self._failed, packaged = map(np.concatenate, zip(*outcomes, strict=True))
        self.value, self.threshold, self.seconds = map(np.concatenate, zip(*numbers, strict=True))
        self.rows: dict[str, Rows] = {}
        if packaged.any():
            self.rows[PACKAGED] = np.flatnonzero(packaged)
        for code, (stage, reason) in enumerate(reasons):
            rows = np.flatnonzero((codes == code) & ~packaged)
            if len(rows) and reason != REMOVED:
                self.rows[f"{stage}.{reason}"] = rows

    def ranked(self, rows: Rows) -> NDArray[np.bool_]:
        """Rows that have a value and the limit it broke."""
        found: NDArray[np.bool_] = np.isfinite(self.value[rows]) & np.isfinite(self.threshold[rows])
        return found

    def failed(self, rows: Rows) -> bool:
        return bool(self._failed[rows].all())


def _quota(counts: Mapping[str, int]) -> int:
    """Clips of each reason, at least 1, so that the total is at most IN_ALL; of the packaged, twice
    as many."""

    def shown(name: str, most: int) -> int:
        if name == PACKAGED:
            return min(counts[name], 2 * most)
        return min(counts[name] + _parts(most)[2], most)

    for most in range(PER_REASON, 1, -1):
        if sum(shown(name, most) for name in counts) <= IN_ALL:
            return most
    return 1


def _parts(most: int) -> tuple[int, int, int]:
    """Of `most` clips of a reason: the worst, those just beyond the limit, those just inside."""
    worst = -(-most // 2)
    beyond = -(-(most - worst) // 2)
    return worst, beyond, most - worst - beyond


def _beyond(
    name: str,
    rows: Rows,
    groups: _Groups,
    sides: Sequence[Side],
    draw: np.random.Generator,
    most: int,
) -> Picks:
    """The worst of a reason that has a limit, and those just beyond it, the nearest first."""
    worst, near, _ = _parts(most)
    shuffled = draw.permutation(rows)  # so that equal values come from many recordings
    shuffled = shuffled[groups.ranked(shuffled)]
    value, limit = groups.value[shuffled], groups.threshold[shuffled]
    # Several columns may share a reason: each excess is relative to its own limit.
    excess = np.abs(value - limit) / np.where(limit == 0, 1.0, np.abs(limit))
    order = np.argsort(-excess, kind="stable")
    nearest = order[worst:][::-1][:near]
    return [
        (int(shuffled[at]), _why(name, kind, float(value[at]), float(limit[at]), sides))
        for kind, places in (("worst", order[:worst]), ("just beyond", nearest))
        for at in places.tolist()
    ]


def _longest(
    name: str, rows: Rows, groups: _Groups, draw: np.random.Generator, count: int
) -> Picks:
    """The longest spans of a reason without a limit."""
    shuffled = draw.permutation(rows)
    order = np.argsort(-groups.seconds[shuffled], kind="stable")[:count]
    return [(row, Why(name, "longest")) for row in shuffled[order].tolist()]


def _why(name: str, kind: str, value: float, limit: float, sides: Sequence[Side]) -> Why:
    side = "min" if value < limit else "max"
    measure = (each.column for each in sides if (each.side, each.limit) == (side, limit))
    return Why(name, kind, next(measure, ""), value, limit, side)


def _by_chance(
    name: str, rows: Rows, draw: np.random.Generator, count: int, but: Collection[int] = ()
) -> Picks:
    left = np.setdiff1d(rows, np.array(list(but), np.int64))
    drawn = draw.choice(left, max(min(len(left), count), 0), replace=False)
    return [(row, Why(name, "by chance")) for row in drawn.tolist()]


def _flags(column: object) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return found.astype(bool)


def _floats(column: object) -> Numbers:
    found: Numbers = pc.cast(column, "float64").to_numpy(zero_copy_only=False)
    return found
