"""WebDataset shards: `<key>.json`, `<key>.txt`, `<key>.wav` (or `.flac`) of each sample, adjacent.

webdataset/<split>/shard-000000000.tar   plain USTAR; no key has a dot or a slash
webdataset/<split>/data.list             one tar's path a line
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from tasks.checkpoints.blobs import Pcm
from tasks.checkpoints.manifest import Row
from tasks.formats import Hashes, Piece, _clips, _lists, _tar
from tasks.settings import THRESHOLD, StageSettings

VERSION = 1
#: Keys of `<key>.json`, in this order, before `seconds`.
FACTS = (
    "id", "source_id", "dataset", "split", "recording", "start", "end", "num_samples",
    "sample_rate", "text", "text_source", "language", "speaker",
)  # fmt: skip
COLUMNS = (*FACTS, "sha256")
PROVES_SAMPLES = True


class Settings(StageSettings):
    """How a sample's audio is stored."""

    audio: _clips.Suffix = Field(
        "wav", json_schema_extra=THRESHOLD, description="wav, or flac: smaller, equal samples."
    )


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"webdataset/{split}/shard-{number:09d}.tar"]


def facts(row: Row) -> bytes:
    """`<key>.json` of a row; `start`, `end` (in the recording) and `seconds` in s."""
    seconds = row["num_samples"] / row["sample_rate"]
    found = {**{name: row[name] for name in FACTS}, "seconds": seconds}
    return json.dumps(found, ensure_ascii=False, allow_nan=False).encode()


def _texts(row: Row) -> Iterator[tuple[str, bytes]]:
    key = _tar.key(row["id"])
    yield f"{key}.json", facts(row)
    yield f"{key}.txt", row["text"].encode()


def write(
    piece: Piece, rows: Sequence[Row], pcm: Callable[[Row], Pcm], home: Path, settings: Settings,
    hashes: Hashes,
) -> None:  # fmt: skip
    with _tar.Tar(home, piece.path, hashes) as tar:
        for row in rows:
            for name, text in _texts(row):
                tar.add(name, text)
            data = _clips.parts(pcm(row), row["sample_rate"], settings.audio)
            tar.add(f"{_tar.key(row['id'])}.{settings.audio}", *data)


def check(
    piece: Piece, rows: Sequence[Row], home: Path, settings: Settings, hashes: Hashes
) -> list[str]:
    """Order, adjacency, headers, text, facts and decoded PCM."""
    suffixes = ("json", "txt", settings.audio)
    names = [f"{_tar.key(row['id'])}.{suffix}" for row in rows for suffix in suffixes]
    faults: list[str] = []
    exact = settings.audio == "wav"
    members = _tar.expect(home, piece.path, names, faults, hashes, exact)
    for index, member in enumerate(members):
        row = rows[index // 3]
        place = f"{piece.path}: {member.name}"
        if index % 3 == 2:
            faults += _clips.faults(row, place, member.data, settings.audio)
        elif member.data != dict(_texts(row))[member.name]:
            faults.append(f"{place} does not say what its row says")
    return faults


def finish(pieces: Sequence[Piece], home: Path, settings: Settings) -> None:
    _lists.write(pieces, home)


def listing(home: Path, split: str, head: str) -> list[str]:
    return [f"{head}/{line}" for line in _lists.read(home, "webdataset", split)]
