"""WeNet's `raw` data: one WAV file a clip, and a list of them with their texts.

wenet_raw/<split>/wav/000000000/<key>.wav   16-bit mono, header of 44 bytes; a folder a group
wenet_raw/<split>/data.list                 {"key", "wav", "txt"} a line, `wav` in the version
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from tasks.checkpoints.blobs import Pcm
from tasks.checkpoints.manifest import Row
from tasks.formats import Hashes, Piece, _clips, _lists, _readers, _rows
from tasks.settings import StageSettings

VERSION = 1
COLUMNS = ("id", *_clips.COLUMNS)  # a text stands in the list only
PROVES_SAMPLES = True
READER = _readers.WENET


class Settings(StageSettings):
    """None."""


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    home = f"wenet_raw/{split}/wav/{number:09d}"
    return [f"{home}/{key}.wav" for key in rows["id"].to_pylist()]


def write(
    piece: Piece, rows: Sequence[Row], pcm: Callable[[Row], Pcm], home: Path, settings: Settings,
    hashes: Hashes,
) -> None:  # fmt: skip
    (home / piece.path).parent.mkdir(parents=True, exist_ok=True)
    for path, row in zip(piece.files, rows, strict=True):
        with (home / path).open("wb") as file:
            file.writelines(_clips.parts(pcm(row), row["sample_rate"], "wav"))


def check(
    piece: Piece, rows: Sequence[Row], home: Path, settings: Settings, hashes: Hashes
) -> list[str]:
    faults: list[str] = []
    for path, row in zip(piece.files, rows, strict=True):
        faults += _clips.faults(row, path, (home / path).read_bytes(), "wav")
    return faults


def finish(pieces: Sequence[Piece], home: Path, settings: Settings) -> None:
    for split in sorted({piece.split for piece in pieces}):
        with (home / "wenet_raw" / split / _lists.NAME).open("w", encoding="utf-8") as out:
            for piece, rows in _rows.stream(pieces, home, ("id", "text")):
                if piece.split == split:
                    for path, row in zip(piece.files, rows, strict=True):
                        out.write(_line({"key": row["id"], "wav": path, "txt": row["text"]}))


def _line(entry: dict[str, str]) -> str:
    return json.dumps(entry, ensure_ascii=False) + "\n"


def listing(home: Path, split: str, head: str) -> list[str]:
    entries = [json.loads(line) for line in _lists.read(home, "wenet_raw", split)]
    return [_line({**entry, "wav": f"{head}/{entry['wav']}"}).rstrip("\n") for entry in entries]
