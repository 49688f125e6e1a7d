"""Every column of every table: name, type, unit and meaning. `uttermill schema` prints them.

Arrow schemas are made from the TypedDicts of `rows.py`, so that rows in Python and in Parquet have
one declaration. A column is annotated with its meaning and unit: `Annotated[int, "first sample",
"samples"]`; and with an Arrow type if the Python type's default does not fit.
"""

from __future__ import annotations

import types
from datetime import datetime
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from .rows import (
    AddedRow,
    AnyRow,
    AudioRow,
    ClipRow,
    ClipTurnRow,
    CutRow,
    EnhancedRow,
    FaultRow,
    LabelledTurnRow,
    LabelPairs,
    LedgerRow,
    MeasureValue,
    MetricRow,
    Published,
    RecordingRow,
    ReferenceWordsRow,
    SegmentRow,
    SpeakerRow,
    SplitRow,
    StatedTurnRow,
    TranscriptRow,
    TurnRow,
    UtteranceRow,
    WordRow,
)

#: The default Arrow type of each Python type.
_OF_PYTHON: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime: pa.timestamp("us", tz="UTC"),
}


def about(field: pa.Field) -> tuple[str, str]:
    """(unit, meaning) of a column."""
    metadata = field.metadata or {}
    return metadata.get(b"unit", b"").decode(), metadata.get(b"doc", b"").decode()


def published(schema: pa.Schema) -> list[str]:
    """The columns of a version's rows that `package.publish` names."""
    return [field.name for field in schema if b"published" in (field.metadata or {})]


def _plain(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """An annotation without `NotRequired`, `Annotated` and `None`; and the annotated notes."""
    notes: tuple[Any, ...] = ()
    while get_origin(hint) in (NotRequired, Annotated):
        hint, *more = get_args(hint)
        notes += tuple(more)
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    return hint, notes


def arrow_type(hint: Any) -> pa.DataType:
    """The Arrow type of an annotation: a list of pairs becomes a map, a TypedDict a struct."""
    hint, notes = _plain(hint)
    for note in notes:
        if isinstance(note, pa.DataType):
            return note
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        if get_origin(item) is tuple:
            key, value = get_args(item)
            return pa.map_(arrow_type(key), arrow_type(value))
        return pa.list_(arrow_type(item))
    if hint in _OF_PYTHON:
        return _OF_PYTHON[hint]
    return pa.struct(
        [
            (name, arrow_type(part))
            for name, part in get_type_hints(hint, include_extras=True).items()
        ]
    )


def schema_of(row: type) -> pa.Schema:
    """The schema of a table with rows of this type: columns in the order of its fields, with units
    and meanings."""
    fields = []
    for name, hint in get_type_hints(row, include_extras=True).items():
        doc, unit = ([note for note in _plain(hint)[1] if isinstance(note, str)] + ["", ""])[:2]
        fields.append(pa.field(name, arrow_type(hint), metadata={"doc": doc, "unit": unit}))
    return pa.schema(fields)


#: The type of a row of each table.
ROWS: dict[str, type] = {
    "recordings": RecordingRow,
    "cuts": CutRow,
    "audio": EnhancedRow,
    "transcripts": TranscriptRow,
    "ledger": LedgerRow,
    "utterances": UtteranceRow,
    "splits": SplitRow,
    "speakers": SpeakerRow,
    "metrics": MetricRow,
}
TABLES: dict[str, pa.Schema] = {name: schema_of(row) for name, row in ROWS.items()}

RECORDINGS, CUTS, TRANSCRIPTS = TABLES["recordings"], TABLES["cuts"], TABLES["transcripts"]
#: Rows of PCM, and the same where there is enhanced PCM.
AUDIO, ENHANCED = schema_of(AudioRow), TABLES["audio"]
LEDGER, UTTERANCES = TABLES["ledger"], TABLES["utterances"]
SPLITS, SPEAKERS, METRICS = TABLES["splits"], TABLES["speakers"], TABLES["metrics"]

#: Columns of utterances that some settings add.
ADDED = schema_of(AddedRow)
#: Those where sources' texts are aligned with the audio; a rule on text may measure one of them.
REFERENCE_WORDS = tuple(schema_of(ReferenceWordsRow))
#: Labels by name; who speaks in a recording, and in a clip that holds several.
LABELS = arrow_type(LabelPairs)
TURN, CLIP_TURN = arrow_type(TurnRow), arrow_type(ClipTurnRow)
LABELLED_TURN = arrow_type(LabelledTurnRow)

#: Describes a version and names its files. Written last: a version exists once this file does.
DATASET_FILE = "dataset.json"
#: The tables of a version, each one file.
UTTERANCES_FILE, LEDGER_FILE = "utterances.parquet", "ledger.parquet"
