"""LitData: chunks of clips that are read in any order, and an index a split.

litdata/<split>/chunk-0-0.bin      samples of `audio` (bytes), `facts` (JSON text), `id`, `text`;
                                   with `package.audio: both` also `audio_enhanced`
litdata/<split>/index.json         the chunks of the split

`litdata.StreamingDataset("litdata/train")` reads the folder. Nothing here needs the library, which
imports PyTorch.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyarrow as pa

from ..base.json_types import JsonObject
from ..base.schema import UTTERANCES_FILE
from ..storage import tables, write_atomic
from . import Output, OutputShard, ReadPcm, Rows, _clips, _lists, _samples

VERSION = 1
COLUMNS = _samples.COLUMNS
HOLDS_ANNOTATIONS = True
check_weights, rates = _clips.check_weights, _clips.rates
SIZED = True  # `finish` writes the length of each chunk
LISTS = ("/index.json",)
SNIPPET = _samples.snippet("litdata", '"litdata/{split}"')
Settings = _clips.EncodedSettings
_LEAF: JsonObject = {"type": None, "context": None, "children_spec": []}


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    """ConfigError if an output shard does not fit into a chunk."""
    _samples.refuse_too_large("litdata", rows)
    return [f"litdata/{split}/chunk-0-{number}.bin"]


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    _samples.write(shard, rows, pcm, out, settings)


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    return _samples.check(shard, rows, out, settings)


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    """`index.json` of each split. The library caches copies of a remote folder by `updated_at`;
    here it is not a time, but follows from the chunks."""
    fields = _samples.fields(tables.schema(home / UTTERANCES_FILE).names)
    tree = {  # a sample is a dictionary, as the library describes trees of values
        "type": "builtins.dict",
        "context": json.dumps([*fields]),
        "children_spec": [_LEAF] * len(fields),
    }
    config = {
        **dict.fromkeys(("chunk_bytes", "compression", "encryption")),
        "data_format": ["str" if kind == "json" else kind for kind in fields.values()],
        "data_spec": json.dumps([1, tree]),
        "item_loader": "PyTreeLoader",
    }
    for folder, members in _lists.by_folder(shards).items():
        chunks = [
            {
                "chunk_bytes": (home / shard.path).stat().st_size,
                "chunk_size": shard.clips,
                "dim": None,
                "filename": Path(shard.path).name,
            }
            for shard in members
        ]
        index = {
            "chunks": chunks,
            "config": {**config, "chunk_size": max(shard.clips for shard in members)},
            "updated_at": hashlib.sha256(json.dumps(chunks).encode()).hexdigest()[:16],
        }
        write_atomic(home / folder / "index.json", json.dumps(index, sort_keys=True).encode())


#: The folder of each split, which `StreamingDataset` takes.
listing = partial(_lists.folders, "litdata", "index.json")
