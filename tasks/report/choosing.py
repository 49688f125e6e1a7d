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

from tasks.report import candidates, doubtful
from tasks.report.candidates import ReasonRows
from tasks.report.columns import Columns
from tasks.report.doubtful import PACKAGED, Side, Why
from tasks.report.facts import Ledger

PER_REASON = 8  # clips; twice as many of the packaged ones
IN_ALL = 80

Picks = list[tuple[int, Why]]  # row numbers of a table, each with why it is shown


def choose(ledger: Ledger, columns: Columns | None, seed: int) -> dict[int, list[Why]]:
    """Row numbers of the ledger, each with all reasons for showing it: group by group, the packaged
    first, in each group the worst first. Without a valid table of decisions, `columns` is None and
    packaged clips are drawn at random."""
    groups = candidates.groups(ledger, seed, 2 * PER_REASON)
    most = _quota({name: group.count for name, group in groups.items()})
    sides = doubtful.sides_of(columns) if columns is not None else []
    doubts = {} if columns is None else _doubts(ledger, columns, groups, sides, most)
    chosen: dict[int, list[Why]] = {}
    for name, group in groups.items():
        if group.failed:
            picks = _by_chance(name, group, most)
        elif group.ranked:
            mine = [side for side in sides if side.group == name]
            picks = _beyond(name, group, mine, most) + doubts.get(name, [])
        else:
            picks = [] if name == PACKAGED else _longest(name, group, _parts(most)[0])
            picks += doubts.get(name, [])
            shown = dict(picks)
            picks += _by_chance(name, group, most - len(shown), shown)
        for row, why in picks:
            chosen.setdefault(row, []).append(why)
    return chosen


def _doubts(
    ledger: Ledger,
    columns: Columns,
    groups: Mapping[str, ReasonRows],
    sides: Sequence[Side],
    most: int,
) -> dict[str, Picks]:
    """Rows of the ledger that the table of decisions adds to each group."""
    found: dict[str, Picks] = {}
    for name, group in groups.items():
        if name == PACKAGED:
            found[name] = doubtful.uncertain(columns, sides, most)
            found[name] += doubtful.near(columns, sides, most)
        elif group.ranked:
            mine = [side for side in sides if side.group == name]
            found[name] = doubtful.inside(columns, mine, _parts(most)[2])
        elif name.startswith("transcribe.") and not group.failed:
            found[name] = doubtful.uncertain(columns, sides, most - _parts(most)[0], name)
    wanted = sorted({row for picks in found.values() for row, _ in picks})
    ids = columns.ids(wanted)
    there = ledger.find(ids)
    places = {row: there[key] for row, key in zip(wanted, ids, strict=True) if key in there}
    return {
        name: [(places[row], why) for row, why in picks if row in places]
        for name, picks in found.items()
    }


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


def _beyond(name: str, group: ReasonRows, sides: Sequence[Side], most: int) -> Picks:
    """The worst of a reason that has a limit, and those just beyond it, the nearest first."""
    worst, beyond, _ = _parts(most)
    first, near = group.first["worst"][:worst], group.first["nearest"]
    near = near[~np.isin(near["row"], first["row"])][:beyond]
    return [
        (int(span["row"]), _why(name, kind, float(span["value"]), float(span["limit"]), sides))
        for kind, spans in (("worst", first), ("just beyond", near))
        for span in spans
    ]


def _longest(name: str, group: ReasonRows, count: int) -> Picks:
    """The longest spans of a reason without a limit."""
    rows = group.first["longest"]["row"][:count]
    return [(row, Why(name, "longest")) for row in rows.tolist()]


def _why(name: str, kind: str, value: float, limit: float, sides: Sequence[Side]) -> Why:
    side = "min" if value < limit else "max"
    measure = (each.column for each in sides if (each.side, each.limit) == (side, limit))
    return Why(name, kind, next(measure, ""), value, limit, side)


def _by_chance(name: str, group: ReasonRows, count: int, but: Collection[int] = ()) -> Picks:
    rows = [row for row in group.first["drawn"]["row"].tolist() if row not in but]
    return [(row, Why(name, "by chance")) for row in rows[: max(count, 0)]]
