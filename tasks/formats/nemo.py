"""NeMo's tarred audio: tars of `<key>.wav` (or `.flac`), a manifest for each, and one for all.

nemo/<split>/audio_0.tar ...                          tarred_audio_filepaths: audio__OP_0..9_CL_.tar
nemo/<split>/sharded_manifests/manifest_0.json ...    manifest_filepath: manifest__OP_0..9_CL_.json
nemo/<split>/tarred_audio_manifest.json               the same lines in one file

A line has `audio_filepath` (the member's name), `duration` (s), `text`, `shard_id` (the tar's
number), `lang` and `speaker` where they are known, and the utterance's `id`. The names are those
of NeMo's `convert_to_tarred_audio_dataset.py`. Its `metadata.yaml` is not written: training does
not read it, and it holds the time of day.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pydantic import Field

from tasks.checkpoints.blobs import Pcm
from tasks.checkpoints.manifest import Row
from tasks.formats import Hashes, Piece, _clips, _readers, _tar
from tasks.settings import THRESHOLD, StageSettings

VERSION = 1
COLUMNS = ("id", "text", "language", "speaker", *_clips.COLUMNS)
NUMBERED = True  # `shard_id`
PROVES_SAMPLES = True
READER = _readers.NEMO


class Settings(StageSettings):
    """How an utterance's audio is stored."""

    audio: _clips.Suffix = Field(
        "wav", json_schema_extra=THRESHOLD, description="wav, or flac: smaller, equal samples."
    )


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    home = f"nemo/{split}"
    return [f"{home}/audio_{number}.tar", f"{home}/sharded_manifests/manifest_{number}.json"]


def member(row: Row, settings: Settings) -> str:
    """Name in the tar. NeMo takes `-sub1` at its end for the first part of a longer file, so a key
    with `-sub` gets another name, which a hash keeps apart."""
    key = _tar.key(row["id"])
    if "-sub" in key:
        digest = hashlib.sha256(row["id"].encode()).hexdigest()[:16]
        key = f"{key.replace('-sub', '_sub')[:70]}-{digest}"
    return f"{key}.{settings.audio}"


def _lines(piece: Piece, rows: Sequence[Row], settings: Settings) -> bytes:
    lines = []
    for row in rows:
        line = {
            "audio_filepath": member(row, settings),
            "duration": row["num_samples"] / row["sample_rate"],
            "text": row["text"],
            "shard_id": piece.number,
            "id": row["id"],
        }
        known = {"lang": row["language"], "speaker": row["speaker"]}
        line |= {name: value for name, value in known.items() if value}
        lines.append(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
    return "".join(lines).encode()


def write(
    piece: Piece, rows: Sequence[Row], pcm: Callable[[Row], Pcm], home: Path, settings: Settings,
    hashes: Hashes,
) -> None:  # fmt: skip
    manifest = home / piece.files[1]
    with _tar.Tar(home, piece.path, hashes) as tar:
        for row in rows:
            data = _clips.parts(pcm(row), row["sample_rate"], settings.audio)
            tar.add(member(row, settings), *data)
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_bytes(_lines(piece, rows, settings))


def check(
    piece: Piece, rows: Sequence[Row], home: Path, settings: Settings, hashes: Hashes
) -> list[str]:
    """Order, headers and decoded PCM of the tar; the manifest to the letter."""
    tar, manifest = piece.files
    faults: list[str] = []
    names = [member(row, settings) for row in rows]
    # The members first: the last step of `expect` looks at what is too much.
    members = _tar.expect(home, tar, names, faults, hashes, settings.audio == "wav")
    for found, row in zip(members, rows, strict=False):
        faults += _clips.faults(row, f"{tar}: {found.name}", found.data, settings.audio)
    if (home / manifest).read_bytes() != _lines(piece, rows, settings):
        faults.append(f"{manifest} does not say what its rows say")
    return faults


READ_BACK = (".json",)  # of the files of a piece: `finish` joins them


def finish(pieces: Sequence[Piece], home: Path, settings: Settings) -> None:
    """`tarred_audio_manifest.json` of each split."""
    for split in sorted({piece.split for piece in pieces}):
        with (home / "nemo" / split / "tarred_audio_manifest.json").open("wb") as whole:
            for piece in pieces:
                if piece.split == split:
                    with (home / piece.files[1]).open("rb") as part:
                        shutil.copyfileobj(part, whole)
