"""Counts and seconds of a ledger, for `run --json`, `ledger` and dataset.json."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.accounting.ledger import PRECEDENCE


def of_ledger(ledger: pa.Table) -> dict[str, Any]:
    """`recordings`, `utterances`, `seconds` (rounded to µs) and `reasons`.

    A recording has failed if some of it failed and none of it was packaged or dropped.
    """
    live = ledger.filter(pc.not_equal(ledger["reason"], "source_removed"))
    outcome = pc.fill_null(live["outcome"], "")
    is_utterance = pc.is_valid(live["utterance"])
    utterances: dict[str, int] = {"in": _true(is_utterance)}
    for name in ("packaged", "dropped", "failed"):
        utterances[name] = _true(pc.and_(is_utterance, pc.equal(outcome, name)))
    seconds: dict[str, float] = {"in": _seconds(live)}
    for name in PRECEDENCE:
        seconds[name] = _seconds(live.filter(pc.equal(outcome, name)))
    seconds["overlap"] = _seconds(live, "overlap_samples")
    return {
        "recordings": {
            "in": len(pc.unique(live["recording"])),
            "failed": len(_recordings(live, "failed") - _recordings(live, "packaged", "dropped")),
        },
        "utterances": utterances,
        "seconds": seconds,
        "reasons": reasons(ledger),
    }


def _recordings(ledger: pa.Table, *outcomes: str) -> set[str]:
    """Recordings with a span that has one of these outcomes."""
    chosen = ledger.filter(pc.is_in(ledger["outcome"], pa.array(outcomes)))
    return set(pc.unique(chosen["recording"]).to_pylist())


def reasons(ledger: pa.Table) -> dict[str, dict[str, Any]]:
    """`<stage>.<reason>`: items and seconds, for everything that was not packaged."""
    rest = ledger.filter(pc.not_equal(ledger["outcome"], "packaged"))
    found = {
        f"{stage}.{reason}": {"items": items, "seconds": round(seconds, 6)}
        for (stage, reason), (items, seconds) in _grouped(rest, "stage", "reason").items()
    }
    return dict(sorted(found.items()))


def hours_by(ledger: pa.Table, *columns: str) -> list[dict[str, Any]]:
    """Items and hours of every combination of columns, sorted."""
    rows = [
        {**dict(zip(columns, key, strict=True)), "items": items, "hours": seconds / 3600}
        for key, (items, seconds) in _grouped(ledger, *columns).items()
    ]
    return sorted(rows, key=lambda r: tuple(str(r[c]) for c in columns))


def _grouped(ledger: pa.Table, *columns: str) -> dict[tuple[Any, ...], tuple[int, float]]:
    """Rows and seconds of every combination of columns.

    Samples are summed as integers, rate by rate: the last digits of a sum of floats depend on how
    the table is divided into chunks and threads.
    """
    parts = ledger.group_by([*columns, "sample_rate"]).aggregate(
        [("samples", "sum"), ("recording", "count")]
    )
    found: dict[tuple[Any, ...], tuple[int, float]] = {}
    for row in sorted(parts.to_pylist(), key=lambda r: r["sample_rate"] or 0):
        key = tuple(row[c] for c in columns)
        items, seconds = found.get(key, (0, 0.0))
        more = (row["samples_sum"] or 0) / (row["sample_rate"] or 1)
        found[key] = (items + row["recording_count"], seconds + more)
    return found


def _seconds(ledger: pa.Table, column: str = "samples") -> float:
    """Samples of all rates in seconds; exact integers until the last step."""
    parts = ledger.group_by("sample_rate").aggregate([(column, "sum")]).to_pylist()
    parts.sort(key=lambda r: r["sample_rate"] or 0)
    seconds = [(r[f"{column}_sum"] or 0) / (r["sample_rate"] or 1) for r in parts]
    return round(sum(seconds, 0.0), 6)


def _true(mask: pa.Array | pa.ChunkedArray) -> int:
    return int(pc.sum(pc.cast(mask, pa.int64())).as_py() or 0)


def errors(utterances: pa.Table) -> dict[str, Any]:
    """Word and character error rates over all packaged utterances with a reference."""
    scored = utterances.filter(pc.is_valid(utterances["words"]))
    totals = {
        name: int(pc.sum(scored[name]).as_py() or 0)
        for name in ("words", "word_errors", "chars", "char_errors")
    }
    return {
        "scored": scored.num_rows,
        "wer": totals["word_errors"] / totals["words"] if totals["words"] else None,
        "cer": totals["char_errors"] / totals["chars"] if totals["chars"] else None,
    }


def seconds_of(table: pa.Table) -> NDArray[np.float64]:
    """Duration of each row, s."""
    samples = table["num_samples"].to_numpy(zero_copy_only=False)
    rates = table["sample_rate"].to_numpy(zero_copy_only=False)
    lengths: NDArray[np.float64] = samples / rates
    return lengths
