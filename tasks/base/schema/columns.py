"""Makes Arrow schemas from TypedDicts, so that rows in Python and Parquet have one declaration.

A column is annotated with its meaning and unit: `Annotated[int, "first sample", "samples"]`; and
with an Arrow type if the Python type's default does not fit.
"""

from __future__ import annotations

import types
from datetime import datetime
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

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
    """The columns of a version's rows that `package.publish` names; formats with free fields write
    them in addition to the fields that they require."""
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
    return pa.struct([(name, arrow_type(part)) for name, part in _hints(hint).items()])


def schema_of(row: type) -> pa.Schema:
    """The schema of a table with rows of this type: columns in the order of its fields, with units
    and meanings."""
    fields = []
    for name, hint in _hints(row).items():
        doc, unit = ([note for note in _plain(hint)[1] if isinstance(note, str)] + ["", ""])[:2]
        fields.append(pa.field(name, arrow_type(hint), metadata={"doc": doc, "unit": unit}))
    return pa.schema(fields)


def _hints(row: type) -> dict[str, Any]:
    return get_type_hints(row, include_extras=True)
