"""Counts and seconds of a ledger, for `run --json`, `ledger` and dataset.json."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..base.arrays import Float64s
from ..base.json_types import Arrived, HoursBy, Reason, Summary
from ..base.schema import LEDGER_FILE, UTTERANCES_FILE
from ..storage import tables
from .ledger import PENDING, PRECEDENCE, SOUND

SCORES = ("words", "word_errors", "chars", "char_errors")

#: Columns by which the rows of a ledger are counted.
KEYS = ("dataset", "language", "outcome", "stage", "reason", "sample_rate")
#: Columns that `totals` reads.
COLUMNS = (*KEYS, "utterance", "samples", "overlap_samples", "recording")
REMOVED = "source_removed"  # reason: the recording has left its source
REMOVED_MEANS = "no longer in its source under that name; not part of the hours in"
COUNTS = ("items", "utterances", "samples", "overlap_samples")
SUMS = pa.schema(
    {**dict.fromkeys(KEYS[:-1], pa.string()), **dict.fromkeys(("sample_rate", *COUNTS), pa.int64())}
)


class Totals(NamedTuple):
    """Sums over a ledger, or over a portion of it with whole recordings; see `added`."""

    sums: pa.Table  # SUMS
    recordings: dict[str, tuple[int, int]]  # by dataset: (recordings still in their source, failed)

    def of_datasets(self, datasets: Collection[str]) -> Totals:
        wanted = pc.is_in(self.sums["dataset"], pa.array([*datasets], pa.string()))
        counts = {name: count for name, count in self.recordings.items() if name in datasets}
        return Totals(self.sums.filter(wanted), counts)


def live(table: pa.Table) -> pa.Table:
    """The rows of a ledger, or of its sums, without removed recordings."""
    return table.filter(pc.fill_null(pc.not_equal(table["reason"], REMOVED), True))


def live_recordings(version: Path) -> Iterator[pa.Array]:
    """Names of the recordings in a version's ledger, without removed ones, a row group at a
    time."""
    for rows in tables.row_groups(version / LEDGER_FILE, ["recording", "reason"]):
        yield pc.unique(live(rows)["recording"])


def totals(ledger: pa.Table) -> Totals:
    present = live(ledger.select(["dataset", "recording", "outcome", "reason"]))
    failed = _recordings(present, "failed") - _recordings(present, *SOUND)
    pairs = present.group_by(["dataset", "recording"]).aggregate([])
    bad = pc.cast(pc.is_in(pairs["recording"], pa.array([*failed], pa.string())), pa.int64())
    counts = pairs.append_column("failed", bad).group_by("dataset")
    rows = counts.aggregate([("recording", "count"), ("failed", "sum")]).to_pylist()
    recordings = {row["dataset"]: (row["recording_count"], row["failed_sum"]) for row in rows}
    spoken = pc.cast(pc.is_valid(ledger["utterance"]), pa.int64())
    counted = ledger.select([*KEYS, "samples", "overlap_samples"])
    counted = counted.append_column("utterances", spoken)
    counted = counted.append_column("items", pa.array(np.ones(len(ledger), np.int64)))
    return Totals(_summed(counted), recordings)


def added(parts: Iterable[Totals]) -> Totals:
    """The totals of all portions of a ledger; there are none before the first listing."""
    sums, counts = [SUMS.empty_table()], dict[str, tuple[int, int]]()
    for part in parts:
        sums.append(part.sums)
        for name, (live, failed) in part.recordings.items():
            before = counts.get(name, (0, 0))
            counts[name] = (before[0] + live, before[1] + failed)
    return Totals(_summed(pa.concat_tables(sums)), counts)


def _summed(table: pa.Table) -> pa.Table:
    return sums_by(table, KEYS, COUNTS).select(SUMS.names).cast(SUMS)


def sums_by(table: pa.Table, keys: Sequence[str], names: Sequence[str]) -> pa.Table:
    """The sums of the columns `names` for each combination of values of `keys`."""
    sums = table.group_by(list(keys)).aggregate([(name, "sum") for name in names])
    return sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names])


def of_ledger(ledger: pa.Table) -> Summary:
    """`of_totals` for a ledger's COLUMNS."""
    return of_totals(totals(ledger))


def arrived(counts: Summary) -> Arrived:
    """The counts of new recordings, from the `Summary` of their rows."""
    recordings, utterances = counts["recordings"], counts["utterances"]
    return {
        "recordings": recordings["in"],
        "packaged": utterances["packaged"],
        "dropped": utterances["dropped"],
        "failed": recordings["failed"],
    }


