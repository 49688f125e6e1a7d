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
from collections.abc import Collection, Iterator, Sequence
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
    paths, pcm = _listed(out, stage, shard)
    if len(paths) < 2 and len(pcm) < 2:
        return False
    parts = manifest.read(out, stage, shard, manifest.repair)
    spare = _held(paths, parts) or unnamed(pcm, parts)
    return bool(spare) or any(_several(group) for group in _groups(parts))


def compact(out: Path, stage: str, shard: str, schema: pa.Schema) -> bool:
    """Join the shard's files and remove those that nothing names; returns whether there was
    anything to do.

    `schema`: of the stage's rows. Rows whose PCM is gone or was recomputed are left out. Only the
    worker that holds the shard may call it. Raises CorruptManifest if a file is damaged.
    """
    paths, pcm = _listed(out, stage, shard)
    if len(paths) < 2 and len(pcm) < 2:
        return False
    parts = manifest.read(out, stage, shard, manifest.refuse)
    obsolete = _held(paths, parts)
    for group in filter(_several, _groups(parts)):
        _join(out, stage, shard, group, schema)
        obsolete += sorted({part.path for part in group})
    for path in obsolete:
        storage.remove(path)
    spare = unnamed(pcm, manifest.read(out, stage, shard) if obsolete else parts)
    for path in spare:
        storage.remove(path)
    return bool(obsolete or spare)


def _listed(out: Path, stage: str, shard: str) -> tuple[list[Path], list[Path]]:
    """The files of a shard's parts and, for the stage that makes it, of its PCM."""
    pcm = blobs.files(out, shard) if stage == "resample" else []
    return manifest.files(out, stage, shard), pcm


def unnamed(pcm: Sequence[Path], parts: Sequence[Part]) -> list[Path]:
    """Blobs that no row names, because a kill came before the rows were written or after they were
    removed."""
    if not pcm:
        return []
    named = {name for part in parts for name in pc.unique(part.table["blob"]).to_pylist()}
    return [path for path in pcm if path.name not in named]


def _groups(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Groups of parts made by the same settings."""
    by_meta: dict[str, list[Part]] = {}
    for part in parts:
        if RECIPE in part.meta:
            by_meta.setdefault(json.dumps(part.meta, sort_keys=True), []).append(part)
    yield from by_meta.values()


def _several(group: Sequence[Part]) -> bool:
    return len({part.path for part in group}) > 1


def _held(paths: Sequence[Path], parts: Sequence[Part]) -> list[Path]:
    """Files whose parts are all read from other files, because a kill came before their removal."""
    read = {part.path for part in parts}
    return [path for path in paths if path not in read]


def _join(out: Path, stage: str, shard: str, group: Sequence[Part], schema: pa.Schema) -> None:
    """Write one file with all parts of a group."""
    tables = manifest.last_results(stage, [part.table for part in group])
    if stage == "resample":
        tables = _joined_blobs(out, shard, tables)
    holds = [(part.name, len(table)) for part, table in zip(group, tables, strict=True)]
    bare = [table.replace_schema_metadata(None) for table in (schema.empty_table(), *tables)]
    whole = pa.concat_tables(bare, promote_options="default")
    number = max(manifest.number_of(part.path) for part in group)
    meta: manifest.Footer = {**group[0].meta, HOLDS: holds}
    manifest.commit(out, stage, shard, whole, whole.schema, meta, number)


def _joined_blobs(out: Path, shard: str, tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Join the blobs; returns the tables with the new places of their PCM."""
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
    names = {name for table in joined for name in table["blob"].drop_null().to_pylist()}
    small = {name for name in names if sizes(name) < BLOB_BYTES}
    return _repacked(out, shard, joined, small if len(small) > 1 else ())


def moved(
    out: Path, shard: str, tables: Sequence[pa.Table], names: Collection[str]
) -> list[pa.Table]:
    """Copy the PCM of rows that lies in some blobs into a new one; returns the tables with the new
    places. Rows whose PCM is gone are left out."""
    sizes = blobs.sizes(out, shard)
    sound = [
        table.filter(
            pa.array(
                [
                    bool(row["error_code"]) or blobs.present(row, sizes)
                    for row in table.select(PLACES).to_pylist()
                ],
                pa.bool_(),
            )
        )
        for table in tables
    ]
    return _repacked(out, shard, sound, names)


def _repacked(
    out: Path, shard: str, tables: Sequence[pa.Table], names: Collection[str]
) -> list[pa.Table]:
    """Copy the PCM in these blobs into one; returns the tables with the new places."""
    rows = [row for table in tables for row in table.select(PLACES).to_pylist()]
    if some := [row for row in rows if row["blob"] in names]:
        _rewrite(out, shard, some)
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


def _rewrite(out: Path, shard: str, rows: Sequence[EnhancedRow]) -> None:
    """Copy the PCM of rows into one blob and update the rows' places."""
    home = blobs.folder(out, shard)
    with (
        blobs.stored(out, shard, rows) as pcm,
        storage.store_of(home).staged(home) as (handle, publish),
    ):
        for row in rows:
            samples = pcm(row)
            row["offset"] = handle.size
            handle.write(np.ascontiguousarray(samples).data)
        name = publish(lambda digest: f"{digest}.pcm").name
    for row in rows:
        row["blob"] = name
