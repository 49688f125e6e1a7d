"""Formats of one file per clip, named by its id, in a folder per shard (more for a large one)."""

from __future__ import annotations

import pyarrow as pa

from ..settings import StageSettings
from . import Output, OutputShard, ReadPcm, Rows, _clips

WAV = _clips.Encoding("wav")
COLUMNS = ("id", *_clips.COLUMNS)  # the texts are in the lists only
FOLDER_FILES = 65_000  # FAT32 and exFAT hold a few more


def files(
    use: str, split: str, number: int, rows: pa.Table, suffix: str = "wav", files_a_clip: int = 1
) -> list[str]:
    home = f"{use}/{split}/wav/{number:09d}"
    keys = enumerate(rows["id"].to_pylist())
    return [f"{home}{beyond(index * files_a_clip)}/{key}.{suffix}" for index, key in keys]


def beyond(index: int) -> str:
    """The suffix of a folder's name for file `index` of a shard; none for the first files."""
    folder = index // FOLDER_FILES
    return f"-{folder:03d}" if folder else ""


def write(
    shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: StageSettings
) -> None:
    """Write WAV, or the settings' `encoding`."""
    encoding = getattr(settings, "encoding", WAV)
    for path, row in zip(shard.files, rows, strict=True):
        out.write(path, _clips.encoded(row, pcm, encoding))


def check(shard: OutputShard, rows: Rows, out: Output, settings: StageSettings) -> list[str]:
    encoding, faults = getattr(settings, "encoding", WAV), list[str]()
    for path, row in zip(shard.files, rows, strict=True):
        faults += _clips.faults(row, path, (out.home / path).read_bytes(), encoding)
        faults += out.changed(path)
    return faults
