"""A version's hours, durations and speakers, computed over columns, never row by row."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.accounting import summary
from tasks.base.arrays import Float64s
from tasks.base.json_types import Composition, JsonObject
from tasks.recording import ids

#: Lower edges of the histogram of durations, s; a bin ends where the next begins.
EDGES = (0.0, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0)
LARGEST = 20  # speakers that are named
COLUMNS = ("dataset", "split", "language", "speaker", "num_samples", "sample_rate")
KEYS = ("dataset", "split", "language", "speaker", "sample_rate")
SUMMED = ("samples", "items")


def of_utterances(parts: Iterable[pa.Table]) -> Composition:
    """`splits`, `packaged` (utterances and hours of every split, dataset and language),
    `durations` (s) and `speakers`, of a version's utterances (COLUMNS) in any portions."""
    lengths: dict[str, list[Float64s]] = {}
    sums = []
    for part in parts:
        seconds = summary.seconds_of(part)
        names = part["split"].to_numpy(zero_copy_only=False)
        for name in pc.unique(part["split"]).to_pylist():
            lengths.setdefault(name, []).append(seconds[names == name])
        counted = part.append_column("items", pa.array(np.ones(len(part), np.int64)))
        counted = counted.rename_columns({"num_samples": "samples"})
        sums.append(summary.sums_by(counted, KEYS, SUMMED))
    kept = summary.sums_by(pa.concat_tables(sums), KEYS, SUMMED)
    splits = {name: np.concatenate(lengths[name]) for name in sorted(lengths)}
    every = np.concatenate([np.empty(0), *splits.values()])
    of = {name: kept.filter(pc.equal(kept["split"], name)) for name in splits}
    return {
        "splits": {
            name: {
                "utterances": len(splits[name]),
                "hours": _hours(part),
                "durations": durations(splits[name], _hours(part)),
                "speakers": speakers(part),
            }
            for name, part in of.items()
        },
        "packaged": [
            {**{k: v for k, v in row.items() if k != "items"}, "utterances": row["items"]}
            for row in summary.hours_by(kept, "split", "dataset", "language")
        ],
        "durations": durations(every, _hours(kept)),
        "speakers": {**speakers(kept), **({"largest": most} if (most := largest(kept)) else {})},
    }


def durations(seconds: Float64s, hours: float) -> JsonObject:
    """Minimum, mean, median, maximum and a histogram; s, rounded to µs. None without utterances.
    `hours`: all of them, from exact integers; a sum of floats depends on its order."""
    if not len(seconds):
        return {"min": None, "mean": None, "median": None, "max": None, "histogram": []}
    counts = np.diff(np.searchsorted(np.sort(seconds), [*EDGES, np.inf]))
    statistics = {
        "min": seconds.min(),
        "median": np.median(seconds),
        "max": seconds.max(),
        "mean": hours * 3600 / len(seconds),
    }
    return {
        **{name: round(float(value), 6) for name, value in statistics.items()},
        "histogram": [
            {"from": low, "to": high, "utterances": int(count)}
            for low, high, count in zip(EDGES, [*EDGES[1:], None], counts, strict=True)
        ],
    }


def speakers(kept: pa.Table) -> JsonObject:
    """Number of speakers, and hours of known and unknown ones. Names that sources state belong to
    their dataset; those over all recordings (`spk_…`) do not."""
    return {
        "count": _known(kept).group_by(["dataset", "speaker"]).aggregate([]).num_rows,
        "hours_known": _hours(kept.filter(pc.is_valid(kept["speaker"]))),
        "hours_unknown": _hours(kept.filter(pc.is_null(kept["speaker"]))),
    }


def largest(kept: pa.Table) -> list[JsonObject]:
    """The speakers with the most hours, the first of them first."""
    rows = summary.hours_by(_known(kept), "dataset", "speaker")
    rows.sort(key=lambda row: (-row["hours"], row["speaker"], row["dataset"] or ""))
    return [
        {**{k: row[k] for k in ("speaker", "dataset", "hours")}, "utterances": row["items"]}
        for row in rows[:LARGEST]
    ]


def _known(kept: pa.Table) -> pa.Table:
    """Rows of known speakers; those over all recordings have no dataset."""
    rows = kept.filter(pc.is_valid(kept["speaker"]))
    anywhere = pc.match_substring_regex(rows["speaker"], f"^{ids.OVER_ALL.pattern}$")
    nobody = pa.scalar(None, pa.string())
    dataset = pc.if_else(anywhere, nobody, rows["dataset"])
    return rows.set_column(rows.column_names.index("dataset"), "dataset", dataset)


def _hours(kept: pa.Table) -> float:
    return sum((float(row["hours"]) for row in summary.hours_by(kept)), 0.0)
