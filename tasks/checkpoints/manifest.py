"""Checkpoints: Parquet parts under their final names only when complete, checked when read.

    manifests/<stage>/<shard>/<n>-<sha256[:16] of the file>.parquet     items of one shard
    audio/<shard>/<sha256[:16] of the file>.pcm                         int16 blobs of one part

A part is written to a temp file on the same file system, fsynced and renamed: what exists under
its final name is complete. The name holds the hash of the bytes, so a flipped bit or a truncated
file is found on reading; a part that fails is set aside and its items are computed again.
On an object store a part is one PUT, which is as atomic, and a name with a hash needs no more.
Parts only add items. The shard stage alone supersedes: its highest `n` is the shard as it is now.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tasks import storage
from tasks.errors import CorruptManifest
from tasks.schema import Row as Row

log = logging.getLogger("uttermill")


@dataclass(frozen=True, slots=True)
class Part:
    """One committed file: its rows, and what its footer says about them."""

    path: Path
    number: int
    table: pa.Table
    meta: dict[str, Any]


def folder(out: Path, stage: str, shard: str) -> Path:
    return out / "manifests" / stage / shard


def shards(out: Path) -> list[str]:
    """Ids of all shards, in the order in which they were made."""
    root = out / "manifests" / "shard"
    if storage.is_remote(out):
        return storage.folders(root)
    return sorted(p.name for p in root.iterdir() if p.is_dir()) if root.is_dir() else []


def commit(
    out: Path, stage: str, shard: str, rows: list[Row], schema: pa.Schema, meta: dict[str, Any],
    number: int | None = None,
) -> Path:  # fmt: skip
    """Write rows as a new part of the shard; atomic, durable; returns its path.

    `number` is its place among the parts: the last one, unless it is to take another's.
    """
    home = folder(out, stage, shard)
    if number is None:
        numbers = [number_of(p) for p in storage.names(home, ".parquet")]
        number = max(numbers, default=-1) + 1
    footer = {b"uttermill": json.dumps({"stage": stage, "shard": shard, **meta}).encode()}
    table = pa.Table.from_pylist(rows, schema=schema.with_metadata(footer))
    with staged(home) as (handle, publish):
        # Small tables, read whole: dictionaries and statistics would only cost time.
        pq.write_table(
            table, handle, compression="lz4", use_dictionary=False, write_statistics=False
        )
        return publish(lambda name: f"{number:06d}-{name}.parquet")


def read(out: Path, stage: str, shard: str, strict: bool = False) -> list[Part]:
    """All sound parts of a shard, oldest first; damaged ones are set aside, and said in the log,
    or, for who is `strict`, raised as CorruptManifest."""
    home = folder(out, stage, shard)
    parts = []
    for path in storage.names(home, ".parquet"):
        try:
            parts.append(open_part(path))
        except CorruptManifest as fault:
            if strict:
                raise
            log.warning("%s; its items are computed again", fault)
            discard(path)
    return sorted(parts, key=lambda p: (p.number, p.path.name))


def supersede(out: Path, stage: str, shard: str, path: Path) -> None:
    """Remove every part of the shard but `path` (the shard stage's snapshots)."""
    for other in storage.names(folder(out, stage, shard), ".parquet"):
        if other != path and number_of(other) < number_of(path):
            discard(other)


def discard(path: Path) -> None:
    storage.remove(path)


def number_of(path: Path) -> int:
    head = path.name.split("-", 1)[0]
    return int(head) if head.isdigit() else -1


# Parts never change under their names, so a process reads and checks each one once.
PARTS_HELD = 64
_parts: dict[Path, Part] = {}


def open_part(path: Path) -> Part:
    """A part, checked against the hash in its name; CorruptManifest when it is another or gone."""
    known = _parts.get(path)
    # Of a remote one the caller has just seen the name, and each question costs a request.
    if known is not None and (storage.is_remote(path) or path.exists()):
        return known
    try:
        data = storage.read(path)
    except FileNotFoundError as error:
        raise CorruptManifest(f"{path.name} vanished while it was read", str(path)) from error
    named = path.stem.rsplit("-", 1)[-1]
    if hashlib.sha256(data).hexdigest()[:16] != named:
        raise CorruptManifest(f"manifest {path} does not match the hash in its name", str(path))
    table = pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False)
    meta: dict[str, Any] = json.loads((table.schema.metadata or {})[b"uttermill"])
    if len(_parts) >= PARTS_HELD:
        _parts.clear()
    _parts[path] = part = Part(path, number_of(path), table, meta)
    return part


class HashedFile:
    """A binary file that hashes what is written through it (sequential writes only)."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw
        self.sha = hashlib.sha256()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.raw.write(view)
        self.sha.update(view)
        self.size += len(view)
        return len(view)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        self.raw.flush()

    def seekable(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def close(self) -> None:  # pyarrow closes what it is given; the file is ours to close
        self.flush()


@contextmanager
def staged(home: Path) -> Iterator[tuple[HashedFile, Callable[[Callable[[str], str]], Path]]]:
    """A temp file in `home` and `publish(name_of)`, which fsyncs and renames it.

    `name_of` gets the first 16 hex digits of the content's sha256. Without `publish`, or on an
    exception, nothing stays behind. In a remote `home` the file is put when it is published.
    """
    if storage.is_remote(home):
        with tempfile.TemporaryFile() as unnamed:
            handle = HashedFile(cast(BinaryIO, unnamed))
            yield handle, lambda name_of: _put(home, handle, name_of)
        return
    home.mkdir(parents=True, exist_ok=True)
    fd, temp = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=home)
    with os.fdopen(fd, "wb") as raw:
        handle = HashedFile(raw)

        def publish(name_of: Callable[[str], str]) -> Path:
            raw.flush()
            os.fsync(raw.fileno())
            final = home / name_of(handle.sha.hexdigest()[:16])
            os.chmod(temp, 0o644)
            # The folder is not synced: a rename that a power cut undoes is work done again, never
            # a wrong result; a version's folders are synced when it is published.
            os.replace(temp, final)
            return final

        try:
            yield handle, publish
        finally:
            Path(temp).unlink(missing_ok=True)


def _put(home: Path, handle: HashedFile, name_of: Callable[[str], str]) -> Path:
    path = home / name_of(handle.sha.hexdigest()[:16])
    handle.raw.seek(0)
    storage.put(path, handle.raw.read())
    return path


def fsync(path: Path) -> None:
    """Make a file's bytes, or the renames in a folder, durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, data: bytes) -> None:
    """Put `data` under its final name at once: temp file, fsync, rename."""
    with staged(path.parent) as (handle, publish):
        handle.write(data)
        publish(lambda _: path.name)


def sweep(out: Path) -> int:
    """Remove temp files that a dead run left behind; only while holding OUT's lock. On an object
    store there are none."""
    if storage.is_remote(out):
        return 0
    count = 0
    for root in ("manifests", "audio", "datasets"):
        for temp in (out / root).rglob(".*.tmp"):
            temp.unlink(missing_ok=True)
            count += 1
    return count
