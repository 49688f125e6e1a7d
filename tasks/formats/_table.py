"""Formats that are tables: the columns beside the audio, and the rows of a row group; and a clip's
measures, by which a trainer filters or weighs. This module imports every plug-in that measures."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import pyarrow as pa

from .. import plugins
from ..base import shelves
from ..base.schema import CLIP_TURN, UTTERANCES, AnyRow, ClipRow
from ..shard_store import enhanced
from . import ReadPcm, Rows, _clips

_TRANSCRIPT = (
    *("language_probability", "avg_logprob", "no_speech_probability", "compression_ratio"),
    *("words", "word_errors", "chars", "char_errors"),
    *("speech_seconds", "speech_after_text", "words_per_speech_second", "language_vote"),
)
_OF_SHELVES = {
    column
    for shelf in plugins.MEASURING
    for name in shelves.names(shelf)
    for column in plugins.columns(shelf, name)
}
_OF_SHELVES |= {enhanced.after(column) for column in plugins.columns("filters", "dnsmos")}
#: All measures of the built-in plug-ins, except the duration at the native rate: readers take a
#: column of that name for the clip's own. Measures of other plug-ins are not included. Where some
#: clips are enhanced, `audio_is` says which audio is packaged, and so which measures are its own.
MEASURES = (*_TRANSCRIPT, *sorted(_OF_SHELVES - {"duration"}), "audio_is")
#: Columns that are taken from the row as they are.
SPOKEN = ("text", "language", "speaker")
ORIGIN = ("dataset", "source_id", "recording", "start", "end", "text_source")
TOLD = ("id", *SPOKEN, *ORIGIN)
COLUMNS = (*TOLD, *_clips.COLUMNS, "sha256_enhanced", *MEASURES, "labels")
#: `datasets` has no maps, nor has the layout of files that `lance` writes. A list's field is read
#: back under Parquet's name for it.
LABELS = pa.list_(pa.field("element", pa.struct([("name", pa.string()), ("value", pa.string())])))

GROUP_ROWS = 100
GROUP_BYTES = 32 << 20  # of audio; a group has one row at least


def kinds(
    columns: Collection[str],
    clips: Mapping[str, pa.DataType],
    annotations: Mapping[str, pa.DataType],
) -> dict[str, pa.DataType]:
    """Columns of a table and their types, from those of the rows, of the audio, and of what
    `package.publish` names."""
    taken = [name for name in MEASURES if name in columns]
    types = {"id": pa.string(), **clips, **dict.fromkeys(SPOKEN, pa.string())}
    types["duration"] = pa.float64()
    for name in (*ORIGIN, *taken):
        index = UTTERANCES.get_field_index(name)
        other = pa.string() if name == "audio_is" else pa.float64()
        types[name] = UTTERANCES.field(index).type if index >= 0 else other
    types |= {"labels": LABELS} if "labels" in columns else {}
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


def measures(row: AnyRow) -> dict[str, object]:
    return {name: row[name] for name in MEASURES if name in row}


def facts(row: ClipRow, tracks: _clips.Tracks = "mix") -> AnyRow:
    """All columns of a row but those of audio; `duration` in s. Of two tracks, with the turns."""
    columns: AnyRow = row
    entries = {name: columns[name] for name in TOLD}
    entries["duration"] = _clips.duration(row["num_samples"], row["sample_rate"])
    entries |= measures(columns)
    if "labels" in row:
        pairs = [{"name": name, "value": value} for name, value in row["labels"] or ()]
        entries["labels"] = pairs or None
    entries |= _clips.published(columns)
    if tracks != "mix":
        turns: list[AnyRow] = [{**turn} for turn in _clips.turns(row, tracks)]
        cut = [{field.name: turn[field.name] for field in CLIP_TURN} for turn in turns]
        entries["turns"] = None if row.get("turns") is None else cut
    return entries


def audio(row: ClipRow, pcm: ReadPcm, encoding: _clips.Encoding) -> dict[str, bytes]:
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
    first, size = 0, 0
    for index, row in enumerate(rows):
        add = 2 * row["num_samples"]
        if index > first and (size + add > GROUP_BYTES or index - first == GROUP_ROWS):
            yield rows[first:index]
            first, size = index, 0
        size += add
    yield rows[first:]
