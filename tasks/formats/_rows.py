"""The published rows, shard by shard, without loading all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tasks.checkpoints.manifest import Row
from tasks.formats import OutputShard


def stream(
    shards: Sequence[OutputShard], home: Path, columns: Sequence[str]
) -> Iterator[tuple[OutputShard, list[Row]]]:
    """Each shard of one format with its rows, in order, from `home/utterances.parquet`."""
    with pq.ParquetFile(home / "utterances.parquet") as file:
        rows = (
            row
            for batch in file.iter_batches(batch_size=4096, columns=list(columns))
            for row in batch.to_pylist()
        )
        for shard in shards:
            yield shard, [next(rows) for _ in range(shard.clips)]
