"""What the next version takes over from the newest one: the places of its clips, and its files.

OUT/manifests/package/guards.json    size, time of change and inode of the newest version's
                                     files when it was published
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import pyarrow as pa

from .. import storage
from ..base.arrays import UInt64s
from ..base.schema import UTTERANCES_FILE
from ..storage import tables, versions
from ..storage.versions import Proved
from . import seeded_hash
from .output_shards import layout
from .output_shards.layout import PublishedShard

COLUMNS = ("id", "shard", "split", "generation")
EVERY = 30  # versions; within them, each linked file is read once


class Published(NamedTuple):
    """The clips of the newest version, in the order of its table."""

    high: UInt64s  # first half of the hash of the id
    low: UInt64s  # second half
    shards: list[PublishedShard]


def load(newest: Path, seed: int) -> Published:
    """The newest version's clips and output shards. Raises RunError if its table is lost or
    damaged. `seed`: of the ids' hashes."""
    keys, places = [np.empty((0, 2), np.uint64)], list[pa.Table]()
    for table in tables.row_groups(newest / UTTERANCES_FILE, COLUMNS, opened=Proved(newest)):
        keys.append(seeded_hash.keys(str(seed), table["id"].to_pylist()))
        places.append(table.select(COLUMNS[1:]))
    every = np.concatenate(keys)
    high, low = (np.ascontiguousarray(half) for half in every.T)
    return Published(high, low, layout.published_shards(places))


class _Guards(TypedDict):
    """guards.json."""

    version: str
    guards: Mapping[str, str]  # by name of a file


def _home(out: Path) -> Path:
    return out / "manifests" / "package" / "guards.json"


def guards(out: Path, version: Path) -> Mapping[str, str]:
    """The guards of the version's files at its publication, by name; empty without a note. The
    result is cached: do not change it."""
    try:
        noted = _parsed(storage.read(_home(out)))
    except (OSError, ValueError):
        return {}
    return noted["guards"] if noted.get("version") == version.name else {}


_parsed: Callable[[bytes], _Guards] = lru_cache(maxsize=1)(json.loads)


def guard(guards: Mapping[str, str], version: Path, name: str) -> str:
    """The guard of a file; empty if linking it must read it. Each linked file is read once in EVERY
    versions, so that bit rot is found."""
    is_due = (zlib.crc32(name.encode()) + versions.number(version)) % EVERY == 0
    return "" if is_due else guards.get(name, "")


def save_guards(out: Path, version: Path) -> None:
    """Save the guards of the newest version's files. Call it only while holding OUT's lock."""
    noted: _Guards = {
        "version": version.name,
        "guards": dict(storage.store_of(version).guards(version)),
    }
    storage.write_atomic(_home(out), json.dumps(noted).encode())
