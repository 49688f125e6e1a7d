"""Columns of planned rows that `utterances.parquet` lacks, columns that planned rows lack, and
optional columns."""

from __future__ import annotations

import pyarrow as pa

from .. import plugins
from ..base.schema import CLIP_TURN, LABELLED_TURN, LABELS
from ..settings.job import Job
from ..shard_store import hidden

#: Where a planned row's PCM is stored; not published.
SOURCE_COLUMNS = {"work_shard": pa.string(), "blob": pa.string(), "blob_offset": pa.int64()}
#: The same for the enhanced clip, when both are packaged.
BESIDE_COLUMNS = {"beside_blob": pa.string(), "beside_offset": pa.int64()}
#: If words are muted, the hashes of the stored PCM; `sha256` is that of the published PCM.
MUTED_COLUMNS = {"stored_sha256": pa.string(), "beside_sha256": pa.string()}
#: The columns needed to read and check a row's PCM.
PCM_COLUMNS = (
    *("sha256", "sha256_enhanced", "num_samples", "muted"),
    *(*SOURCE_COLUMNS, *BESIDE_COLUMNS, *MUTED_COLUMNS),
)
LAYOUT_COLUMNS = ("shard", "generation", "offset")  # filled in by the layout
#: The source's labels, in versions with a source that keeps labels.
LABELS_COLUMN = pa.field(
    "labels", LABELS, metadata={"doc": "what the source's `labels` keeps; null: none", "unit": ""}
)

#: Who speaks when, in versions whose segmenter makes clips of several turns.
TURNS_COLUMN = pa.field(
    "turns",
    pa.list_(CLIP_TURN),
    metadata={
        "doc": "who speaks when; `number`: of the person in its recording, as in speakers.parquet; "
        "text and words as they were heard",
        "unit": "s",
    },
)


def turns_column(job: Job) -> pa.Field:
    """TURNS_COLUMN, with the labels of each turn if a source keeps labels."""
    return TURNS_COLUMN.with_type(pa.list_(LABELLED_TURN)) if labels_kept(job) else TURNS_COLUMN


def sources_of(job: Job) -> dict[str, pa.DataType]:
    """The columns of a row that say where its PCM is stored, and their types; not published."""
    beside = BESIDE_COLUMNS if job.package.audio == "both" else {}
    return SOURCE_COLUMNS | beside | (MUTED_COLUMNS if hidden.mutes(job) else {})


def turns_kept(job: Job) -> bool:
    """Whether the segmenter makes clips of several turns."""
    return plugins.SEGMENTERS.load(job.filter.segmenter.use).HOLDS_TURNS


def labels_kept(job: Job) -> list[str]:
    """Names of the labels that the sources keep, in their order."""
    kept = (dataset.settings.label_names for dataset in plugins.datasets(job.sources))
    return [*dict.fromkeys(name for names in kept for name in names)]
