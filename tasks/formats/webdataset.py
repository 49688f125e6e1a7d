"""WebDataset shards: `<key>.json`, `<key>.txt`, `<key>.wav` (or `.flac`) of each sample, adjacent.

webdataset/<split>/shard-000000000.tar   plain USTAR; no key has a dot or a slash
webdataset/<split>/data.list             one tar's path a line
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from tasks.checkpoints.manifest import Row
from tasks.formats import Output, OutputShard, ReadPcm, Rows, _clips, _lists, _tar, _tar_check

VERSION = 1
#: Keys of `<key>.json`, in this order, before `seconds`.
FACTS = (
    *("id", "source_id", "dataset", "split", "recording", "start", "end"),
    *("num_samples", "sample_rate", "text", "text_source", "language", "speaker"),
)
COLUMNS = (*FACTS, "sha256")
PROVES_SAMPLES = True


class Settings(_clips.AudioSettings):
    """How a sample's audio is stored."""


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


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    with _tar.Tar(out, shard.path) as tar:
        for row in rows:
            for name, text in _texts(row):
                tar.add(name, text)
            data = _clips.parts(pcm(row), row["sample_rate"], settings.audio)
            tar.add(f"{_tar.key(row['id'])}.{settings.audio}", *data)


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    """Order, adjacency, headers, text, facts and decoded PCM."""
    suffixes = ("json", "txt", settings.audio)
    names = [f"{_tar.key(row['id'])}.{suffix}" for row in rows for suffix in suffixes]
    faults: list[str] = []
    exact = settings.audio == "wav"
    members = _tar_check.compare(out, shard.path, names, faults, exact)
    for index, member in enumerate(members):
        row = rows[index // 3]
        place = f"{shard.path}: {member.name}"
        if index % 3 == 2:
            faults += _clips.faults(row, place, member.data, settings.audio)
        elif member.data != dict(_texts(row))[member.name]:
            faults.append(f"{place} does not say what its row says")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    _lists.write(shards, home)


def listing(home: Path, split: str, head: str) -> list[str]:
    return [f"{head}/{line}" for line in _lists.read(home, "webdataset", split)]
