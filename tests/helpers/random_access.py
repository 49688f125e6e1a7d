"""Strict readers of `mds` and `litdata` by the libraries' pages, and of `lance` by its library."""

import itertools
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLIPS = {"audio", "audio_enhanced"}
FIELDS = {"audio": "bytes", "audio_enhanced": "bytes", "facts": "json", "id": "str", "text": "str"}


def mds(folder: Path) -> Iterator[dict[str, Any]]:
    index = json.loads((folder / "index.json").read_text("utf-8"))
    assert index["version"] == 2
    for shard in index["shards"]:
        raw, samples, count = shard.pop("raw_data"), shard.pop("samples"), shard.pop("zip_data")
        assert count is None
        data = (folder / raw["basename"]).read_bytes()
        assert len(data) == raw["bytes"]
        header = json.dumps(shard, sort_keys=True).encode()
        names = shard["column_names"]
        assert names in ([*FIELDS], [name for name in FIELDS if name != "audio_enhanced"])
        assert shard["column_encodings"] == [FIELDS[name] for name in names]
        for sample in _samples(data, samples, header):
            yield _told(sample, names)


def litdata(folder: Path) -> Iterator[dict[str, Any]]:
    index = json.loads((folder / "index.json").read_text("utf-8"))
    version, tree = json.loads(index["config"]["data_spec"])
    names = json.loads(tree["context"])
    assert (version, len(tree["children_spec"])) == (1, len(names))
    assert names in ([*FIELDS], [name for name in FIELDS if name != "audio_enhanced"])
    types = [FIELDS[name].replace("json", "str") for name in names]
    assert index["config"]["data_format"] == types
    for chunk in index["chunks"]:
        data = (folder / chunk["filename"]).read_bytes()
        assert len(data) == chunk["chunk_bytes"]
        assert chunk["chunk_size"] <= index["config"]["chunk_size"]
        for sample in _samples(data, chunk["chunk_size"], b""):
            yield _told(sample, names)


def _samples(data: bytes, count: int, header: bytes) -> Iterator[bytes]:
    number, *places = struct.unpack_from(f"<{count + 2}I", data)
    assert number == count
    begin = 4 * (count + 2)
    assert data[begin : begin + len(header)] == header
    assert (places[0], places[-1]) == (begin + len(header), len(data))
    for low, high in itertools.pairwise(places):
        yield data[low:high]


def _told(sample: bytes, names: list[str]) -> dict[str, Any]:
    sizes, fields = struct.unpack_from(f"<{len(names)}I", sample), dict[str, Any]()
    place = 4 * len(names)
    for name, size in zip(names, sizes, strict=True):
        fields[name], place = sample[place : place + size], place + size
    assert place == len(sample)
    facts = json.loads(fields.pop("facts"))
    return {
        **facts,
        **{name: fields[name] for name in CLIPS & fields.keys()},
        **{name: fields[name].decode() for name in ("id", "text")},
    }


def lance(folder: Path) -> Iterator[dict[str, Any]]:
    import lance as library

    table = library.dataset(str(folder))
    for number in range(table.count_rows()):
        yield from table.take([number]).to_pylist()


READERS = {"mds": mds, "litdata": litdata, "lance": lance}
