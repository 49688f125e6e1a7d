"""WeNet shards: `<key>.txt` then `<key>.wav`, adjacent, in plain USTAR tars, and a `data.list`.

wenet/<split>/shards_000000000.tar   UTF-8 without a newline; 16-bit mono WAV, header of 44 bytes
wenet/<split>/data.list              one tar's path a line
wenet/units.txt                      characters of train's texts, for WeNet's char tokenizer
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.arrays import Int64s
from tasks.base.schema import ClipRow
from tasks.formats import Output, OutputShard, ReadPcm, Rows, _clips, _lists, _tar, _tars, _wenet
from tasks.settings import StageSettings

VERSION = 1
COLUMNS = ("id", "text", *_clips.COLUMNS)
PROVES_SAMPLES = True
READER = _wenet.READER
Settings = StageSettings  # none


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"wenet/{split}/shards_{number:09d}.tar"]


def offsets(rows: pa.Table, settings: Settings) -> Int64s:
    text = pc.binary_length(pc.cast(rows["text"], pa.binary())).to_numpy().astype(np.int64)
    wav = 44 + 2 * rows["num_samples"].to_numpy()
    ends = np.cumsum(_tar.size_of(text) + _tar.size_of(wav))
    return np.concatenate([[0], ends[:-1]]).astype(np.int64)


def _members(row: ClipRow, suffix: str) -> dict[str, bytes | ClipRow]:
    return {f"{row['id']}.txt": row["text"].encode(), f"{row['id']}.{suffix}": row}


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    _tars.write(out, shard.path, rows, pcm, _members, _clips.Encoding("wav"))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    faults, edges = _tars.check(out, shard.path, rows, _members, _clips.Encoding("wav"))
    for row, begin in zip(rows, edges, strict=False):
        # If another format comes first, `shard` and `offset` are its own.
        if row["shard"] == shard.path and row["offset"] != begin:
            faults.append(f"{shard.path}: {row['id']} is at {begin}, not {row['offset']}")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    _lists.write(shards, home)
    _wenet.write_units(home, "wenet")


listing = partial(_lists.prefixed, "wenet")
