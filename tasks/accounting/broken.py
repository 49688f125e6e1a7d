"""Recordings that failed: how many, and the first of them by name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tasks.accounting.ledger import SOUND

FIRST = 10  # that are named wherever a run is described
COLUMNS = ["recording", "source_path", "outcome", "stage", "reason", "detail"]


class Broken(NamedTuple):
    """A file and why it failed; `reason` with its stage, as in `shard.unreadable`."""

    source_path: str
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.source_path} ({self.reason}{f': {self.detail}' if self.detail else ''})"


class Unreachable(NamedTuple):
    """How many of a source's recordings could not be read now, of how many, and the first error in
    the system's words."""

    failed: int
    recordings: int
    why: str


@dataclass(slots=True)
class BrokenCount:
    """How many recordings there are, how many of them failed, and the first of these by name."""

    recordings: int = 0
    failed: int = 0
    first: list[Broken] = field(default_factory=list)


def of_parts(parts: Iterable[pa.Table], most: int) -> list[Broken]:
    """`of_ledger` for portions of whole recordings, one at a time."""
    return nsmallest(most, (broken for part in parts for broken in of_ledger(part, most)))


def of_ledger(ledger: pa.Table, most: int = FIRST) -> list[Broken]:
    """The first recordings that failed and gave, or may still give, nothing else, from a ledger's
    COLUMNS."""
    outcome = ledger["outcome"]
    good = pc.is_in(outcome, pa.array(SOUND))
    whole = pc.invert(pc.is_in(ledger["recording"], pc.unique(ledger["recording"].filter(good))))
    failed = ledger.filter(pc.and_(pc.equal(outcome, "failed"), whole))
    broken_by_recording: dict[str, Broken] = {}  # by recording
    for row in failed.sort_by("source_path").to_pylist():
        if len(broken_by_recording) == most:
            break
        why = f"{row['stage']}.{row['reason']}", row["detail"] or ""
        broken_by_recording.setdefault(row["recording"], Broken(row["source_path"], *why))
    return list(broken_by_recording.values())
