"""metrics.parquet of a run: the cost of each call, collected in the flow's process and written once
at the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

from ...tasks.accounting import metrics
from ...tasks.accounting.metrics import Place, Trace
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log
from ...tasks.base.schema import METRICS, MetricRow
from ...tasks.settings.job import Cost
from ...tasks.stages.call import Call
from ...tasks.storage import owners

SHOWN = 3  # stragglers that are printed
BATCH = 4096  # rows held as Python objects


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
            self.add(metrics.row(place, trace, None, error=type(error).__name__))
            raise

    def here(self, call: Call[Any], cost: Cost, args: tuple[object, ...] = ()) -> None:
        self.add(metrics.row(place_of(call, args, ""), Trace(cost.started, 1), cost))

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

    def stragglers(self) -> list[JsonObject]:
        return metrics.stragglers(self.table())


@contextmanager
def recorded(folder: Path, measured: Metrics | None = None) -> Iterator[Metrics]:
    """Metrics (new ones, or `measured`), written to the run's folder at the end, except after kill
    -9."""
    measured = measured or Metrics()
    try:
        yield measured
    finally:
        try:
            metrics.save(measured.table(), folder / metrics.NAME)
        except OSError as error:  # must not hide the run's result, or its own error
            log.warning("no %s was written: %s", metrics.NAME, owners.told(error, folder))


def lines(stragglers: list[JsonObject]) -> list[str]:
    sentences = [
        f"Straggler: {s['stage']} of {s['shard']} took {s['times_median']:.1f} × the median, "
        f"{s['seconds_per_audio_second']:.3g} s per second of audio, {s['wall_seconds']:.0f} s on "
        f"worker {s['worker']} of {s['host']}."
        for s in stragglers[:SHOWN]
    ]
    more = len(stragglers) - SHOWN
    return [*sentences, f"{more} more are in metrics.parquet."] if more > 0 else sentences


def place_of(call: Call[Any], args: tuple[object, ...], kind: str) -> Place:
    """The place of a call that is not a stage; its numbers stand for the shard."""
    return Place(call.stage, call.step, "-".join(str(n) for n in args if type(n) is int), kind)
