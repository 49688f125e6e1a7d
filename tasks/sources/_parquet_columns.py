"""Which columns of a Parquet file hold the audio, and text, id, speaker and language."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ..base.errors import ItemError
from ..recording.parquet_tables import Table
from ..storage import bounds
from ._columns import LOOKED, SHOWN, first

ROLES = ("text", "id", "speaker", "language")
MOST_COLUMNS = 50  # of which values are examined


@dataclass(frozen=True, slots=True)
class Columns:
    """`audio`: a column of struct(bytes, path); `roles`: the column of each role that exists;
    `languages`: names of the numbers in its column, if that is a ClassLabel; `labels`: the file's
    columns of labels, each with such names."""

    audio: str
    has_path: bool
    roles: Mapping[str, str]
    languages: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def language(self, value: object) -> object:
        """A cell of the column of languages; a ClassLabel's number as its name."""
        return _named(value, self.languages)

    def label(self, name: str, value: object) -> object:
        """A cell of a column of labels; a ClassLabel's number as its name."""
        return _named(value, self.labels[name])


def _named(value: object, names: tuple[str, ...]) -> object:
    return names[value] if isinstance(value, int) and 0 <= value < len(names) else value


def find_columns(
    schema: pa.Schema,
    audio: str | None,
    named: Mapping[str, str | None],
    labels: Sequence[str] = (),
) -> Columns:
    """The columns that the settings name, else the first that fit.

    ItemError `unsupported` if there is no audio column, or a named one is missing.
    """
    listed = ", ".join(schema.names[:SHOWN]) or "none"
    if len(schema.names) > SHOWN:
        listed += f" and {len(schema.names) - SHOWN} more"
    for name in named.values():
        if name is None:
            continue
        if name not in schema.names:
            raise ItemError("unsupported", f"no column {name!r}; it has {listed}")
        if pa.types.is_nested(kind := schema.field(name).type):
            raise ItemError("unsupported", f"column {name!r} holds {kind}, not texts"[:300])
    audio_column = audio or _chosen([field.name for field in schema if _is_audio(field.type)])
    if (
        audio_column is None
        or audio_column not in schema.names
        or not _is_audio(schema.field(audio_column).type)
    ):
        wanted = f"column {audio_column!r} of" if audio_column else "column of type"
        raise ItemError("unsupported", f"no {wanted} struct(bytes, path); it has {listed}")
    fitting = [field.name for field in schema if _is_value(field.type)]
    roles = {role: named[role] or first(role, fitting) for role in ROLES}
    return Columns(
        audio=audio_column,
        has_path=_has_path(schema.field(audio_column).type),
        roles={role: name for role, name in roles.items() if name is not None},
        languages=_class_names(schema, roles["language"]),
        labels={
            name: _class_names(schema, name)
            for name in labels
            if name in schema.names and not pa.types.is_nested(schema.field(name).type)
        },
    )


def _chosen(columns: list[str]) -> str | None:
    """The column of the audio, among those that hold some. ItemError if it is not certain."""
    if len(columns) > 1 and "audio" not in columns:
        shown = ", ".join(map(repr, columns[:SHOWN]))
        what = f"several columns hold audio: {shown}; choose one, `audio_column: {columns[0]}`"
        raise ItemError("unsupported", what)
    return "audio" if "audio" in columns else next(iter(columns), None)


def _class_names(schema: pa.Schema, name: str | None) -> tuple[str, ...]:
    """The names of a ClassLabel, which `datasets` keeps in the schema's metadata."""
    try:
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        feature = about["info"]["features"][name]
        names = feature["names"] if feature["_type"] == "ClassLabel" else ()
        return tuple(map(str, names))
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()


def head_of(table: Table, names: Sequence[str] | None = None) -> list[dict[str, object]]:
    """The first rows of some columns, or of all that hold texts or numbers; none if they
    cannot be read."""
    chosen = names or [field.name for field in table.schema if _is_value(field.type)][:MOST_COLUMNS]
    try:
        batch = next(table.listed(0, chosen), None) if chosen and table.groups else None
        if batch is None:
            return []
        columns = [values(column) for column in batch.slice(0, LOOKED).columns]
    except ItemError:  # listing the rows reports it
        return []
    return [dict(zip(chosen, row, strict=True)) for row in zip(*columns, strict=True)]


def values(column: pa.Array) -> list[object]:
    """The values of a column of texts or numbers; a ValueError in place of each text that is too
    long. ItemError if one is not UTF-8."""
    long: dict[int, ValueError] = {}
    if pa.types.is_dictionary(column.type):  # pandas' Categorical
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        sizes = pc.binary_length(column)
        if (pc.max(sizes).as_py() or 0) > bounds.MAX_TEXT_BYTES:
            wrong = enumerate(map(bounds.too_long, sizes.fill_null(0).to_pylist()))
            long = {row: ValueError(why) for row, why in wrong if why}
            column = pc.if_else(pc.less_equal(sizes, bounds.MAX_TEXT_BYTES), column, None)
    try:
        cells: list[object] = column.to_pylist()
    except ValueError:
        raise ItemError("unreadable", "a text is not UTF-8") from None
    for row, error in long.items():
        cells[row] = error
    return cells


def _is_audio(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        return False
    inner = kind.field("bytes").type
    return bool(pa.types.is_binary(inner) or pa.types.is_large_binary(inner))


def _has_path(kind: pa.StructType) -> bool:
    return kind.get_field_index("path") >= 0 and _is_value(kind.field("path").type)


def _is_value(kind: pa.DataType) -> bool:
    types = pa.types  # pandas has floats where a whole number may be missing
    if types.is_dictionary(kind):
        kind = kind.value_type
    number = types.is_integer(kind) or types.is_floating(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or number)
