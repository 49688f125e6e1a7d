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
from collections.abc import Collection, Mapping, Sequence
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ..base.errors import ConfigError
from ..base.schema import UTTERANCES_FILE, published
from ..storage import hashed, tables, write_atomic
from . import Output, OutputShard, ReadPcm, Rows, _clips, _lists, _table

if TYPE_CHECKING:
    from google.protobuf.message import Message

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
BY_CHANCE = {"timestamp": 7, "transaction": 12}
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
    return pa.schema([*_table.kinds(columns, clips, annotations).items()])


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
    """Schema, order, all values and the decoded PCM. ValueError where the library cannot read a
    damaged file."""
    if faults := out.changed(shard.path):
        return faults
    try:
        return _read_back(shard, rows, out, settings)
    # Written in Rust, it panics with a class that `except Exception` does not catch and that cannot
    # be imported.
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{shard.path} cannot be read: {error}") from None


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


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    columns = tables.schema(home / UTTERANCES_FILE)
    annotations = {name: columns.field(name).type for name in published(columns)}
    schema = _schema(columns.names, annotations)
    leaves = _leaves(schema)
    for folder, members in _lists.by_folder(shards).items():
        fragments = []
        for number, shard in enumerate(members):
            file = {
                "path": Path(shard.path).name,
                "fields": leaves,
                "column_indices": [*range(len(leaves))],
                "file_major_version": MAJOR,
                "file_minor_version": MINOR,
                "file_size_bytes": (home / shard.path).stat().st_size,
                "base_id": None,
            }
            of_rows = {"physical_rows": shard.clips, "deletion_file": None, "row_id_meta": None}
            fragments.append(json.dumps({"id": number, "files": [file], **of_rows}))
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
    message = _message_class().FromString(data[place + 4 : place + 4 + size])
    for field in BY_CHANCE:
        message.ClearField(field)
    kept: bytes = message.SerializeToString()
    return len(kept).to_bytes(4, "little") + kept + bytes(8) + data[-8:]


@cache
def _message_class() -> type[Message]:
    """The message `Manifest`, of which only the fields to remove are known."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    file = descriptor_pb2.FileDescriptorProto(name="manifest.proto", package="uttermill")
    kind = file.message_type.add(name="Manifest")
    for name, number in BY_CHANCE.items():
        kind.field.add(name=name, number=number, type=Field.TYPE_BYTES, label=Field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    result: type[Message] = message_factory.GetMessageClass(
        pool.FindMessageTypeByName("uttermill.Manifest")
    )
    return result


#: The folder of each split, which `lance.dataset` takes.
listing = partial(_lists.folders, "lance", MANIFEST)
