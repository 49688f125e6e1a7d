"""WeNet shards: `<key>.txt` then `<key>.wav`, adjacent, in plain USTAR tars, and a `data.list`.

wenet/<split>/shards_000000000.tar   UTF-8 without a newline; 16-bit mono WAV, header of 44 bytes
wenet/<split>/data.list              one tar's path a line
wenet/units.txt                      characters of train's texts, for WeNet's char tokenizer
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.arrays import Int64s
from tasks.formats import (
    Output,
    OutputShard,
    ReadPcm,
    Rows,
    _clips,
    _lists,
    _tar,
    _tar_check,
    _wenet,
)
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


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    with _tar.Tar(out, shard.path) as tar:
        for row in rows:
            tar.add(f"{row['id']}.txt", row["text"].encode())
            tar.add(f"{row['id']}.wav", *_clips.parts(pcm(row), row["sample_rate"], "wav"))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    """Order, adjacency, headers, text and decoded PCM."""
    names = [f"{row['id']}.{suffix}" for row in rows for suffix in ("txt", "wav")]
    faults: list[str] = []
    members = _tar_check.compare(out, shard.path, names, faults, exact=True)
    for index, member in enumerate(members):
        row = rows[index // 2]
        place = f"{shard.path}: {member.name}"
        if index % 2:
            faults += _clips.faults(row, place, member.data, "wav")
            continue
        # If another format comes first, `shard` and `offset` are its own.
        if row["shard"] == shard.path and member.offset != row["offset"]:
            faults.append(f"{place} is at {member.offset}, not {row['offset']}")
        if member.data != row["text"].encode():
            faults.append(f"{place} is not the row's text")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    _lists.write(shards, home)
    _wenet.write_units(home, "wenet")


def listing(home: Path, split: str, head: str) -> list[str]:
    return [f"{head}/{line}" for line in _lists.read(home, "wenet", split)]
