"""Picks the rows of each reason that a report may show, in one pass over a ledger.

It keeps a few rows of each reason by four orders, however many there are: a ledger of ten million
utterances has twice as many rows, and whole columns would take a gigabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.accounting.summary import REMOVED
from tasks.report.columns import Flags, flags_of, numbers_of
from tasks.report.doubtful import PACKAGED, Numbers, least
from tasks.report.facts import Ledger
from tasks.storage import long_columns

COLUMNS = ("stage", "reason", "outcome", "value", "threshold", "start", "end")

#: Rows of a ledger with what orders them.
SPAN = np.dtype(
    [
        ("row", np.int64),
        ("chance", np.float64),  # a random number, by which equal ones are ordered
        ("value", np.float64),  # NaN if the reason has none, as for the limit
        ("limit", np.float64),
        ("seconds", np.float64),
    ]
)
Spans = NDArray[np.void]  # of SPAN


def excess(spans: Spans) -> Numbers:
    """How far beyond its limit each value is, as a share of the limit: several columns may share a
    reason, and each has its own limit. NaN without value or limit."""
    limit: Numbers = spans["limit"]
    away: Numbers = np.abs(spans["value"] - limit) / np.where(limit == 0, 1.0, np.abs(limit))
    return away


#: The orders by which rows of a reason are kept; rows without the number are not.
ORDERS: Mapping[str, Callable[[Spans], Numbers]] = {
    "worst": lambda spans: -excess(spans),
    "nearest": excess,
    "longest": lambda spans: -spans["seconds"],
    "drawn": lambda spans: spans["chance"],
}


@dataclass(slots=True)
class ReasonRows:
    """The rows of one reason, or the packaged ones: how many, and the first by each order."""

    count: int = 0
    failed: bool = True  # all of them
    first: dict[str, Spans] = field(default_factory=dict)

    @property
    def ranked(self) -> bool:
        """Whether any row has a value and the limit that it broke."""
        return len(self.first["worst"]) > 0

    def add(self, spans: Spans, failed: Flags, most: int) -> None:
        self.count += len(spans)
        self.failed = self.failed and bool(failed.all())
        for name, key in ORDERS.items():
            best = spans[least(key(spans), most, spans["chance"])]
            best = np.concatenate([self.first.get(name, best[:0]), best])
            self.first[name] = best[least(key(best), most, best["chance"])]


def groups(ledger: Ledger, seed: int, most: int) -> dict[str, ReasonRows]:
    """Of each `stage.reason`, by name after the packaged ones, `most` rows by each order.
    Recordings that left their source are left out."""
    draw = np.random.default_rng(seed)
    found: dict[str, ReasonRows] = {}
    at = 0
    for part in ledger.batches(*COLUMNS):
        spans = _spans(part, at, draw)
        failed, packaged = (
            flags_of(pc.equal(part["outcome"], word)) for word in ("failed", PACKAGED)
        )
        members = {PACKAGED: packaged}
        for name, rows in _reasons(part).items():
            members[name] = rows & ~packaged
        for name, rows in members.items():
            if rows.any():
                found.setdefault(name, ReasonRows()).add(spans[rows], failed[rows], most)
        at += part.num_rows
    return dict(sorted(found.items(), key=lambda item: (item[0] != PACKAGED, item[0])))


def _reasons(part: pa.Table) -> dict[str, Flags]:
    """Which rows have each `stage.reason`."""
    words = [long_columns.coded(pc.fill_null(part[name], "")) for name in ("stage", "reason")]
    stages, reasons = (each.dictionary.to_pylist() for each in words)
    stage, reason = (each.indices.to_numpy() for each in words)
    pairs = stage.astype(np.int64) * len(reasons) + reason
    found = {}
    for code in np.unique(pairs).tolist():
        name = reasons[code % len(reasons)]
        if name != REMOVED:
            found[f"{stages[code // len(reasons)]}.{name}"] = pairs == code
    return found


def _spans(part: pa.Table, first: int, draw: np.random.Generator) -> Spans:
    found = np.empty(part.num_rows, SPAN)
    found["row"] = np.arange(first, first + part.num_rows)
    found["chance"] = draw.random(part.num_rows)
    found["value"], found["limit"] = numbers_of(part["value"]), numbers_of(part["threshold"])
    found["seconds"] = numbers_of(part["end"]) - numbers_of(part["start"])
    return found
