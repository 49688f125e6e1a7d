"""What the workers note of the portions of a ledger, for the process that puts them together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tasks import storage
from tasks.accounting import summary
from tasks.accounting.broken import Broken
from tasks.accounting.summary import Totals


class Portion(NamedTuple):
    """What became of one portion."""

    totals: Totals
    digest: str  # of all values
    before: int  # recordings that the previous version's ledger has here
    gone: list[str]  # those of them that have left the sources
    broken: list[Broken]  # the first recordings that failed, of datasets that are not exempt
    file: tuple[str, int]  # sha256 and bytes


def portions(scratch: Path, count: int) -> list[Portion]:
    """What `write` noted of all portions."""
    found = []
    for number in range(count):
        told = json.loads(storage.read(_noted(scratch, number)))
        sums = pa.Table.from_pylist(told["sums"], schema=summary.SUMS)
        counts = {name: (live, failed) for name, (live, failed) in told["recordings"].items()}
        file = (told["file"][0], told["file"][1])
        first = [Broken(*each) for each in told["broken"]]
        known = told["digest"], told["before"], told["gone"], first, file
        found.append(Portion(Totals(sums, counts), *known))
    return found


def note(scratch: Path, number: int, portion: Portion) -> None:
    told = {
        "sums": portion.totals.sums.to_pylist(),
        "recordings": portion.totals.recordings,
        "digest": portion.digest,
        "before": portion.before,
        "gone": portion.gone,
        "broken": portion.broken,
        "file": portion.file,
    }
    storage.of(scratch).write(_noted(scratch, number), json.dumps(told).encode())


def _noted(scratch: Path, number: int) -> Path:
    return scratch / "portions" / f"{number}.json"
