"""A format of almost no bytes, for benchmarks of everything around the writing of audio."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from uttermill.tasks.formats import Output, OutputShard, ReadPcm, Rows
from uttermill.tasks.settings import StageSettings

VERSION = 1
COLUMNS = ("id", "text", "sha256")


class Settings(StageSettings):
    """None."""


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"stub/{split}/{number:09d}.txt"]


def _digest(rows: Rows) -> bytes:
    state = hashlib.sha256()
    for row in rows:
        state.update(f"{row['id']}\0{row['text']}\0{row['sha256']}\n".encode())
    return state.hexdigest().encode()


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    out.write(shard.path, _digest(rows))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    same = (out.home / shard.path).read_bytes() == _digest(rows)
    return out.changed(shard.path) + ([] if same else [f"{shard.path} holds other rows"])


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    """There are no lists."""
