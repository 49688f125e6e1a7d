"""Recordings that failed: their number, and the first of them by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from .ledger import SOUND

FIRST = 10  # failed recordings that a run's output names
COLUMNS = ["recording", "source_path", "outcome", "stage", "reason", "detail"]
#: SQL over a ledger: what `of_ledger` reads.
ROWS = (
    f"SELECT {', '.join(COLUMNS)} FROM ledger WHERE recording IN "
    "(SELECT recording FROM ledger WHERE outcome = 'failed')"
)


class Broken(NamedTuple):
    """A file and why it failed; `reason` includes the stage, as in `shard.unreadable`."""

    source_path: str
    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.source_path} ({self.reason}{f': {self.detail}' if self.detail else ''})"


class Unreachable(NamedTuple):
    """The recordings of a source that could not be read."""

    failed: int  # how many
    recordings: int  # of how many
    why: str  # the operating system's first error message


@dataclass(slots=True)
class BrokenCount:
    recordings: int = 0
    failed: int = 0
    first: list[Broken] = field(default_factory=list)


def of_ledger(ledger: pa.Table, most: int = FIRST) -> list[Broken]:
    """The first recordings that failed as a whole: none of their spans is packaged, dropped or
    pending. `ledger`: its ROWS."""
    outcome = ledger["outcome"]
    good = pc.is_in(outcome, pa.array(SOUND))
    whole = pc.invert(pc.is_in(ledger["recording"], pc.unique(ledger["recording"].filter(good))))
    failed = ledger.filter(pc.and_(pc.equal(outcome, "failed"), whole))
    broken_by_recording: dict[str, Broken] = {}
    for row in failed.sort_by("source_path").to_pylist():
        if len(broken_by_recording) == most:
            break
        why = f"{row['stage']}.{row['reason']}", row["detail"] or ""
        broken_by_recording.setdefault(row["recording"], Broken(row["source_path"], *why))
    return list(broken_by_recording.values())
