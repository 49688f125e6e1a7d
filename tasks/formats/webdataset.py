"""WebDataset shards: `<key>.json`, `<key>.txt`, `<key>.wav` (or `.flac`) of each sample, adjacent.

webdataset/<split>/shard-000000000.tar   plain USTAR; no key has a dot or a slash
webdataset/<split>/data.list             one tar's path a line

With `package.audio: both`, `<key>.enhanced.wav` follows, the enhanced clip.

With `energon: true`, Megatron-Energon reads the folder without `energon prepare`:

webdataset/<split>/shard-000000000.tar.idx       where each sample begins
webdataset/.nv-meta/{.info.json,split.yaml,dataset.yaml}   a `CrudeWebdataset`, splits as here

Its SQLite index, which only random access by key needs (auxiliary data, `energon mount`), is made
by `energon prepare`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from tasks.checkpoints import blobs
from tasks.formats import (
    Output,
    OutputShard,
    ReadPcm,
    Rows,
    _clips,
    _index,
    _lists,
    _tar,
    _tar_check,
)
from tasks.schema import Row
from tasks.settings import Threshold
from tasks.storage import write_atomic

VERSION = 2
#: Keys of `<key>.json`, in this order, before `seconds`.
FACTS = (
    *("id", "source_id", "dataset", "split", "recording", "start", "end"),
    *("num_samples", "sample_rate", "text", "text_source", "language", "speaker"),
)
COLUMNS = (*FACTS, "sha256", "sha256_enhanced")
PROVES_SAMPLES = True
HOLDS_BOTH = True


class Settings(_clips.AudioSettings):
    """How a sample's audio is stored, and for which readers."""

    energon: bool = Threshold(
        False, "Also write what Megatron-Energon reads beside the tars: .nv-meta and indexes."
    )


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    tar = f"webdataset/{split}/shard-{number:09d}.tar"
    return [tar, f"{tar}{_index.SUFFIX}"] if settings.energon else [tar]


def facts(row: Row) -> bytes:
    """`<key>.json` of a row; `start`, `end` (in the recording) and `seconds` in s."""
    seconds = _clips.duration(row["num_samples"], row["sample_rate"])
    found = {**{name: row[name] for name in FACTS}, "seconds": seconds}
    return json.dumps(found, ensure_ascii=False, allow_nan=False).encode()


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    begins = []
    with _tar.Tar(out, shard.path) as tar:
        for row in rows:
            key = _tar.key(row["id"])
            begins.append(tar.tell())
            tar.add(f"{key}.json", facts(row))
            tar.add(f"{key}.txt", row["text"].encode())
            data = _clips.parts(pcm(row), row["sample_rate"], settings.audio)
            tar.add(f"{key}.{settings.audio}", *data)
            for clean in blobs.beside(row):
                data = _clips.parts(pcm(clean), row["sample_rate"], settings.audio)
                tar.add(f"{key}.enhanced.{settings.audio}", *data)
        end = tar.tell()
    if settings.energon:
        out.write(shard.files[1], _index.of(begins, end))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    """Order, adjacency, headers, text, facts and decoded PCM; the index byte for byte."""
    enhanced = [f"enhanced.{settings.audio}"] if blobs.beside(rows[0]) else []
    suffixes = ("json", "txt", settings.audio, *enhanced)
    size = len(suffixes)
    names = [f"{_tar.key(row['id'])}.{suffix}" for row in rows for suffix in suffixes]
    faults: list[str] = []
    exact = settings.audio == "wav"
    begins, end = [], 0
    members = _tar_check.compare(out, shard.path, names, faults, exact)
    for index, member in enumerate(members):
        row = rows[index // size]
        place = f"{shard.path}: {member.name}"
        end = member.end
        if index % size == 0:
            begins.append(member.offset)
        if index % size >= 2:
            clip = row if index % size == 2 else blobs.beside(row)[0]
            faults += _clips.faults(clip, place, member.data, settings.audio)
        elif member.data != (row["text"].encode() if index % size else facts(row)):
            faults.append(f"{place} does not say what its row says")
    if settings.energon:
        path = shard.files[1]
        if (out.home / path).read_bytes() != _index.of(begins, end):
            faults.append(f"{path} names other places than its tar has")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    _lists.write(shards, home)
    if settings.energon:
        _write_energon(shards, home / "webdataset")


def listing(home: Path, split: str, head: str) -> list[str]:
    return [f"{head}/{line}" for line in _lists.read(home, "webdataset", split)]


NV_META = ".nv-meta"
CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


def _write_energon(shards: Sequence[OutputShard], folder: Path) -> None:
    """What Megatron-Energon reads of a folder of tars; paths in the metadata start from it.

    .nv-meta/.info.json     how many samples each tar has, by its path in the folder
    .nv-meta/split.yaml     the tars of each split, under the split's own name
    .nv-meta/dataset.yaml   samples as dictionaries: a `Cooker` of the task turns them into its own
    """
    counts: dict[str, int] = {}
    splits: dict[str, list[str]] = {}
    for shard in shards:
        name = shard.path.partition("/")[2]
        counts[name] = shard.clips
        splits.setdefault(shard.split, []).append(name)
    home = folder / NV_META
    home.mkdir(exist_ok=True)
    write_atomic(home / ".info.json", _json_line({"shard_counts": counts}))
    write_atomic(
        home / "split.yaml", _json_line({"exclude": [], "split_parts": splits})
    )  # JSON is YAML
    write_atomic(home / "dataset.yaml", CRUDE.encode())


def _json_line(value: object) -> bytes:
    return json.dumps(value, indent=0).encode() + b"\n"
