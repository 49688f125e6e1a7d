"""Parts of a version: runs of output shards with their rows, planned by one worker each.

`utterances.parquet` is one file, or, beyond `package.table_rows` clips, a folder of parts of that
name: `<split>-<number>.parquet` holds the rows of `groups_of_part` tars of a split, in their order.
So parts that did not change are linked, as tars are. The rows of a part may come from any group of
work shards. Each group is read once, and the rows of TOGETHER groups go to one file with a record
batch for each part, so that there are not as many files as groups times parts.

    <scratch>/chosen.arrow         the clips of the version (`whole.py`)
    <scratch>/wanted/<n>.arrow     rows that parts need of the n-th TOGETHER decided groups
    <scratch>/rows/<n>.arrow       these rows: a record batch for each part
    <scratch>/parts/<p>.json       groups of part p
    <scratch>/parts/<p>.arrow      digests of its clips, what formats derive, and who speaks
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks import plugins
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.packaging import format_shards, plan, shard_decisions, whole
from tasks.packaging.decided import ShardGroup
from tasks.packaging.format_shards import PreviousVersion
from tasks.packaging.layout import ClipGroup
from tasks.schema import LEDGER_FILE, UTTERANCES_FILE
from tasks.settings import PackageSettings
from tasks.storage import tables

FOLDERS = ("parts", "wanted", "rows")  # in the scratch folder
SPEAKER = "speaker"  # column of a part's digests
SECONDS_OF_CLIP = 5.0  # about; only the number of tars in a part follows from it

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """What the flow keeps of a part, which may be an unchanged part of the previous version."""

    number: int
    name: str
    file: str  # note on the previous version's part, if that stays


def groups_of_part(settings: PackageSettings) -> int:
    """Tars of a part: a power of two, with about `table_rows` clips in all."""
    clips = settings.tar_hours * 3600 / SECONDS_OF_CLIP
    return 1 << round(math.log2(max(settings.table_rows / clips, 1)))


def rule(settings: PackageSettings) -> JsonObject:
    """The settings that make a table a file or a folder of parts, for dataset.json."""
    return {
        "one_file_up_to_rows": settings.table_rows,
        UTTERANCES_FILE: f"a part for every {groups_of_part(settings)} tars of a split",
        LEDGER_FILE: "the fewest parts, a power of two, by hash of the recording; what is new "
        "since then in parts of its own, joined eight at a time",
    }


def divided(
    groups: Sequence[ClipGroup], settings: PackageSettings, clips: int
) -> list[tuple[str, list[int]]]:
    """(name, indices of its groups) of each part, in the order of the groups."""
    if clips <= settings.table_rows:
        return [(UTTERANCES_FILE, list(range(len(groups))))]
    size = groups_of_part(settings)
    found: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        name = f"{UTTERANCES_FILE}/{group.split}-{group.number // size:06d}.parquet"
        found.setdefault(name, []).append(index)
    return list(found.items())


def derived(
    job: Job, groups: Sequence[ShardGroup], clips: whole.CorpusClips
) -> dict[str, pa.Array]:
    """The columns that formats derive, for all clips in order. Holds all rows in memory, but only
    the columns from which others are derived."""
    sources = {name for name, _ in plan.sources_of(job)}
    fields = [field for field in shard_decisions.row_schema(job) if field.name not in sources]

    def read(names: list[str]) -> pa.Table:
        return whole.rows_of(groups, clips, names)

    return format_shards.all_derived(job, pa.schema(fields), read)


def all_linkable(job: Job, newest: Path, described: JsonObject) -> bool:
    """Whether the newest version has all formats as the current settings would write them, so that
    unchanged groups need no rows. Formats whose files contain their number may need rows anyway."""
    previous = PreviousVersion(newest, described, ())
    return all(
        previous.has_format(plugin) and not plugins.load("formats", plugin.use).NUMBERED
        for plugin in job.package.formats
    )


def write_batches(path: Path, parts: Sequence[pa.Table]) -> None:
    """An Arrow file of a record batch for each table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tables.writing(path, parts[0].schema) as out:
        for table in parts:
            for batch in table.combine_chunks().to_batches():
                out.write_batch(batch)
