"""WeNet shards: `<key>.txt` then `<key>.wav`, adjacent, in plain USTAR tars, and a `data.list`.

wenet/<split>/shards_000000000.tar   UTF-8 without a newline; 16-bit mono WAV, header of 44 bytes;
                                     with `facts: true` then `<key>.json`, what `package.publish`
                                     names, which WeNet's reader keeps as the sample's `json`
wenet/<split>/data.list              one tar's path a line
wenet/units.txt                      characters of train's texts, for WeNet's char tokenizer
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..base.arrays import Int64s
from ..base.schema import ClipRow, published
from ..settings import StageSettings, Threshold
from . import Output, OutputShard, ReadPcm, Rows, _clips, _free, _lists, _tars, _wenet

VERSION = 1
COLUMNS = ("id", "text", *_clips.COLUMNS)
READER = _wenet.READER
HOLDS_ANNOTATIONS = True
SNIPPET = _wenet.snippet("shard")


class Settings(StageSettings):
    """What stands beside text and audio."""

    facts: bool = Threshold(
        False, "Also write <key>.json: what package.publish names, where it names something."
    )


def holds_annotations(settings: Settings) -> bool:
    return settings.facts


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"wenet/{split}/shards_{number:09d}.tar"]


def offsets(rows: pa.Table, settings: Settings) -> Int64s:
    text = pc.binary_length(pc.cast(rows["text"], pa.binary())).to_numpy().astype(np.int64)
    wav = 44 + 2 * rows["num_samples"].to_numpy()
    sizes = _tars.size_of(text) + _tars.size_of(wav)
    if settings.facts and (names := published(rows.schema)):
        facts = [len(_facts(row)) for row in rows.select(names).to_pylist()]
        sizes += _tars.size_of(np.array(facts, np.int64))
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _facts(values: Mapping[str, object]) -> bytes:
    return json.dumps(values, ensure_ascii=False, allow_nan=False, sort_keys=True).encode()


def _members(facts: bool, row: ClipRow, suffix: str) -> dict[str, bytes | ClipRow]:
    key, values = row["id"], _free.published(row) if facts else {}
    return {
        f"{key}.txt": row["text"].encode(),
        f"{key}.{suffix}": row,
        **({f"{key}.json": _facts(values)} if values else {}),
    }


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    members = partial(_members, settings.facts)
    _tars.write(out, shard.path, rows, pcm, members, _clips.Encoding("wav"))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    members = partial(_members, settings.facts)
    faults, edges = _tars.check(out, shard.path, rows, members, _clips.Encoding("wav"))
    for row, begin in zip(rows, edges, strict=False):
        # If another format comes first, `shard` and `offset` are its own.
        if row["shard"] == shard.path and row["offset"] != begin:
            faults.append(f"{shard.path}: {row['id']} is at {begin}, not {row['offset']}")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    _lists.write(shards, home)
    _wenet.write_units(home, "wenet")


listing = partial(_lists.prefixed, "wenet")
