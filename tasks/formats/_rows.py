"""The published rows, piece by piece, without holding them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tasks.checkpoints.manifest import Row
from tasks.formats import Piece


def stream(
    pieces: Sequence[Piece], home: Path, columns: Sequence[str]
) -> Iterator[tuple[Piece, list[Row]]]:
    """Each piece of one format with its rows, in order, from `home/utterances.parquet`."""
    with pq.ParquetFile(home / "utterances.parquet") as file:
        rows = (
            row
            for batch in file.iter_batches(batch_size=4096, columns=list(columns))
            for row in batch.to_pylist()
        )
        for piece in pieces:
            yield piece, [next(rows) for _ in range(piece.clips)]
