"""Formats of one file per clip, named by its id, in a folder per shard (more for a large one)."""

from __future__ import annotations

import pyarrow as pa

from tasks.formats import Output, OutputShard, ReadPcm, Rows, _clips
from tasks.settings import StageSettings

WAV = _clips.Encoding("wav")
COLUMNS = ("id", *_clips.COLUMNS)  # the texts are in the lists only
FOLDER_CLIPS = 65_000  # FAT32 and exFAT hold a few more


def files(use: str, split: str, number: int, rows: pa.Table, suffix: str = "wav") -> list[str]:
    home = f"{use}/{split}/wav/{number:09d}"
    keys = enumerate(rows["id"].to_pylist())
    return [f"{home}{beyond(index)}/{key}.{suffix}" for index, key in keys]


def beyond(index: int) -> str:
    """What a folder's name ends with: a shard's first clips lie in the one of its number."""
    folder = index // FOLDER_CLIPS
    return f"-{folder:03d}" if folder else ""


def write(
    shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: StageSettings
) -> None:
    for path, row in zip(shard.files, rows, strict=True):
        with out.create(path) as file:
            file.writelines(_clips.parts(pcm(row), row["sample_rate"], WAV))


def check(shard: OutputShard, rows: Rows, out: Output, settings: StageSettings) -> list[str]:
    faults: list[str] = []
    for path, row in zip(shard.files, rows, strict=True):
        faults += _clips.faults(row, path, (out.home / path).read_bytes(), WAV)
    return faults


def write_encoded(
    shard: OutputShard,
    rows: Rows,
    pcm: ReadPcm,
    out: Output,
    settings: _clips.AudioSettings | _clips.EncodedSettings,
) -> None:
    """`write` of a format that has other audio than WAV too."""
    encoding = settings.encoding
    if encoding == WAV:
        write(shard, rows, pcm, out, settings)
        return
    for path, row in zip(shard.files, rows, strict=True):
        out.write(path, b"".join(_clips.parts(pcm(row), row["sample_rate"], encoding)))


def check_encoded(
    shard: OutputShard,
    rows: Rows,
    out: Output,
    settings: _clips.AudioSettings | _clips.EncodedSettings,
) -> list[str]:
    """`check` of a format that has other audio than WAV too."""
    encoding = settings.encoding
    if encoding == WAV:
        return check(shard, rows, out, settings)
    faults: list[str] = []
    for path, row in zip(shard.files, rows, strict=True):
        faults += _clips.faults(row, path, (out.home / path).read_bytes(), encoding)
        faults += out.changed(path)
    return faults
