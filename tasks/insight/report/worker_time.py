"""The time of a run, from metrics.parquet: slow shards, and busy workers over time.

Everything is summed before it reaches the page, so 100,000 shards take as much of it as ten.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...accounting import metrics
from ...base.arrays import Bools, Float64s
from ...base.json_types import JsonObject
from ...stages.contract import STAGES
from ...storage import tables

SLOWEST = 12  # shards in the list
BINS = 120  # steps of time
LANES = 24  # workers, the busiest ones, with a line of their own


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
    if table is None:
        return None
    returned = pc.and_(pc.is_valid(table["started"]), pc.is_valid(table["wall_seconds"]))
    calls = table.filter(pc.and_(returned, pc.is_in(table["stage"], pa.array(STAGES))))
    if not calls.num_rows:
        return None
    begin = pc.cast(calls["started"], pa.int64()).to_numpy() / 1e6
    begin = begin - begin.min()  # s since the start of the first one
    end = begin + np.maximum(calls["wall_seconds"].to_numpy(), 1e-6)
    whole = float(end.max())
    stage = pc.index_in(calls["stage"], pa.array(STAGES)).to_numpy()

    def busy(chosen: Bools) -> Float64s:
        """[stages, BINS]"""
        masks = [chosen & (stage == number) for number in range(len(STAGES))]
        return np.stack([_spread(begin[mask], end[mask], whole / BINS) for mask in masks])

    of_stages = busy(np.ones(len(stage), bool))
    means = {
        name: [round(float(x), 3) for x in row]
        for name, row in zip(STAGES, of_stages, strict=True)
        if row.any()
    }
    names = list(zip(calls["worker"].to_pylist(), calls["host"].to_pylist(), strict=True))
    place = {name: number for number, name in enumerate(sorted(set(names)))}
    worker, lanes = np.array([place[name] for name in names]), list[JsonObject]()
    for (name, host), number in place.items():
        mine = worker == number
        about = {"worker": name or "the run itself", "host": host, "calls": int(mine.sum())}
        share = float((end - begin)[mine].sum()) / whole
        lanes.append({**about, "share": share, "spans": _spans(busy(mine))})
    lanes.sort(key=lambda lane: (-lane["share"], lane["worker"]))
    # By their rate relative to the stage's median, then by wall time.
    rates = metrics.rates(table)
    sorting = rates.append_column("slow", pc.fill_null(rates["times"], 0.0))
    down, up = ("slow", "wall_seconds"), ("stage", "shard")
    keys = [*((key, "descending") for key in down), *((key, "ascending") for key in up)]
    return {
        "seconds": whole,
        "slowest": rates.take(pc.sort_indices(sorting, keys)[:SLOWEST]).to_pylist(),
        "stages": [_work(table, name, whole) for name in means],
        "busy": [{"stage": name, "mean": mean} for name, mean in means.items()],
        "lanes": lanes[:LANES],
        "more": max(0, len(lanes) - LANES),
    }


def _spread(begin: Float64s, end: Float64s, step: float) -> Float64s:
    """The mean number of calls running at once in each step of time: the integral of begun calls
    minus that of ended calls, from one edge to the next; float64 [BINS]."""
    edges = np.arange(BINS + 1) * step

    def integral(times: Float64s) -> Float64s:
        times = np.sort(times)
        before = np.searchsorted(times, edges)
        sums = np.concatenate([[0.0], np.cumsum(times)])
        ramp: Float64s = before * edges - sums[before]
        return ramp

    running: Float64s = np.maximum(np.diff(integral(begin) - integral(end)) / step, 0.0)
    return np.where(running < 1e-9, 0.0, running)


def _spans(busy: Float64s) -> list[tuple[int, int, str]]:
    """(first step, the one after the last, stage) with the main stage of each step of a worker;
    `busy`: [stages, BINS]."""
    stage = np.where(busy.sum(axis=0) > 0.05, busy.argmax(axis=0), -1)
    starts = np.flatnonzero(np.diff(stage, prepend=-2)).tolist()
    steps = zip(starts, [*starts[1:], BINS], strict=True)
    return [(a, b, STAGES[stage[a]]) for a, b in steps if stage[a] >= 0]


def _work(table: pa.Table, stage: str, whole: float) -> JsonObject:
    """The work of a stage: its `calls`, and over all of them the sums of `wall` and `cpu` in s, the
    mean number at a time (`busy`), the largest `memory` in bytes, the median `wait` in s, and
    `gpu`, the mean percentage."""
    rows = table.filter(pc.equal(table["stage"], stage))
    wall, cpu = (pc.sum(rows[name]).as_py() or 0.0 for name in ("wall_seconds", "cpu_seconds"))
    return {
        "stage": stage,
        "calls": rows.num_rows,
        "wall": wall,
        "cpu": cpu,
        "busy": wall / whole,
        "memory": pc.max(rows["rss_peak"]).as_py() or 0,
        "wait": pc.quantile(rows["queue_seconds"], 0.5)[0].as_py() or 0.0,
        "gpu": pc.mean(rows["gpu_percent"]).as_py(),
    }
