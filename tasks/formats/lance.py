"""Lance: a table a split whose rows, clips among them, are read in any order.

lance/<split>/data/000000000.lance      a row per clip; `audio` holds the bytes of a file, with
                                        `package.audio: both` `audio_enhanced` those of another
lance/<split>/_versions/…614.manifest   version 1 of the table: its columns and its files

`lance.dataset("lance/train").take([7, 3])` reads it. The library would name files and versions by
random numbers and stamp them with the time; here, names count, and the manifest is the library's
own without the time and the transaction that it came from.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from ..base.errors import ConfigError
from ..base.schema import UTTERANCES_FILE, published
from ..storage import hashed, tables, write_atomic
from . import Output, OutputShard, ReadPcm, Rows, _clips, _lists, _table

VERSION = 1
COLUMNS = _table.COLUMNS
HOLDS_ANNOTATIONS = True
rates = _clips.rates
SIZED = True  # the manifest has the length of each file
LISTS = (".manifest",)
ENGINES = {"lance": "LanceDataset", "lance.file": "LanceFileWriter"}
SNIPPET = (
    "python",
    """\
import io

import lance
import soundfile

clips = lance.dataset("lance/{split}")
for clip in clips.to_table().to_pylist():  # or clips.take([7, 3]), for these alone
    samples, rate = soundfile.read(io.BytesIO(clip["audio"]))
    print(clip["id"], len(samples) / rate, clip["text"])
""",
)
Settings = _clips.EncodedSettings

#: Of the files: fixed, because a version links files that other releases of the library wrote.
MAJOR, MINOR = 2, 1
MANIFEST = f"_versions/{2**64 - 2}.manifest"  # of version 1: newer ones sort before it
#: Fields of the message `Manifest`: its time, and the transaction that made it.
TIMESTAMP, TRANSACTION = 7, 12
READ_ROWS = 100


def check_weights(settings: Settings) -> None:
    """ConfigError if the library or an encoder is missing."""
    _clips.check_weights(settings)
    if find_spec("lance") is None:
        raise ConfigError("formats.lance needs pylance: pip install 'uttermill[lance]'")


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"lance/{split}/data/{number:09d}.lance"]


def _schema(columns: Collection[str], annotations: Mapping[str, pa.DataType]) -> pa.Schema:
    """`annotations`: the types of what `package.publish` names."""
    clips = dict.fromkeys(_clips.names(columns), pa.large_binary())
    kinds = _table.kinds(columns, clips, annotations)
    return pa.schema([*kinds.items()])


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    from lance.file import LanceFileWriter

    path = out.home / shard.path
    schema = _schema(rows[0].keys(), _table.annotated(rows[0]))
    path.parent.mkdir(parents=True, exist_ok=True)
    with LanceFileWriter(str(path), schema, version=f"{MAJOR}.{MINOR}") as file:
        for group in _table.groups(rows):
            entries = [
                {**_table.facts(row), **_table.audio(row, pcm, settings.encoding)} for row in group
            ]
            file.write_batch(pa.RecordBatch.from_pylist(entries, schema=schema))
    out.hashes[shard.path] = hashed(path)


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    """Schema, order, all values and the decoded PCM."""
    if faults := out.changed(shard.path):
        return faults
    with _panics_as_errors(shard.path):
        return _read_back(shard, rows, out, settings)


def _read_back(
    shard: OutputShard, rows: Rows, out: Output, settings: _clips.EncodedSettings
) -> list[str]:
    from lance.file import LanceFileReader

    faults, read = list[str](), 0
    path = out.home / shard.path
    schema = _schema(rows[0].keys(), _table.annotated(rows[0]))
    for batch in LanceFileReader(str(path)).read_all(batch_size=READ_ROWS).to_batches():
        if not batch.schema.equals(schema):
            return [f"{shard.path} does not have the columns and types of this format"]
        names = [*_clips.names(rows[0])]
        for index, facts in enumerate(batch.drop_columns(names).to_pylist()):
            if read == len(rows):
                return [*faults, f"{shard.path} has rows after its last clip"]
            row = rows[read]
            read += 1
            audio = [batch[name][index] for name in names]
            faults += _table.faults(shard.path, row, facts, audio, settings.encoding)
    if read != len(rows):
        faults.append(f"{shard.path} has {read} rows, not {len(rows)}")
    return faults


@contextmanager
def _panics_as_errors(path: str) -> Iterator[None]:
    """ValueError where the library, written in Rust, panics at a damaged file: it raises a class
    that `except Exception` does not catch and that cannot be imported."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{path} cannot be read: {error}") from None


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    """The manifest of each split."""
    columns = tables.schema(home / UTTERANCES_FILE)
    annotations = {name: columns.field(name).type for name in published(columns)}
    schema = _schema(columns.names, annotations)
    for folder, members in _lists.by_folder(shards).items():
        fragments = [
            _fragment(shard, number, _leaves(schema), (home / shard.path).stat().st_size)
            for number, shard in enumerate(members)
        ]
        target = home / Path(folder).parent / MANIFEST
        target.parent.mkdir(exist_ok=True)
        write_atomic(target, _manifest(schema, fragments))


