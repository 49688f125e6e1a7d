"""OUT/runs/<id>/metrics.parquet: the cost of every worker call, collected in the flow's process and
written once at the end; finds slow shards.

There is one row for each call: a stage of a shard, an output shard, a batch of the listing. Reused
results have no row. The numbers depend on the clock and the machine, so no dataset contains them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..base.json_types import JsonObject
from ..base.logs import log
from ..base.schema import METRICS, MetricRow
from ..settings.job import Cost
from ..storage import owners, tables, write_atomic

NAME = "metrics.parquet"

TIMES = 3.0  # stragglers take more than this multiple of the median
LEAST_SHARDS = 4  # of a stage, for a meaningful median
LEAST_AUDIO = 10.0  # s; calls with less are mostly fixed cost
LEAST_WALL = 5.0  # s; shorter calls are never stragglers
SHOWN = 3  # stragglers that are printed
BATCH = 4096  # rows held as Python objects


@dataclass(slots=True)
class Trace:
    """The attempts to run a call, by the flow's clock."""

    wanted: float = 0.0  # when the successful attempt was submitted, s since 1970
    attempts: int = 0
    deaths: int = 0  # attempts that ended with their worker's death or restart
    lost: float = 0.0  # time of these attempts, s
    isolated: bool = False  # whether items ran one by one


@dataclass(frozen=True, slots=True)
class Place:
    stage: str
    step: str = "run"  # probe, run, facts, gather, write or check
    shard: str = ""  # or the number of an output shard or batch
    kind: str = ""  # of worker


def place_of(stage: str, step: str, args: tuple[object, ...], kind: str) -> Place:
    """The place of a call that is not of one shard; its numbers stand for the shard."""
    return Place(stage, step, "-".join(str(n) for n in args if type(n) is int), kind)


def row(
    place: Place,
    trace: Trace,
    cost: Cost | None,
    seconds: float | None = None,
    computed: int = 0,
    reused: int = 0,
    load: float | None = None,
    error: str | None = None,
) -> MetricRow:
    """The row of a call; one that never returned has no `cost`. `seconds`: of audio; `computed`,
    `reused`: items; `load`: s for loading models."""
    started = cost.started if cost is not None else None
    return {
        "stage": place.stage,
        "step": place.step,
        "shard": place.shard,
        "kind": place.kind,
        "attempts": trace.attempts,
        "deaths": trace.deaths,
        "lost_seconds": trace.lost,
        "isolated": trace.isolated,
        "error": error,
        "audio_seconds": seconds,
        "items_computed": computed,
        "items_reused": reused,
        "load_seconds": load,
        "worker": cost.worker if cost else None,
        "host": cost.host if cost else None,
        "pid": cost.pid if cost else None,
        "wall_seconds": cost.wall if cost else None,
        "cpu_seconds": cost.cpu if cost else None,
        "rss_before": cost.rss_before if cost else None,
        "rss_peak": cost.rss_peak if cost else None,
        "gpu": cost.gpu if cost else None,
        "gpu_percent": cost.gpu_percent if cost else None,
        "gpu_memory": cost.gpu_memory if cost else None,
        "started": None if started is None else datetime.fromtimestamp(started, UTC),
        # Negative if the clocks of two machines differ by more than the call waited.
        "queue_seconds": None if started is None else max(0.0, started - trace.wanted),
    }


class Metrics:
    """Rows of `metrics.parquet`; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._full: list[pa.RecordBatch] = []  # compact: a corpus of 100,000 hours has 300,000 rows
        self._rows: list[MetricRow] = []

    @contextmanager
    def failing(self, place: Place, trace: Trace) -> Iterator[None]:
        """Inside, a call that raises an error is recorded with it."""
        try:
            yield
        except Exception as error:
            self.add(row(place, trace, None, error=type(error).__name__))
            raise

    def here(self, stage: str, step: str, cost: Cost, args: tuple[object, ...] = ()) -> None:
        """Record a call in the flow's own process."""
        self.add(row(place_of(stage, step, args, ""), Trace(cost.started, 1), cost))

    def add(self, row: MetricRow) -> None:
        with self._lock:
            self._rows.append(row)
            if len(self._rows) >= BATCH:
                self._full.append(pa.RecordBatch.from_pylist(self._rows, schema=METRICS))
                self._rows = []

    def table(self) -> pa.Table:
        with self._lock:
            last = pa.RecordBatch.from_pylist(self._rows, schema=METRICS)
            return pa.Table.from_batches([*self._full, last])

    def first(self) -> JsonObject | None:
        rows = [r for r in self.table().to_pylist() if r["worker"] and r["started"] is not None]
        return min(rows, key=lambda row: row["started"], default=None)

    def gap(self) -> float:
        """Median seconds that a worker waits between two stages; 0.0 when unknown."""
        last: dict[str, float] = {}
        gaps = []
        rows = [r for r in self.table().to_pylist() if r["step"] == "run" and r["wall_seconds"]]
        for row in sorted(rows, key=lambda row: row["started"]):
            begin = row["started"].timestamp()
            if row["worker"] in last:
                gaps.append(max(0.0, begin - last[row["worker"]]))
            last[row["worker"]] = begin + row["wall_seconds"]
        return median(gaps) if gaps else 0.0


