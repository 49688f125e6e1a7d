"""Formats that are tables: the columns beside the audio, and the rows of a row group."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa

from ..base.schema import CLIP_TURN, AnyRow, ClipRow
from . import ReadPcm, Rows, _clips, _free, _measures, _tracks

#: Columns that are taken from the row as they are.
SPOKEN = ("text", "language", "speaker")
ORIGIN = ("dataset", "source_id", "recording", "start", "end", "text_source")
TOLD = ("id", *SPOKEN, *ORIGIN)
COLUMNS = (*TOLD, *_clips.COLUMNS, _clips.ENHANCED, *_measures.NAMES, _free.LABELS)
#: `datasets` has no maps, nor has the layout of files that `lance` writes. A list's field is read
#: back under Parquet's name for it.
LABELS = pa.list_(pa.field("element", pa.struct([("name", pa.string()), ("value", pa.string())])))

GROUP_ROWS = 100
GROUP_BYTES = 32 << 20  # of audio; a group has one row at least


def kinds(
    columns: Collection[str],
    clips: Mapping[str, pa.DataType],
    annotations: Mapping[str, pa.DataType] = MappingProxyType({}),
) -> dict[str, pa.DataType]:
    """Columns of a table and their types, from those of the rows, of the audio, and of what
    `package.publish` names."""
    taken = [name for name in _measures.NAMES if name in columns]
    types = {"id": pa.string(), **clips, **dict.fromkeys(SPOKEN, pa.string())}
    types["duration"] = pa.float64()
    types |= {name: _measures.type_of(name) for name in (*ORIGIN, *taken)}
    types |= {_free.LABELS: LABELS} if _free.LABELS in columns else {}
    return types | {name: _stored(kind) for name, kind in annotations.items()}


def annotated(row: ClipRow) -> Mapping[str, pa.DataType]:
    """The types of what `package.publish` names, by column."""
    return row["annotations"].types if "annotations" in row else {}


def _stored(kind: pa.DataType) -> pa.DataType:
    """A list's field is read back under Parquet's name for it."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _stored(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _stored(field.type)) for field in kind])
    return kind


def facts(row: ClipRow, tracks: _tracks.Tracks = "mix") -> AnyRow:
    """All columns of a row but those of audio; `duration` in s. Of two tracks, with the turns."""
    columns: AnyRow = row
    return {
        **{name: columns[name] for name in TOLD},
        "duration": _clips.duration(row["num_samples"], row["sample_rate"]),
        **_measures.of_row(columns),
        **_labels(row),
        **_free.published(columns),
        **({} if tracks == "mix" else {_free.TURNS: _turns(row, tracks)}),
    }


def _turns(row: ClipRow, tracks: _tracks.Tracks) -> list[AnyRow] | None:
    if row.get("turns") is None:
        return None
    turns: list[AnyRow] = [{**turn} for turn in _tracks.turns(row, tracks)]
    return [{field.name: turn[field.name] for field in CLIP_TURN} for turn in turns]


def _labels(row: ClipRow) -> AnyRow:
    if _free.LABELS not in row:
        return {}
    labels = [{"name": name, "value": value} for name, value in row["labels"] or ()]
    return {_free.LABELS: labels or None}


def audio(row: ClipRow, pcm: ReadPcm, encoding: _clips.Encoding) -> dict[str, bytes]:
    """The file in each column of audio."""
    names = zip(_clips.names(row), _clips.rows_of(row), strict=True)
    return {name: _clips.encoded(clip, pcm, encoding) for name, clip in names}


def faults(
    path: str,
    row: ClipRow,
    stored: AnyRow,
    files: Sequence[pa.Scalar],
    encoding: _clips.Encoding,
) -> list[str]:
    """Why a table's row, `stored` and the files in its columns of audio, is not this one."""
    place = f"{path}: {row['id']}"
    wrong = [] if stored == facts(row, encoding.tracks) else [f"{place} differs from its row"]
    for clip, file in zip(_clips.rows_of(row), files, strict=True):
        data = memoryview(file.as_buffer()).cast("B")
        wrong += _clips.faults(clip, place, data, encoding)
    return wrong


def groups(rows: Rows) -> Iterator[Rows]:
    """Rows of each row group."""
    first, size = 0, 0
    for index, row in enumerate(rows):
        add = 2 * row["num_samples"]
        if index > first and (size + add > GROUP_BYTES or index - first == GROUP_ROWS):
            yield rows[first:index]
            first, size = index, 0
        size += add
    yield rows[first:]
