"""Splits, weights, tars and their order for a million clips: time and largest memory.

python -m tests.bench.plan_million
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.packaging import layout, splits, weights
from tasks.schema import SPLITS
from tasks.settings import PackageSettings

ROWS = 1_000_000
SETTINGS = PackageSettings.model_validate(
    {
        "splits": {"dev": 0.02, "test": {"hours": 20}}, "weights": {"b": 0.9}, "readers": 16,
        "tar_hours": 0.25,
    }
)  # fmt: skip


def table(rows: int) -> pa.Table:
    """Half of the clips have one of some thousand speakers; recordings have about five clips."""
    chance = np.random.default_rng(0)
    who = chance.zipf(1.3, rows) % 5000
    recording = np.sort(chance.integers(0, rows // 5, rows))
    dataset = np.where(recording % 3 == 0, "a", "b")
    speaker = [f"s{w}" if r % 2 and r % 97 else None for w, r in zip(who[recording], recording)]  # noqa: B905
    digest = chance.integers(0, 2**63, rows)
    digest[: rows // 1000] = digest[-(rows // 1000) :]  # copies
    return pa.table(
        {
            "id": [f"{d}-recording-{r:016x}-{n:08d}" for n, (d, r) in enumerate(zip(dataset, recording))],  # noqa: B905, E501
            "dataset": dataset.tolist(),
            "recording": [f"{d}/folder/r{r:07d}.wav" for d, r in zip(dataset, recording)],  # noqa: B905
            "source_id": pa.nulls(rows, pa.string()),
            "speaker": pa.array(speaker, pa.string()),
            "sha256": [f"{d:064x}" for d in digest],
            "num_samples": pa.array(chance.integers(8000, 480_000, rows)),
            "sample_rate": pa.array(np.full(rows, 16000, np.int32)),
        }
    )  # fmt: skip


def timed(name: str, work: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    cpu = time.process_time()
    found = work()
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"{name:<24} {wall:6.2f} s, {cpu:6.2f} s of CPU")
    return found


def with_splits(rows: pa.Table, sides: splits.SplitAssignment) -> pa.Table:
    kept = sides.split >= 0
    column = pa.array(sides.names).take(pa.array(sides.split[kept]))
    return rows.filter(pa.array(kept)).append_column("split", column)


def main() -> None:
    rows = table(ROWS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    began, cpu = time.perf_counter(), time.process_time()
    draw, weight = timed("weights", lambda: weights.draws(SETTINGS, rows))
    rows = rows.filter(pa.array(~(draw >= weight)))
    nothing = SPLITS.empty_table()
    sides = timed("splits, all new", lambda: splits.assign(SETTINGS, rows, nothing))
    again = timed("splits, all known", lambda: splits.assign(SETTINGS, rows, sides.table))
    assert (again.split == sides.split).all()
    planned = with_splits(rows, sides)
    groups = timed("tars", lambda: layout.lay_out(planned, SETTINGS, 1))
    order = np.concatenate([group.rows for group in groups])
    timed("order", lambda: planned.take(order))
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{ROWS} rows in {wall:.1f} s, {cpu:.1f} s of CPU")
    print(f"peak {peak:.2f} GiB, of which the table {before:.2f}")
    print({name: int((sides.split == n).sum()) for n, name in enumerate(sides.names)}, sides.notes)


if __name__ == "__main__":
    main()