def _leaves(schema: pa.Schema) -> list[int]:
    """The numbers of the fields that hold values: the library numbers all fields, each before
    those within it."""
    leaves, number, waiting = list[int](), 0, [*reversed([*schema])]
    while waiting:
        kind = waiting.pop().type
        inner = [kind.field(index) for index in range(kind.num_fields)]
        leaves += [] if inner else [number]
        waiting += reversed(inner)
        number += 1
    return leaves


def _fragment(shard: OutputShard, number: int, leaves: Sequence[int], size: int) -> str:
    """A file of the table, as the library's JSON."""
    file = {
        "path": Path(shard.path).name,
        "fields": [*leaves],
        "column_indices": [*range(len(leaves))],
        "file_major_version": MAJOR,
        "file_minor_version": MINOR,
        "file_size_bytes": size,
        "base_id": None,
    }
    of_rows = {"physical_rows": shard.clips, "deletion_file": None, "row_id_meta": None}
    return json.dumps({"id": number, "files": [file], **of_rows})


def _manifest(schema: pa.Schema, fragments: Sequence[str]) -> bytes:
    """The library's manifest of a table of these files, without clock and chance.

    It ends with the offset of the message (64 bits), versions of the layout and `LANC`; the message
    follows its length (32 bits), and what the library puts before that describes the transaction.
    """
    from lance import LanceDataset, LanceOperation
    from lance.fragment import FragmentMetadata

    parts = [FragmentMetadata.from_json(fragment) for fragment in fragments]
    with tempfile.TemporaryDirectory(prefix="uttermill-lance-") as folder:
        LanceDataset.commit(folder, LanceOperation.Overwrite(schema, parts))
        data = (Path(folder) / MANIFEST).read_bytes()
    place = int.from_bytes(data[-16:-8], "little")
    size = int.from_bytes(data[place : place + 4], "little")
    message = data[place + 4 : place + 4 + size]
    kept = b"".join(f.data for f in _fields(message) if f.number not in (TIMESTAMP, TRANSACTION))
    return len(kept).to_bytes(4, "little") + kept + bytes(8) + data[-8:]


class _Field(NamedTuple):
    number: int
    data: bytes  # with its tag


def _fields(message: bytes) -> Iterator[_Field]:
    """The fields of an encoded protobuf message, in order."""
    start = 0
    while start < len(message):
        tag, end = _varint(message, start)
        match tag & 7:
            case 0:
                _, end = _varint(message, end)
            case 1:
                end += 8
            case 2:
                size, end = _varint(message, end)
                end += size
            case _:
                end += 4
        yield _Field(tag >> 3, message[start:end])
        start = end


def _varint(message: bytes, start: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = message[start]
        start, value, shift = start + 1, value | (byte & 127) << shift, shift + 7
        if byte < 128:
            return value, start


#: The folder of each split, which `lance.dataset` takes.
listing = partial(_lists.folders, "lance", MANIFEST)
