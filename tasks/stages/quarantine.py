"""Lift the quarantine of items whose failure may have been temporary, so that they are tried again.

A crash, a hang or a memory overrun may be the machine's fault: it was full, too small, or had an
older library. A fault of the item itself (undecodable, NaN) would only be found again.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks import storage
from tasks.base.errors import MAY_PASS
from tasks.shard_store import manifest
from tasks.shard_store.manifest import Part
from tasks.stages import contract


def forget(out: Path) -> int:
    """Remove the rows of such items from the manifests; returns how many. Only while holding OUT's
    lock. A file is written again without them, each of its parts by itself, before it is removed:
    a kill in between loses nothing."""
    count = 0
    for name in contract.PER_SHARD:
        for shard in manifest.shards(out):
            parts = manifest.read(out, name, shard, manifest.repair)
            parts = sorted(parts, key=lambda part: part.path)
            for path, file_parts in groupby(parts, key=lambda part: part.path):
                count += _forget(out, name, shard, path, [*file_parts])
    return count


def _forget(out: Path, name: str, shard: str, path: Path, parts: list[Part]) -> int:
    dead = [pc.is_in(part.table["error_code"], pa.array(MAY_PASS)) for part in parts]
    bad = sum(int(pc.sum(pc.cast(flags, pa.int64())).as_py() or 0) for flags in dead)
    if not bad:
        return 0
    for part, flags in zip(parts, dead, strict=True):
        rows = part.table.filter(pc.invert(flags)).to_pylist()
        if rows:  # in the same place: of equal items the first part's stand
            schema = contract.find(name).schema_of(rows)
            manifest.commit(out, name, shard, rows, schema, part.meta, part.number)
    storage.remove(path)
    return bad
