"""Hugging Face: a Parquet file an output shard, with the audio in it, in a folder for each split.

hf_parquet/<split>/000000000.parquet    a row per clip, in row groups of at most 100 rows or 32 MB

`datasets` finds the splits in the header of `hf_parquet/README.md` and the types in the metadata
`huggingface`: `audio` is an `Audio`, stored as struct<bytes, path>. Beside it stand `id`, `text`,
`language`, `speaker`, `duration` (s), where the clip comes from, and its measures; what
`package.publish` names; `labels`, where a source keeps some; and with `package.audio: both` the
enhanced clip, `audio_enhanced`. With `tracks`, audio is stereo, and `turns` have the track of their
speaker, `channel`. Names do not tell how many files there are, so that a version that grows keeps
them.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..base.schema import CLIP_TURN, ClipRow
from ..storage.local import HashedFile
from . import Output, OutputShard, ReadPcm, Rows, _clips, _lists, _table

VERSION = 2
COLUMNS = (*_table.COLUMNS, *_clips.TRACK_COLUMNS)

AUDIO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
REPEATED = ["language", "speaker", "dataset", "recording", "text_source"]
_NAMES = {
    **{pa.string(): "string", pa.int64(): "int64", pa.bool_(): "bool"},
    **{pa.float32(): "float32", pa.float64(): "float64"},
}
check_weights, rates = _clips.check_weights, _clips.rates
own_channels, needs = _clips.own_channels, _clips.needs
HOLDS_ANNOTATIONS = True
SNIPPET = (
    "python",
    """\
import io
import os

import soundfile
from datasets import Audio, load_dataset

rows = load_dataset(os.getcwd(), split="{split}")
# `datasets` decodes by torchcodec; without it, decode the bytes like this.
for row in rows.cast_column("audio", Audio(decode=False)):
    samples, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]))
    print(row["id"], len(samples) / rate, row["text"])
""",
)
Settings = _clips.TrackedSettings


def columns(settings: Settings) -> tuple[str, ...]:
    return _table.COLUMNS if settings.tracks == "mix" else COLUMNS


def files(split: str, number: int, rows: pa.Table, settings: Settings) -> list[str]:
    return [f"hf_parquet/{split}/{number:09d}.parquet"]


def _schema(row: ClipRow, settings: Settings) -> pa.Schema:
    """Columns of a file, from one of its rows: all rows of a version have the same measures."""
    clips = dict.fromkeys(_clips.names(row), AUDIO)
    of_tracks = {} if settings.tracks == "mix" else {"turns": pa.list_(CLIP_TURN)}
    kinds = _table.kinds(row, clips, {**_table.annotated(row), **of_tracks})
    stereo = {"num_channels": 2} if of_tracks else {}
    audio = {"sampling_rate": row["sample_rate"], "_type": "Audio", **stereo}
    features = {name: audio if name in clips else _feature(kind) for name, kind in kinds.items()}
    described = json.dumps({"info": {"features": features}})
    return pa.schema(list(kinds.items()), metadata={"huggingface": described})


def _feature(kind: pa.DataType) -> object:
    """A type as `datasets` calls it."""
    if pa.types.is_list(kind):
        return [_feature(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: _feature(field.type) for field in kind}
    return {"dtype": _NAMES[kind], "_type": "Value"}


def write(shard: OutputShard, rows: Rows, pcm: ReadPcm, out: Output, settings: Settings) -> None:
    schema = _schema(rows[0], settings)
    clips = _clips.names(rows[0])
    facts = [name for name in schema.names if name not in clips]
    packed = dict.fromkeys([*facts, *(f"{name}.path" for name in clips)], "zstd")
    options = {
        # Samples hardly shrink, and a reader that wants one clip should not unpack a page.
        "compression": packed | {f"{name}.bytes": "none" for name in clips},
        "use_dictionary": REPEATED,
        "write_statistics": facts,
        "write_page_checksum": True,
    }
    with out.create(shard.path) as raw:
        file = HashedFile(raw)
        with pq.ParquetWriter(file, schema, **options) as parquet:
            for group in _table.groups(rows):
                entries = []
                for row in group:
                    path = f"{row['id']}.{settings.audio}"
                    files_of_row = _table.audio(row, pcm, settings.encoding).items()
                    audio = {name: {"bytes": data, "path": path} for name, data in files_of_row}
                    entries.append({**_table.facts(row, settings.tracks), **audio})
                table = pa.Table.from_pylist(entries, schema=schema)
                parquet.write_table(table, row_group_size=len(group))
    out.hashes[shard.path] = (file.sha.hexdigest(), file.size)


def check(shard: OutputShard, rows: Rows, out: Output, settings: Settings) -> list[str]:
    """Schema, order, all values and the decoded PCM."""
    faults = out.changed(shard.path)
    due = iter(rows)
    with pq.ParquetFile(out.home / shard.path, page_checksum_verification=True) as file:
        if not file.schema_arrow.equals(_schema(rows[0], settings), check_metadata=True):
            return [f"{shard.path} does not have the columns and types of this format"]
        if file.metadata.num_rows != len(rows):
            return [f"{shard.path} has {file.metadata.num_rows} rows, not {len(rows)}"]
        for number in range(file.num_row_groups):
            table = file.read_row_group(number, use_threads=False)
            names = [*_clips.names(rows[0])]
            columns = [table[name].combine_chunks() for name in names]
            for index, facts in enumerate(table.drop_columns(names).to_pylist()):
                row = next(due)
                audio = [column.field("bytes")[index] for column in columns]
                faults += _table.faults(shard.path, row, facts, audio, settings.encoding)
                paths = {column.field("path")[index].as_py() for column in columns}
                if paths != {f"{row['id']}.{settings.audio}"}:
                    faults.append(f"{shard.path}: {row['id']} has another path than its row")
    return faults


def finish(shards: Sequence[OutputShard], home: Path, settings: Settings) -> None:
    """`README.md`, which names the splits to `datasets`."""
    _lists.write_splits(shards, home / "hf_parquet", "{split}/*.parquet")
