"""MDS, for mosaicml-streaming: files of clips that are read in any order, and an index a split.

mds/<split>/shard.000000000.mds    samples of `audio` (bytes), `facts` (JSON), `id`, `text`; with
                                   `package.audio: both` also `audio_enhanced`
mds/<split>/index.json             the shards of the split

`streaming.StreamingDataset(local="mds/train", …)` reads the folder, or copies it as it goes along
from wherever `remote` says. Nothing here needs the library, which imports PyTorch.
"""

import json
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from ..base.json_types import JsonObject
from ..base.schema import UTTERANCES_FILE, ClipRow
from ..storage import tables, write_atomic
from . import Output, OutputShard, ReadPcm, Rows, _clips, _lists, _samples

VERSION = 1
COLUMNS = _samples.COLUMNS
HOLDS_ANNOTATIONS = True
check_weights, rates = _clips.check_weights, _clips.rates
SIZED = True  # `finish` writes the length of each shard
LISTS = ("/index.json",)
SNIPPET = _samples.snippet("streaming", 'local="mds", split="{split}", batch_size=1')
Settings = _clips.EncodedSettings


def _layout(columns: Collection[str]) -> JsonObject:
    fields = _samples.fields(columns)
    return {
        "column_encodings": [*fields.values()],
        "column_names": [*fields],
        "column_sizes": [None] * len(fields),
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": None,
        "version": 2,
    }


def _header(row: ClipRow) -> bytes:
    return json.dumps(_layout(row), sort_keys=True).encode()


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    """ConfigError if an output shard does not fit into a file."""
    _samples.refuse_too_large("mds", rows)
    return [f"mds/{split}/shard.{number:09d}.mds"]


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    _samples.write(shard, rows, pcm, out, settings, _header(rows[0]))


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    return _samples.check(shard, rows, out, settings, _header(rows[0]))


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    layout = _layout(tables.schema(home / UTTERANCES_FILE).names)
    for folder, members in _lists.by_folder(shards).items():
        entries = [
            {
                **layout,
                "raw_data": {
                    "basename": Path(shard.path).name,
                    "bytes": (home / shard.path).stat().st_size,
                    "hashes": {},
                },
                "samples": shard.clips,
                "zip_data": None,
            }
            for shard in members
        ]
        index = json.dumps({"shards": entries, "version": 2}, sort_keys=True)
        write_atomic(home / folder / "index.json", index.encode())


#: The folder of each split, which `StreamingDataset` takes.
listing = partial(_lists.folders, "mds", "index.json")
