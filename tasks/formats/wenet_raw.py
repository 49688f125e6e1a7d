"""WeNet's `raw` data: one WAV file a clip, and a list of them with their texts.

wenet_raw/<split>/wav/000000000/<key>.wav   16-bit mono, header of 44 bytes; a folder a group
wenet_raw/<split>/data.list                 {"key", "wav", "txt"} a line, `wav` in the version
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tasks.formats import Output, OutputShard, ReadPcm, Rows, _clips, _lists, _rows
from tasks.formats._reader_limits import WENET
from tasks.settings import StageSettings

VERSION = 1
COLUMNS = ("id", *_clips.COLUMNS)  # the texts are in the list only
PROVES_SAMPLES = True
READER = WENET


class Settings(StageSettings):
    """None."""


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    home = f"wenet_raw/{split}/wav/{number:09d}"
    return [f"{home}/{key}.wav" for key in rows["id"].to_pylist()]


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    for path, row in zip(shard.files, rows, strict=True):
        with out.create(path) as file:
            file.writelines(_clips.parts(pcm(row), row["sample_rate"], "wav"))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    faults: list[str] = []
    for path, row in zip(shard.files, rows, strict=True):
        faults += _clips.faults(row, path, (out.home / path).read_bytes(), "wav")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    for split in sorted({shard.split for shard in shards}):
        with (home / "wenet_raw" / split / _lists.NAME).open("w", encoding="utf-8") as list_:
            for shard, rows in _rows.stream(shards, home, ("id", "text")):
                if shard.split == split:
                    for path, row in zip(shard.files, rows, strict=True):
                        list_.write(_line({"key": row["id"], "wav": path, "txt": row["text"]}))


def _line(entry: dict[str, str]) -> str:
    return json.dumps(entry, ensure_ascii=False) + "\n"


def listing(home: Path, split: str, head: str) -> list[str]:
    entries = [json.loads(line) for line in _lists.read(home, "wenet_raw", split)]
    return [_line({**entry, "wav": f"{head}/{entry['wav']}"}).rstrip("\n") for entry in entries]
