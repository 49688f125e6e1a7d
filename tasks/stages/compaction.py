"""Compaction: joins the files that a stage stored for a shard.

Commits of a long shard, growth, and killed runs leave several parts and blobs. Once a stage is
complete for a shard, the files made under the same settings are joined: the parts in one file,
which names each of them in its footer and is read like them, and blobs of PCM below BLOB_BYTES in
one. Results of other settings stay separate, so that `prune` can remove them.

The new blob is written first, then the file that names it; then the old files are removed, and
their blobs last: after a kill at any point each row counts once (`manifest.read`), and no row lacks
its PCM.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import storage
from ..base.schema import EnhancedRow
from ..shard_store import blobs, manifest
from ..shard_store.manifest import HOLDS, Part
from ..storage.tables import replaced

RECIPE: Final = "recipe"  # footer key: recipe of the settings that made the part
BLOB_BYTES = 128 << 20  # least size of a blob that is not joined with others
PLACES = ["audio", "blob", "offset", "num_samples", "sha256", "error_code"]


def due(out: Path, stage: str, shard: str) -> bool:
    """Whether files of the shard can be joined or removed. Removes damaged files at once."""
    return any(_surplus(out, stage, shard, manifest.repair))


def compact(out: Path, stage: str, shard: str, schema: pa.Schema) -> bool:
    """Join the shard's files and remove those that nothing names; returns whether there was
    anything to do.

    `schema`: of the stage's rows. Rows whose PCM is gone or was recomputed are left out. Only the
    worker that holds the shard may call it. Raises CorruptManifest if a file is damaged.
    """
    groups, obsolete, spare = _surplus(out, stage, shard, manifest.refuse)
    for group in groups:
        _join(out, stage, shard, group, schema)
        obsolete += sorted({part.path for part in group})
    for path in obsolete:
        storage.remove(path)
    if obsolete and stage == "resample":
        spare = unnamed(out, shard, manifest.read(out, stage, shard))
    for path in spare:
        storage.remove(path)
    return bool(obsolete or spare)


def _surplus(
    out: Path, stage: str, shard: str, damaged: manifest.OnDamage
) -> tuple[list[list[Part]], list[Path], list[Path]]:
    """Groups of parts that the same settings made and that lie in several files; files whose parts
    are all read from other files, because a kill came before their removal; and `unnamed`."""
    paths, has_pcm = manifest.files(out, stage, shard), stage == "resample"
    if len(paths) < 2 and not (has_pcm and len(blobs.files(out, shard)) > 1):
        return [], [], []
    parts = manifest.read(out, stage, shard, damaged)
    by_meta: dict[str, list[Part]] = {}
    for part in parts:
        if RECIPE in part.meta:
            by_meta.setdefault(json.dumps(part.meta, sort_keys=True), []).append(part)
    groups = [group for group in by_meta.values() if len({part.path for part in group}) > 1]
    read = {part.path for part in parts}
    obsolete = [path for path in paths if path not in read]
    return groups, obsolete, unnamed(out, shard, parts) if has_pcm else []


def unnamed(out: Path, shard: str, parts: Sequence[Part]) -> list[Path]:
    """Blobs of a shard that no row of its parts names, because a kill came before the rows were
    written or after they were removed."""
    named = {name for part in parts for name in pc.unique(part.table["blob"]).to_pylist()}
    return [path for path in blobs.files(out, shard) if path.name not in named]


def _join(out: Path, stage: str, shard: str, group: Sequence[Part], schema: pa.Schema) -> None:
    """Write one file with all parts of a group."""
    tables = manifest.last_results(stage, [part.table for part in group])
    if stage == "resample":
        tables, sizes = _current(out, shard, tables), blobs.sizes(out, shard)
        names = {name for table in tables for name in table["blob"].drop_null().to_pylist()}
        small = {name for name in names if sizes(name) < BLOB_BYTES}
        tables = _repacked(out, shard, tables, small if len(small) > 1 else ())
    holds = [(part.name, len(table)) for part, table in zip(group, tables, strict=True)]
    bare = [table.replace_schema_metadata(None) for table in (schema.empty_table(), *tables)]
    whole = pa.concat_tables(bare, promote_options="default")
    number = max(manifest.number_of(part.path.name) for part in group)
    meta: manifest.Footer = {**group[0].meta, HOLDS: holds}
    manifest.commit(out, stage, shard, whole, whole.schema, meta, number)


def _current(out: Path, shard: str, tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The tables without rows whose PCM is gone or was recomputed."""
    sizes = blobs.sizes(out, shard)
    joined: list[pa.Table] = []
    seen: set[str] = set()
    for table in reversed(tables):  # the last one of remade PCM counts
        rows = table.select(PLACES).to_pylist()
        kept = []
        for row in rows:
            sound = bool(row["error_code"]) or blobs.present(row, sizes)
            kept.append(sound and row["audio"] not in seen)
            seen |= {row["audio"]} if sound else set()
        joined.insert(0, table.filter(pa.array(kept, pa.bool_())))
    return joined


def moved(
    out: Path, shard: str, tables: Sequence[pa.Table], names: Collection[str]
) -> list[pa.Table]:
    """Copy the PCM of rows that lies in some blobs into a new one; returns the tables with the new
    places. Rows whose PCM is gone or was recomputed are left out."""
    return _repacked(out, shard, _current(out, shard, tables), names)


def _repacked(
    out: Path, shard: str, tables: Sequence[pa.Table], names: Collection[str]
) -> list[pa.Table]:
    """Copy the PCM in these blobs into one; returns the tables with the new places."""
    rows: list[EnhancedRow] = [row for table in tables for row in table.select(PLACES).to_pylist()]
    if some := [row for row in rows if row["blob"] in names]:
        home = blobs.folder(out, shard)
        with (
            blobs.stored(out, shard, some) as pcm,
            storage.store_of(home).staged(home) as (handle, publish),
        ):
            for row in some:
                samples = pcm(row)
                row["offset"] = handle.size
                handle.write(np.ascontiguousarray(samples).data)
            name = publish("{}.pcm".format).name
        for row in some:
            row["blob"] = name
    placed = []
    blob = pa.array([row["blob"] for row in rows], pa.string())
    offset = pa.array([row["offset"] for row in rows], pa.int64())
    first_row = 0
    for table in tables:
        for name, column in (("blob", blob), ("offset", offset)):
            kind = table.schema.field(name).type
            table = replaced(table, name, column.slice(first_row, len(table)).cast(kind))
        placed.append(table)
        first_row += len(table)
    return placed
