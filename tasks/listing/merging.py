"""Merges a shard's rows with a new listing of its sources."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.checkpoints.manifest import Row
from tasks.listing import fingerprints
from tasks.listing.row_files import PLACE

PROBED = ("content", "header_rate", "header_channels", "header_seconds", "format")


def merged(old: list[Row], rows: pa.Table | None, gone: NDArray[np.bytes_]) -> list[Row]:
    """The rows of a shard in their order, updated; new recordings come last."""
    at = {row["recording"]: index for index, row in enumerate(old)}
    if len(gone):
        left = fingerprints.index_in(gone, fingerprints.keys(at)) >= 0
        for row, is_gone in zip(old, left, strict=True):
            row["present"] = row["present"] and not is_gone
    for row in rows.to_pylist() if rows is not None else ():
        probed = row.pop("probed")
        del row[PLACE]
        index = at.get(row["recording"])
        if index is None:
            old.append(row)
        elif probed:
            old[index] = {**row, "present": row["error_code"] != "changed"}
        else:
            old[index] = _told(old[index], row)
    return old


def _told(old: Row, row: Row) -> Row:
    """What the source now says about unchanged bytes: texts, segments."""
    merged = {**row, **{name: old[name] for name in PROBED}}
    if old["error_code"] and not row["error_code"] and old["content"] is None:
        merged["error_code"], merged["error_detail"] = old["error_code"], old["error_detail"]
    return merged
