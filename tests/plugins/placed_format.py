"""A format whose files follow from all rows: `<place among all ids>-<clip>.txt` for each clip, with
the text repeated as often as its setting says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from tasks.checkpoints.blobs import Pcm
from tasks.checkpoints.manifest import Row
from tasks.formats import Hashes, Piece
from tasks.settings import THRESHOLD, StageSettings

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


def _text(row: Row, settings: Settings) -> str:
    return f"{row['place']} {row['text'] * settings.times}"


def write(
    piece: Piece, rows: Sequence[Row], pcm: Callable[[Row], Pcm], home: Path, settings: Settings,
    hashes: Hashes,
) -> None:  # fmt: skip
    for path, row in zip(piece.files, rows, strict=True):
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_text(_text(row, settings))


def check(
    piece: Piece, rows: Sequence[Row], home: Path, settings: Settings, hashes: Hashes
) -> list[str]:
    return [
        f"{path} has another text"
        for path, row in zip(piece.files, rows, strict=True)
        if (home / path).read_text() != _text(row, settings)
    ]


def finish(pieces: Sequence[Piece], home: Path, settings: Settings) -> None:
    pass
