"""Facts from the ledger for a report: the funnel, and hours by dataset and language."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...accounting import summary
from ...accounting.summary import REMOVED
from ...base.json_types import JsonObject, Summary
from ...base.schema import LedgerRow
from ...storage import tables

LARGE = 8  # reasons that the funnel shows; smaller ones are folded
ROWS = 40  # of a table by dataset or language; smaller ones are summed in the last
#: Place of each stage in the funnel.
ORDER = {"shard": 0, "filter": 1, "enhance": 2, "resample": 3, "transcribe": 4, "package": 5}


@dataclass(frozen=True, slots=True)
class Ledger:
    """A version's ledger.parquet, or a table of the work done so far."""

    source: Path | pa.Table

    def rows(self, numbers: Sequence[int]) -> list[LedgerRow]:
        """The rows with these numbers, sorted by number, with all columns; reads one row group at a
        time."""
        wanted = np.array(sorted(numbers), dtype=np.int64)
        if isinstance(self.source, pa.Table):  # `take` would join chunks that may be too long
            taken = self.source.filter(pa.array(np.isin(np.arange(len(self.source)), wanted)))
        else:
            taken = tables.rows(self.source, wanted)
        ledger_rows: list[LedgerRow] = taken.to_pylist()
        return ledger_rows

    def find(self, utterances: Collection[str]) -> dict[str, int]:
        """The row number of each of these utterances; if an id occurs twice, of the packaged
        row."""
        wanted = pa.array(list(utterances), pa.string())
        row_by_id: dict[str, int] = {}
        first_row = 0
        for part in self.portions("utterance", "outcome"):
            is_wanted = pc.is_in(part["utterance"], wanted)
            kept = pc.equal(part["outcome"], "packaged").to_numpy()
            names = part["utterance"].filter(is_wanted).to_pylist()
            for name, row in zip(names, np.flatnonzero(is_wanted.to_numpy()).tolist(), strict=True):
                if name not in row_by_id or kept[row]:
                    row_by_id[name] = first_row + row
            first_row += part.num_rows
        return row_by_id

    def portions(self, *columns: str) -> Iterator[pa.Table]:
        """These columns, in portions of whole recordings."""
        if isinstance(self.source, pa.Table):
            yield self.source.select(list(columns))
            return
        yield from tables.row_groups(self.source, columns)

    def sums(self) -> pa.Table:
        """`summary.SUMS`, without removed recordings."""
        totals = summary.added(map(summary.totals, self.portions(*summary.COLUMNS)))
        return summary.live(totals.sums)


def funnel(counts: Summary, meanings: Mapping[str, str]) -> list[JsonObject]:
    """The steps from all audio to the packaged part, in the order of stages, within a stage the
    largest first, and after them the `small` ones, which are folded: `seconds` that a reason
    removes, their `share` of all, what remains `after` it, and whether its recordings are `gone`
    from their source. `counts`: as in dataset.json; `meanings`: of each of its reasons."""
    whole = remaining = counts["seconds"]["in"]
    reasons = counts["reasons"]
    largest = sorted(reasons, key=lambda name: (-reasons[name]["seconds"], name))
    small = {name for name in largest if not reasons[name]["seconds"]} | {*largest[LARGE:]}
    if len(reasons) <= LARGE:
        small = set()
    steps: list[JsonObject] = []
    for name in sorted(largest, key=lambda n: (n in small, ORDER.get(n.partition(".")[0], -1))):
        seconds, (stage, _, reason) = reasons[name]["seconds"], name.partition(".")
        gone = reason == REMOVED
        taken = 0.0 if gone else seconds
        remaining = max(remaining - taken, 0.0)
        steps.append(
            {
                **{"stage": stage, "reason": reason, "name": name, "seconds": seconds},
                **{"items": reasons[name]["items"], "small": name in small, "gone": gone},
                "after": remaining,
                "share": taken / whole if whole else 0.0,
                "meaning": meanings[name],
            }
        )
    return steps


def shares(sums: pa.Table, column: Literal["dataset", "language"]) -> list[JsonObject]:
    """Input and packaged hours of every dataset or language, and its packaged `items`, the largest
    first, from a ledger's sums; beyond ROWS, the smallest are summed in one row without a name, of
    so many `names`."""
    by_name: dict[str | None, JsonObject] = {}
    for row in summary.hours_by(sums, column, "outcome"):
        entry = by_name.setdefault(
            row[column], {"name": row[column], "in": 0.0, "packaged": 0.0, "items": 0, "names": 1}
        )
        entry["in"] += row["hours"]
        if row["outcome"] == "packaged":
            entry["packaged"], entry["items"] = row["hours"], row["items"]
    rows = sorted(by_name.values(), key=lambda r: (-r["in"], str(r["name"])))
    if len(rows) > ROWS:
        rest = rows[ROWS - 1 :]
        summed = {key: sum(r[key] for r in rest) for key in ("in", "packaged", "items", "names")}
        rows = [*rows[: ROWS - 1], {"name": None, **summed}]
    return rows
