"""Which columns of a Parquet file hold the audio, and text, id, speaker and language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tasks.errors import ItemError

#: Names that each role's column may have, in order of preference.
DEFAULTS = {
    "text": ("text", "sentence", "transcription", "transcript", "normalized_text"),
    "id": ("id",),
    "speaker": ("speaker", "speaker_id"),
    "language": ("language", "lang", "locale"),
}


@dataclass(frozen=True, slots=True)
class Columns:
    """`audio`: a column of struct(bytes, path); `roles`: the column of each role that exists."""

    audio: str
    has_path: bool
    roles: Mapping[str, str]


def find_columns(schema: pa.Schema, audio: str | None, named: Mapping[str, str | None]) -> Columns:
    """The columns that the settings name, else the first that fit.

    ItemError `unsupported` if there is no audio column, or a named one is missing.
    """
    known = ", ".join(schema.names) or "none"
    for name in named.values():
        if name is not None and name not in schema.names:
            raise ItemError("unsupported", f"no column {name!r}; it has {known}")
    found = audio or next((field.name for field in schema if _is_audio(field.type)), None)
    if found is None or found not in schema.names or not _is_audio(schema.field(found).type):
        wanted = f"column {found!r} of" if found else "column of type"
        raise ItemError("unsupported", f"no {wanted} struct(bytes, path); it has {known}")
    roles = {role: named[role] or _first(schema, names) for role, names in DEFAULTS.items()}
    return Columns(
        audio=found,
        has_path=schema.field(found).type.get_field_index("path") >= 0,
        roles={role: name for role, name in roles.items() if name is not None},
    )


def _first(schema: pa.Schema, names: tuple[str, ...]) -> str | None:
    """The first of these columns that holds strings or integers."""
    return next((n for n in names if n in schema.names and _is_value(schema.field(n).type)), None)


def _is_audio(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        return False
    inner = kind.field("bytes").type
    return bool(pa.types.is_binary(inner) or pa.types.is_large_binary(inner))


def _is_value(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)
    )
