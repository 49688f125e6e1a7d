"""Counts and seconds of a ledger: what `run --json`, `ledger` and dataset.json say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.ledger import PRECEDENCE


def of_ledger(ledger: pa.Table) -> dict[str, Any]:
    """`recordings`, `utterances`, `seconds` and `reasons` as in the interface; s, rounded to µs."""
    live = ledger.filter(pc.not_equal(ledger["reason"], "source_removed"))
    outcome = pc.fill_null(live["outcome"], "")
    is_utterance = pc.is_valid(live["utterance"])
    whole_failed = pc.and_(pc.equal(outcome, "failed"), pc.invert(is_utterance))
    utterances: dict[str, int] = {"in": _true(is_utterance)}
    for name in ("packaged", "dropped", "failed"):
        utterances[name] = _true(pc.and_(is_utterance, pc.equal(outcome, name)))
    seconds: dict[str, float] = {"in": _sum(live["seconds"])}
    for name in PRECEDENCE:
        seconds[name] = _sum(live["seconds"].filter(pc.equal(outcome, name)))
    overlap = pc.divide(pc.cast(live["overlap_samples"], pa.float64()), live["sample_rate"])
    seconds["overlap"] = _sum(overlap)
    return {
        "recordings": {
            "in": len(pc.unique(live["recording"])),
            "failed": len(pc.unique(live["recording"].filter(whole_failed))),
        },
        "utterances": utterances,
        "seconds": seconds,
        "reasons": reasons(ledger),
    }


def reasons(ledger: pa.Table) -> dict[str, dict[str, Any]]:
    """`<stage>.<reason>`: items and seconds, for everything that was not packaged."""
    rest = ledger.filter(pc.not_equal(ledger["outcome"], "packaged"))
    grouped = rest.group_by(["stage", "reason"]).aggregate([("seconds", "sum"), ("start", "count")])
    found = {
        f"{row['stage']}.{row['reason']}": {
            "items": row["start_count"], "seconds": round(row["seconds_sum"], 6)
        }
        for row in grouped.to_pylist()
    }  # fmt: skip
    return dict(sorted(found.items()))


def hours_by(ledger: pa.Table, *columns: str) -> list[dict[str, Any]]:
    """Items and hours of every combination of columns, sorted."""
    grouped = ledger.group_by(list(columns)).aggregate([("seconds", "sum"), ("start", "count")])
    rows = [
        {
            **{c: row[c] for c in columns},
            "items": row["start_count"], "hours": row["seconds_sum"] / 3600,
        }
        for row in grouped.to_pylist()
    ]  # fmt: skip
    return sorted(rows, key=lambda r: tuple(str(r[c]) for c in columns))


def _true(mask: Any) -> int:
    return int(pc.sum(pc.cast(mask, pa.int64())).as_py() or 0)


def _sum(values: Any) -> float:
    return round(float(pc.sum(values).as_py() or 0.0), 6)
