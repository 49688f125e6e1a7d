"""Columns that a planned row has beside those of `utterances.parquet`, or does not have yet."""

from __future__ import annotations

import pyarrow as pa

from tasks.settings.job import Job
from tasks.shard_store import hidden

#: Where a planned row's PCM is stored; not published.
SOURCE_COLUMNS = {"work_shard": pa.string(), "blob": pa.string(), "blob_offset": pa.int64()}
#: The same for the enhanced clip, when both are packaged.
BESIDE_COLUMNS = {"beside_blob": pa.string(), "beside_offset": pa.int64()}
#: Where words are muted, the hashes of what is stored.
MUTED_COLUMNS = {"stored_sha256": pa.string(), "beside_sha256": pa.string()}
#: The columns that reading and checking a row's PCM needs.
PCM_COLUMNS = (
    *("sha256", "sha256_enhanced", "num_samples", "muted"),
    *(*SOURCE_COLUMNS, *BESIDE_COLUMNS, *MUTED_COLUMNS),
)
LAYOUT_COLUMNS = ("shard", "generation", "offset")  # that the layout fills in


def sources_of(job: Job) -> dict[str, pa.DataType]:
    """The columns of a row that say where its PCM is stored, and their types; not published."""
    beside = BESIDE_COLUMNS if job.package.audio == "both" else {}
    return SOURCE_COLUMNS | beside | (MUTED_COLUMNS if hidden.mutes(job) else {})
