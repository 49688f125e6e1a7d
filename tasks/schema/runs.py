"""The table of a run's metrics."""

import pyarrow as pa

from tasks.schema.columns import F64, I64, S, column

#: One row for each call of a run to a worker: a stage of a shard, a piece of the package, a batch
#: of the listing. In OUT/runs/<id>/metrics.parquet, never in a dataset.
METRICS = pa.schema(
    [
        column("stage", S, "shard, filter, resample, transcribe or package"),
        column("step", S, "run; probe of the listing; the steps of the package"),
        column("shard", S, "shard; or the numbers of a piece or of a batch"),
        column("kind", S, "kind of worker asked for: CPU or GPU"),
        column("worker", S, "name of the worker; empty: the flow's own process"),
        column("host", S, "its machine"),
        column("pid", I64, "its process"),
        column("started", pa.timestamp("us", tz="UTC"), "begin there, by that machine's clock"),
        column("queue_seconds", F64, "from when it was asked for until it began", "s"),
        column("wall_seconds", F64, "time there; null: it never came back", "s"),
        column("cpu_seconds", F64, "CPU time there: all threads, and child processes", "s"),
        column("load_seconds", F64, "part of the wall time that a model took to load", "s"),
        column("audio_seconds", F64, "audio of what was computed; null for the package", "s"),
        column("items_computed", I64, "items that were computed"),
        column("items_reused", I64, "items that were there"),
        column("rss_before", I64, "resident memory of the process when it began", "bytes"),
        column("rss_peak", I64, "the most resident memory meanwhile", "bytes"),
        column("attempts", pa.int32(), "how often it was handed out"),
        column("deaths", pa.int32(), "attempts that ended with their worker"),
        column("lost_seconds", F64, "what those took", "s"),
        column("isolated", pa.bool_(), "its items ran one by one"),
        column("gpu", S, "GPU that the process saw first; null: none"),
        column("gpu_percent", F64, "mean share of time in which the GPU was busy", "%"),
        column("gpu_memory", I64, "the most memory in use on the GPU, by anyone", "bytes"),
        column("error", S, "what it raised, if it did"),
    ]
)
