"""The published rows, shard by shard, without loading all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.checkpoints.manifest import Row
from tasks.formats import OutputShard
from tasks.schema import UTTERANCES_FILE
from tasks.storage import tables


def stream(
    shards: Sequence[OutputShard], home: Path, columns: Sequence[str]
) -> Iterator[tuple[OutputShard, list[Row]]]:
    """Each shard of one format with its rows, in order, from `home/utterances.parquet`."""
    rows = (
        row
        for part in tables.row_groups(home / UTTERANCES_FILE, columns)
        for batch in part.to_batches(max_chunksize=4096)
        for row in batch.to_pylist()
    )
    for shard in shards:
        yield shard, [next(rows) for _ in range(shard.clips)]
