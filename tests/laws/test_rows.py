"""The types of rows say what the schemas say: each column, its type, and what it holds inside."""

from __future__ import annotations

import types
from datetime import datetime
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pytest

from tasks.base import schema
from tasks.publish import planned_columns

#: What Python has for a value of Arrow's type.
VALUES = {
    pa.string(): str,
    pa.int64(): int,
    pa.int32(): int,
    pa.float64(): float,
    pa.bool_(): bool,
    pa.binary(): bytes,
    pa.timestamp("us", tz="UTC"): datetime,
}


def plain(hint: Any) -> Any:
    """A column's annotation without `NotRequired` and `None`."""
    while get_origin(hint) is NotRequired:
        (hint,) = get_args(hint)
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (each for each in get_args(hint) if each is not type(None))
    return hint


def columns(row: type) -> dict[str, Any]:
    hints = get_type_hints(row, include_extras=True)
    return {name: plain(hint) for name, hint in hints.items()}


def differences(place: str, kind: pa.DataType, hint: Any) -> list[str]:
    """Where a type and an annotation disagree."""
    hint = plain(hint)
    if pa.types.is_struct(kind):
        return of_fields(place, list(kind), hint)
    if pa.types.is_list(kind):
        if get_origin(hint) is not list:
            return [f"{place}: a list is annotated as {hint}"]
        return differences(f"{place}[]", kind.value_type, get_args(hint)[0])
    if pa.types.is_map(kind):
        pair = get_args(get_args(hint)[0])
        if get_origin(hint) is not list or len(pair) != 2:
            return [f"{place}: a map is annotated as {hint}"]
        key, value = pair
        return [
            *differences(f"{place} key", kind.key_type, key),
            *differences(f"{place} value", kind.item_type, value),
        ]
    return [] if hint is VALUES[kind] else [f"{place}: {kind} is annotated as {hint}"]


def of_fields(place: str, fields: list[pa.Field], row: type) -> list[str]:
    hints, named = columns(row), {field.name: field.type for field in fields}
    wrong = [f"{place}.{name} is in one of the two" for name in hints.keys() ^ named.keys()]
    for name in hints.keys() & named.keys():
        wrong += differences(f"{place}.{name}", named[name], hints[name])
    return sorted(wrong)


@pytest.mark.parametrize("table", schema.TABLES)
def test_a_row_type_has_the_columns_of_its_schema(table: str) -> None:
    assert of_fields(table, list(schema.TABLES[table]), schema.ROWS[table]) == []


def test_control_a_column_that_differs_is_seen() -> None:
    fields = [field for field in schema.CUTS if field.name != "rate"]
    at = schema.CUTS.get_field_index("given")
    fields[at] = pa.field("given", pa.string())
    measures = schema.CUTS.get_field_index("measures") - 1
    fields[measures] = pa.field("measures", pa.map_(pa.string(), pa.int64()))
    faults = schema.CUTS.get_field_index("faults") - 1
    fields[faults] = pa.field("faults", pa.list_(pa.struct([("start", pa.int64())])))
    assert of_fields("cuts", fields, schema.CutRow) == [
        "cuts.faults[].end is in one of the two",
        "cuts.faults[].shifts is in one of the two",
        "cuts.faults[].what is in one of the two",
        "cuts.given: string is annotated as <class 'int'>",
        "cuts.measures value: int64 is annotated as <class 'float'>",
        "cuts.rate is in one of the two",
    ]


def test_a_clip_s_row_adds_what_a_plan_adds() -> None:
    """The columns that say where its PCM is, those that settings add, and what gathers those that
    `package.publish` names."""
    added = {**planned_columns.SOURCE_COLUMNS, **planned_columns.BESIDE_COLUMNS}
    added |= planned_columns.MUTED_COLUMNS
    added |= dict.fromkeys(("sha256_enhanced", "llm_text", "audio_is", "muted"), pa.string())
    added |= {field.name: field.type for field in schema.REFERENCE_WORDS}
    added["labels"] = planned_columns.LABELS_COLUMN.type
    added["turns"] = planned_columns.TURNS_COLUMN.type
    fields = [*schema.UTTERANCES, *(pa.field(name, kind) for name, kind in added.items())]
    assert of_fields("clip", fields, schema.ClipRow) == ["clip.annotations is in one of the two"]