def of_totals(totals: Totals) -> Summary:
    """`recordings`, `utterances`, `seconds` (rounded to µs) and `reasons`.

    A recording has failed if a span failed and none is packaged, dropped or pending. Pending
    utterances and seconds are included if there are any.
    """
    present = live(totals.sums)
    outcome = pc.fill_null(present["outcome"], "")
    utterances: dict[str, int] = {"in": _total(present["utterances"])}
    waiting = (PENDING,) if pc.any(pc.equal(outcome, PENDING)).as_py() else ()
    for name in ("packaged", "dropped", "failed", *waiting):
        utterances[name] = _total(present["utterances"].filter(pc.equal(outcome, name)))
    seconds: dict[str, float] = {"in": _seconds(present)}
    for name in (*PRECEDENCE, *waiting):
        seconds[name] = _seconds(present.filter(pc.equal(outcome, name)))
    seconds["overlap"] = _seconds(present, "overlap_samples")
    return {
        "recordings": {
            "in": sum(count for count, _ in totals.recordings.values()),
            "failed": sum(failed for _, failed in totals.recordings.values()),
        },
        "utterances": utterances,
        "seconds": seconds,
        "reasons": reasons(totals.sums),
    }


def _recordings(ledger: pa.Table, *outcomes: str) -> set[str]:
    chosen = ledger.filter(pc.is_in(ledger["outcome"], pa.array(outcomes)))
    return set(pc.unique(chosen["recording"]).to_pylist())


def reasons(sums: pa.Table) -> dict[str, Reason]:
    """Items and seconds by `<stage>.<reason>`, of everything that was not packaged."""
    rest = sums.filter(pc.not_equal(sums["outcome"], "packaged"))
    reasons_by_code: dict[str, Reason] = {
        f"{stage}.{reason}": {"items": items, "seconds": round(seconds, 6)}
        for (stage, reason), (items, seconds) in _grouped(rest, "stage", "reason").items()
    }
    return dict(sorted(reasons_by_code.items()))


def hours_by(sums: pa.Table, *columns: str) -> list[HoursBy]:
    """Items and hours for each combination of values of these columns, sorted; `sums`: SUMS, or
    sums with at least these columns, sample_rate, samples and items."""
    grouped = sorted(_grouped(sums, *columns).items(), key=lambda entry: tuple(map(str, entry[0])))
    rows = [
        {**dict(zip(columns, key, strict=True)), "items": items, "hours": seconds / 3600}
        for key, (items, seconds) in grouped
    ]
    return cast(list[HoursBy], rows)


def _grouped(
    sums: pa.Table, *columns: str, of: str = "samples"
) -> dict[tuple[str | None, ...], tuple[int, float]]:
    """Items and seconds for each combination of values of these columns; `of`: the column of
    samples.

    Samples are summed as integers for each rate, because the last digits of a sum of floats depend
    on how the table is divided into chunks and threads.
    """
    parts = sums.group_by([*columns, "sample_rate"]).aggregate([(of, "sum"), ("items", "sum")])
    amounts: dict[tuple[str | None, ...], tuple[int, float]] = {}
    for row in sorted(parts.to_pylist(), key=lambda r: r["sample_rate"] or 0):
        key = tuple(row[c] for c in columns)
        items, seconds = amounts.get(key, (0, 0.0))
        more = (row[f"{of}_sum"] or 0) / (row["sample_rate"] or 1)
        amounts[key] = (items + row["items_sum"], seconds + more)
    return amounts


def _seconds(sums: pa.Table, of: str = "samples") -> float:
    """The seconds of all samples, rounded to µs; exact integers until the last step."""
    return round(sum((seconds for _, seconds in _grouped(sums, of=of).values()), 0.0), 6)


def _total(column: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


def errors_of(version: Path, opened: tables.Opened = tables.arrow) -> dict[str, float | None]:
    """`scored`, the number of clips of a version with a reference, and their word and character
    error rates `wer` and `cer`; None without words or characters."""
    totals = dict.fromkeys(("scored", *SCORES), 0)
    for batch in tables.row_groups(version / UTTERANCES_FILE, SCORES, opened):
        scored = batch.filter(pc.is_valid(batch["words"]))
        totals["scored"] += scored.num_rows
        for name in SCORES:
            totals[name] += pc.sum(scored[name].cast(pa.int64())).as_py() or 0
    return {
        "scored": totals["scored"],
        "wer": totals["word_errors"] / totals["words"] if totals["words"] else None,
        "cer": totals["char_errors"] / totals["chars"] if totals["chars"] else None,
    }


def seconds_of(table: pa.Table) -> Float64s:
    """Duration of each row, s."""
    samples, rates = (
        table[name].to_numpy(zero_copy_only=False) for name in ("num_samples", "sample_rate")
    )
    lengths: Float64s = samples / rates
    return lengths
