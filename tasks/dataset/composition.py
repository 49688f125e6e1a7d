"""A version's hours, durations and speakers, computed over columns, never row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.accounting import summary

#: Lower edges of the histogram of durations, s; a bin ends where the next begins.
EDGES = (0.0, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0)


def of_utterances(kept: pa.Table) -> dict[str, Any]:
    """`splits`, `packaged` (utterances and hours of every split, dataset and language),
    `durations` (s) and `speakers`, of a version's `utterances.parquet`."""
    kept = kept.append_column("samples", kept["num_samples"])  # as the ledger calls them
    splits = sorted(pc.unique(kept["split"]).to_pylist())
    parts = {name: kept.filter(pc.equal(kept["split"], name)) for name in splits}
    return {
        "splits": {name: _split(part) for name, part in parts.items()},
        "packaged": [
            {**{k: v for k, v in row.items() if k != "items"}, "utterances": row["items"]}
            for row in summary.hours_by(kept, "split", "dataset", "language")
        ],
        "durations": durations(kept),
        "speakers": speakers(kept),
    }


def _split(part: pa.Table) -> dict[str, Any]:
    return {
        "utterances": part.num_rows,
        "hours": _hours(part),
        "durations": durations(part),
        "speakers": speakers(part),
    }


def durations(kept: pa.Table) -> dict[str, Any]:
    """Minimum, mean, median, maximum and a histogram; s, rounded to µs. None without utterances."""
    seconds = summary.seconds_of(kept)
    if not len(seconds):
        return {"min": None, "mean": None, "median": None, "max": None, "histogram": []}
    counts = np.diff(np.searchsorted(np.sort(seconds), [*EDGES, np.inf]))
    found = {
        "min": seconds.min(),
        "median": np.median(seconds),
        "max": seconds.max(),
        # From exact integers: a sum of floats depends on its order.
        "mean": _hours(kept) * 3600 / len(seconds),
    }
    return {
        **{name: round(float(value), 6) for name, value in found.items()},
        "histogram": [
            {"from": low, "to": high, "utterances": int(count)}
            for low, high, count in zip(EDGES, [*EDGES[1:], None], counts, strict=True)
        ],
    }


def speakers(kept: pa.Table) -> dict[str, Any]:
    """Number of speakers that the sources name, and hours of known and unknown ones. Names belong
    to their dataset: two datasets never share a speaker."""
    known = kept.filter(pc.is_valid(kept["speaker"]))
    return {
        "count": known.group_by(["dataset", "speaker"]).aggregate([]).num_rows,
        "hours_known": _hours(known),
        "hours_unknown": _hours(kept.filter(pc.is_null(kept["speaker"]))),
    }


def _hours(kept: pa.Table) -> float:
    return sum((float(row["hours"]) for row in summary.hours_by(kept)), 0.0)
