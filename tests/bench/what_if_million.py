"""What-if over a million utterances, from the table that `package` leaves.

python -m tests.bench.what_if_million
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from uttermill.tasks.corpus import outcome_table
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.settings import FilterSettings, Plugin, TranscribeSettings
from uttermill.tasks.settings.job import Job

ROWS = 1_000_000


def table(job: Job) -> pa.Table:
    chance = np.random.default_rng(0)
    columns: dict[str, pa.Array] = {}
    for field in outcome_table.schema_of(job):
        if field.type == pa.float64():
            # Seconds and rates; fractions and probabilities as rows that are kept have them.
            most = 20 if field.name in ("seconds", "duration", "text_chars") else 1e-3
            columns[field.name] = pa.array(chance.random(ROWS) * most)
        elif field.type == pa.int64():
            columns[field.name] = pa.array(np.full(ROWS, 20))
        elif field.type == pa.bool_():
            columns[field.name] = pa.array(np.ones(ROWS, bool))
        else:
            columns[field.name] = pa.array([f"{field.name}-{n % 999}" for n in range(ROWS)])
    columns["outcome"] = pa.array(["packaged"] * ROWS)
    columns["language"] = pa.array(["en"] * ROWS)
    columns["language_probability"] = pa.array(np.ones(ROWS))
    columns["char_rate_alphabetic"] = pa.array(np.full(ROWS, 12.0))
    columns["char_rate_syllabic"] = pa.nulls(ROWS, pa.float64())
    return pa.table(columns, schema=outcome_table.schema_of(job))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        backend = TranscribeSettings(backend=Plugin(use="fake"))
        job = Job(out=Path(folder), transcribe=backend)
        outcome_table.place(job.out).mkdir(parents=True)
        pq.write_table(table(job), outcome_table.place(job.out) / "all.parquet", compression="zstd")
        outcome_table.seal(job, ["all.parquet"])
        for low in (0.1, 1.0):
            limits = {"use": "duration", "min": low, "max": 15.0}
            filters = (Plugin.model_validate(limits), *job.filter.filters[1:])
            then = Job(out=job.out, filter=FilterSettings(filters=filters), transcribe=backend)
            began, cpu = time.perf_counter(), time.process_time()
            _, kept = what_if.kept(job, then)
            wall, cpu = time.perf_counter() - began, time.process_time() - cpu
            items = f"{kept['items']} of {ROWS} utterances"
            print(f"min {low} s: {items} in {wall:.2f} s, {cpu:.2f} CPU s")


if __name__ == "__main__":
    main()
