"""The time of a run, from metrics.parquet: slow shards, and busy workers over time.

Everything is summed before it reaches the page, so 100,000 shards take as much of it as ten.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...accounting import metrics
from ...base.arrays import Bools, Float64s, Int64s
from ...base.json_types import JsonObject
from ...stages.contract import STAGES
from ...storage import tables

SLOWEST = 12  # shards in the list
BINS = 120  # steps of time
LANES = 24  # workers, the busiest ones, with a line of their own


class _Calls(NamedTuple):
    """All calls that returned; times in s since the start of the first one."""

    worker: Int64s
    stage: Int64s
    begin: Float64s
    end: Float64s
    names: list[tuple[str, str]]  # (worker, host)


def page_data(path: Path | None) -> JsonObject | None:
    """The data for the page; None without metrics that can be read, or if no call returned.

    `seconds`: from the first call's start to the last one's end; `slowest`: rows of `metrics.rates`
    of the SLOWEST shards; `stages`: their work; `busy`: the mean number of calls of a stage at once
    in each step of time, [BINS]; `lanes`: of the busiest workers; `more`: workers without a lane.
    """
    try:
        table = tables.read(path) if path else None
    except (OSError, pa.ArrowException):  # there is none, or it is damaged
        return None
    if table is None or (calls := _calls(table)) is None:
        return None
    whole = float(calls.end.max())
    step = whole / BINS
    busy = np.stack([_spread(calls, calls.stage == i, step) for i in range(len(STAGES))])
    shown = [i for i in range(len(STAGES)) if busy[i].any()]
    lanes = _lanes(calls, step)
    # By their rate relative to the stage's median, then by wall time.
    rates = metrics.rates(table)
    sorting = rates.append_column("slow", pc.fill_null(rates["times"], 0.0))
    down, up = ("slow", "wall_seconds"), ("stage", "shard")
    keys = [*((key, "descending") for key in down), *((key, "ascending") for key in up)]
    slowest = rates.take(pc.sort_indices(sorting, keys)[:SLOWEST]).to_pylist()
    return {
        "seconds": whole,
        "slowest": slowest,
        "stages": [_stage(table, STAGES[i], whole) for i in shown],
        "busy": [
            {"stage": STAGES[i], "mean": [round(float(x), 3) for x in busy[i]]} for i in shown
        ],
        "lanes": lanes[:LANES],
        "more": max(0, len(lanes) - LANES),
    }


def _calls(table: pa.Table) -> _Calls | None:
    returned = pc.and_(pc.is_valid(table["started"]), pc.is_valid(table["wall_seconds"]))
    returned = pc.and_(returned, pc.is_in(table["stage"], pa.array(STAGES)))
    table = table.filter(returned)
    if not table.num_rows:
        return None
    begin = pc.cast(table["started"], pa.int64()).to_numpy() / 1e6
    begin = begin - begin.min()
    end = begin + np.maximum(table["wall_seconds"].to_numpy(), 1e-6)
    pairs = list(zip(table["worker"].to_pylist(), table["host"].to_pylist(), strict=True))
    names = sorted(set(pairs))
    place = {name: i for i, name in enumerate(names)}
    return _Calls(
        np.array([place[pair] for pair in pairs]),
        np.array([STAGES.index(stage) for stage in table["stage"].to_pylist()]),
        begin,
        end,
        names,
    )


def _spread(calls: _Calls, chosen: Bools, step: float) -> Float64s:
    """The mean number of these calls running at once in each step of time: the integral of begun
    calls minus that of ended calls, from one edge to the next; float64 [BINS]."""
    edges = np.arange(BINS + 1) * step

    def integral(times: Float64s) -> Float64s:
        times = np.sort(times)
        before = np.searchsorted(times, edges)
        sums = np.concatenate([[0.0], np.cumsum(times)])
        ramp: Float64s = before * edges - sums[before]
        return ramp

    area = integral(calls.begin[chosen]) - integral(calls.end[chosen])
    running: Float64s = np.maximum(np.diff(area) / step, 0.0)
    return np.where(running < 1e-9, 0.0, running)


def _lanes(calls: _Calls, step: float) -> list[JsonObject]:
    """The lanes of all workers, the busiest first: the `share` of busy time, and `spans` (first
    step, the one after the last, stage) with the main stage of each step."""
    lanes: list[JsonObject] = []
    whole = float(calls.end.max())
    for number, (worker, host) in enumerate(calls.names):
        mine = calls.worker == number
        rows = np.stack(
            [_spread(calls, mine & (calls.stage == i), step) for i in range(len(STAGES))]
        )
        stage = np.where(rows.sum(axis=0) > 0.05, rows.argmax(axis=0), -1)
        starts = np.flatnonzero(np.diff(stage, prepend=-2)).tolist()
        ends = [*starts[1:], BINS]
        steps = zip(starts, ends, strict=True)
        spans = [(a, b, STAGES[stage[a]]) for a, b in steps if stage[a] >= 0]
        share = float((calls.end - calls.begin)[mine].sum()) / whole
        about = {"worker": worker or "the run itself", "host": host, "calls": int(mine.sum())}
        lanes.append({**about, "share": share, "spans": spans})
    return sorted(lanes, key=lambda lane: (-lane["share"], lane["worker"]))


def _stage(table: pa.Table, stage: str, whole: float) -> JsonObject:
    """The work of a stage: its `calls`, and over all of them the sums of `wall` and `cpu` in s, the
    mean number at a time (`busy`), the largest `memory` in bytes, the median `wait` in s, and
    `gpu`, the mean percentage."""
    rows = table.filter(pc.equal(table["stage"], stage))

    def total(name: str) -> float:
        return float(pc.sum(rows[name]).as_py() or 0.0)

    wall = total("wall_seconds")
    waits = rows["queue_seconds"].drop_null()
    return {
        "stage": stage,
        "calls": rows.num_rows,
        "wall": wall,
        "cpu": total("cpu_seconds"),
        "busy": wall / whole,
        "memory": pc.max(rows["rss_peak"]).as_py() or 0,
        "wait": float(pc.quantile(waits, 0.5)[0].as_py()) if len(waits) else 0.0,
        "gpu": pc.mean(rows["gpu_percent"]).as_py(),
    }
