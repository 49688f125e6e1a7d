"""A format whose files follow from all rows: `<place among all ids>-<clip>.txt` for each clip, with
the text repeated as often as its setting says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from uttermill.tasks.base.schema import AnyRow
from uttermill.tasks.formats import Output, OutputShard, ReadPcm, Rows
from uttermill.tasks.settings import THRESHOLD, StageSettings

VERSION = 1
COLUMNS = ("id", "text", "place")


class Settings(StageSettings):
    times: int = Field(1, json_schema_extra=THRESHOLD)


def derived(rows: pa.Table, settings: Settings) -> dict[str, pa.Array]:
    ids = rows["id"].to_pylist()
    places = {key: place for place, key in enumerate(sorted(ids))}
    return {"place": pa.array([places[key] for key in ids])}


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"placed/{split}/{row['place']}-{row['id']}.txt" for row in rows.to_pylist()]


def _text(row: AnyRow, settings: Settings) -> str:
    return f"{row['place']} {str(row['text']) * settings.times}"


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    for path, row in zip(shard.files, rows, strict=True):
        out.write(path, _text(row, settings).encode())


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    return [
        f"{path} has another text"
        for path, row in zip(shard.files, rows, strict=True)
        if (out.home / path).read_text() != _text(row, settings)
    ]


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    pass