def save(table: pa.Table, path: Path) -> None:
    write_atomic(path, tables.parquet(table, compression="zstd"))


@contextmanager
def recorded(folder: Path, measured: Metrics | None = None) -> Iterator[Metrics]:
    """Metrics (new ones, or `measured`), written to the run's folder at the end, except after kill
    -9."""
    measured = measured or Metrics()
    try:
        yield measured
    finally:
        try:
            save(measured.table(), folder / NAME)
        except OSError as error:  # must not hide the run's result, or its own error
            log.warning("no %s was written: %s", NAME, owners.told(error, folder))


def rates(table: pa.Table) -> pa.Table:
    """Calls that ran a stage of a shard, with `rate`, wall seconds per second of audio, and
    `times`, the rate as a multiple of the stage's median; null without a median.

    A call with less than LEAST_AUDIO is left out of the median and has no `times`. A stage needs
    LEAST_SHARDS longer calls for a median. The rate excludes the time of dead attempts and of
    loading models. Computed on columns, because Python objects would take 1 kB for each of a
    million calls.
    """
    names = [
        *("stage", "shard", "audio_seconds", "wall_seconds", "load_seconds"),
        *("worker", "host", "deaths", "started"),
    ]
    measured = pc.and_(pc.greater(table["audio_seconds"], 0.0), pc.is_valid(table["wall_seconds"]))
    done = table.filter(pc.and_(pc.equal(table["step"], "run"), measured)).select(names)
    audio = done["audio_seconds"].to_numpy()
    load = pc.fill_null(done["load_seconds"], 0.0).to_numpy()
    rate = np.maximum(0.0, done["wall_seconds"].to_numpy() - load) / audio
    times = np.full(len(rate), np.nan)
    for stage in pc.unique(done["stage"]):
        of_stage = pc.equal(done["stage"], stage).to_numpy() & (audio >= LEAST_AUDIO)
        if of_stage.sum() >= LEAST_SHARDS and (usual := np.median(rate[of_stage])):
            times[of_stage] = rate[of_stage] / usual
    done = done.append_column("rate", pa.array(rate))
    return done.append_column("times", pa.array(times, from_pandas=True))  # NaN: null


def stragglers(table: pa.Table) -> list[JsonObject]:
    """Calls with more than TIMES the median time per second of audio of their stage, slowest first,
    for `run --json`. Those shorter than LEAST_WALL are left out, because they delayed nothing."""
    calls = rates(table)
    is_slow = pc.and_(
        pc.greater(calls["times"], TIMES), pc.greater_equal(calls["wall_seconds"], LEAST_WALL)
    )
    slow = calls.filter(is_slow).to_pylist()
    slow.sort(key=lambda row: (-row["times"], row["stage"], row["shard"]))
    return [
        {
            "stage": row["stage"],
            "shard": row["shard"],
            "seconds_per_audio_second": round(row["rate"], 4),
            "times_median": round(row["times"], 2),
            "wall_seconds": round(row["wall_seconds"], 3),
            "worker": row["worker"],
            "host": row["host"],
            "deaths": row["deaths"],
        }
        for row in slow
    ]


def lines(stragglers: list[JsonObject]) -> list[str]:
    sentences = [
        f"Straggler: {s['stage']} of {s['shard']} took {s['times_median']:.1f} × the median, "
        f"{s['seconds_per_audio_second']:.3g} s per second of audio, {s['wall_seconds']:.0f} s on "
        f"worker {s['worker']} of {s['host']}."
        for s in stragglers[:SHOWN]
    ]
    more = len(stragglers) - SHOWN
    return [*sentences, f"{more} more are in metrics.parquet."] if more > 0 else sentences
