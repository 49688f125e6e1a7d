"""Parquet files with an Audio column as the `datasets` library writes it: struct(bytes, path).

`path` is one file, a folder or a glob. Only the small columns are read while listing; whether a
cell holds bytes is told by the column's statistics, and the audio itself is looked at only in
row groups where that is not enough.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from tasks import storage
from tasks.errors import ConfigError, ItemError
from tasks.recording import Ignored, Locator, Recording
from tasks.settings import SourceSettings
from tasks.sources._containers import containers
from tasks.sources._shared import (
    failed,
    find,
    located,
    sane_name,
    source_text,
    text_field,
    text_of,
    top,
)
from tasks.storage import urls

TEXT = ("text", "sentence", "transcription", "transcript", "normalized_text")
SPEAKER = ("speaker", "speaker_id")
LANGUAGE = ("language", "lang", "locale")

#: Rows read at a time: of the small columns, and of audio where it must be looked at.
ROWS, AUDIO_ROWS = 1024, 8

Listed = Iterator[Recording | Ignored]


class Settings(SourceSettings):
    kind: Literal["hf_parquet"] = "hf_parquet"
    root: str | None = Field(
        None, description="Folder that relative paths in cells start from; default: the file's."
    )
    audio_column: str | None = Field(None, description="Default: the first struct(bytes, path).")
    text_column: str | None = Field(None, description=f"Default: the first of {', '.join(TEXT)}.")
    id_column: str | None = Field(None, description="Default: id, else the path in the audio.")
    speaker_column: str | None = Field(None, description="Default: speaker, speaker_id.")
    language_column: str | None = Field(None, description="Default: language, lang, locale.")


@dataclass(frozen=True, slots=True)
class _Columns:
    audio: str
    has_path: bool
    text: str | None
    id: str | None
    speaker: str | None
    language: str | None


def _wanted(name: str) -> bool:
    return name.lower().endswith(".parquet")


def recordings(settings: Settings) -> Listed:
    """Lists at the first step; ConfigError at once if no file can be opened as asked."""
    found = containers(
        settings.path, lambda name: name.lower().endswith(".parquet"), "Parquet file"
    )
    root = top(settings.root)[0] if settings.root else None
    try:
        # One file is opened now, so that a wrong column is told before anything runs.
        with _open(found.files[0][1]) as file:
            _columns(file.schema_arrow, settings)
    except ItemError as error:
        if len(found.files) == 1 or error.code == "unsupported":
            name = text_of(found.files[0][1])
            raise ConfigError(f"source {name!r} cannot be used: {error.detail}") from None
    return _all(found.files, found.ignored, settings, root)


def _all(
    files: list[tuple[str, str]], ignored: list[Ignored], settings: Settings, root: str | None
) -> Listed:
    yield from ignored
    for name, path in files:
        safe, rest = sane_name(name), f"{source_text(path)}!rest"
        try:
            yield from _file(safe, path, settings, root or os.path.dirname(path))
        except ItemError as error:
            yield failed(f"{safe}!rest", rest, path, error.code, error.detail)
        except UnicodeDecodeError:  # pyarrow's, of a name in a damaged footer
            detail = "a name in its footer is not UTF-8"
            yield failed(f"{safe}!rest", rest, path, "unreadable", detail)


def _open(path: str) -> pq.ParquetFile:
    """ItemError `unreadable`, or `missing`, where it cannot be opened."""
    if wrong := find(path).error:
        raise ItemError(*wrong)
    try:
        if storage.is_url(path):
            return pq.ParquetFile(urls.streamed(path), pre_buffer=False, buffer_size=1 << 20)
        # As bytes: pyarrow would refuse a name that is not UTF-8.
        return pq.ParquetFile(pa.OSFile(os.fsencode(path)), pre_buffer=False, buffer_size=1 << 20)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ItemError("unreadable", f"not a readable Parquet file: {_short(error)}") from None


def _short(error: BaseException) -> str:
    return text_of(str(error)).splitlines()[0][:200] if str(error) else type(error).__name__


def _columns(schema: pa.Schema, settings: Settings) -> _Columns:
    """Which column is what; ItemError `unsupported` where the audio or a named one is not there."""
    for wanted in (
        settings.text_column,
        settings.id_column,
        settings.speaker_column,
        settings.language_column,
    ):
        if wanted is not None and wanted not in schema.names:
            raise ItemError("unsupported", f"no column {wanted!r}; it has {_names(schema)}")
    audio = settings.audio_column or next((f.name for f in schema if _is_audio(f.type)), None)
    if audio is None or audio not in schema.names or not _is_audio(schema.field(audio).type):
        wanted = f"column {audio!r} of" if audio else "column of type"
        raise ItemError("unsupported", f"no {wanted} struct(bytes, path); it has {_names(schema)}")

    def first(given: str | None, names: tuple[str, ...]) -> str | None:
        usable = (n for n in names if n in schema.names and _is_value(schema.field(n).type))
        return given or next(usable, None)

    return _Columns(
        audio=audio,
        has_path=schema.field(audio).type.get_field_index("path") >= 0,
        text=first(settings.text_column, TEXT),
        id=first(settings.id_column, ("id",)),
        speaker=first(settings.speaker_column, SPEAKER),
        language=first(settings.language_column, LANGUAGE),
    )


def _names(schema: pa.Schema) -> str:
    return ", ".join(schema.names) or "none"


def _is_audio(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        return False
    inner = kind.field("bytes").type
    return bool(pa.types.is_binary(inner) or pa.types.is_large_binary(inner))


def _is_value(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind)
    )


def _file(name: str, path: str, settings: Settings, root: str) -> Listed:
    with _open(path) as file:
        mark = find(path).guard
        columns = _columns(file.schema_arrow, settings)
        row = 0
        for group in range(file.metadata.num_row_groups):
            size, nulls = _group(file, group, columns.audio)
            held = _held(file, group, columns.audio, nulls)
            for values in _rows(file, group, columns):
                yield _recording(
                    name, path, root, columns, row, values, next(held, False), size, mark
                )
                row += 1


def _group(file: pq.ParquetFile, group: int, audio: str) -> tuple[int, int | None]:
    """Mean bytes of audio a row, and the number of cells without, None where it is not told."""
    about = file.metadata.row_group(group)
    for index in range(about.num_columns):
        column = about.column(index)
        if column.path_in_schema == f"{audio}.bytes":
            told = column.statistics
            nulls = told.null_count if told is not None and told.has_null_count else None
            return column.total_uncompressed_size // max(about.num_rows, 1), nulls
    return 0, None


def _held(file: pq.ParquetFile, group: int, audio: str, nulls: int | None) -> Iterator[bool]:
    """For each row of a group, whether the cell holds bytes; reads audio only if it must."""
    rows = file.metadata.row_group(group).num_rows
    if nulls in (0, rows):
        for _ in range(rows):
            yield nulls == 0
        return
    for batch in _batches(file, group, [f"{audio}.bytes"], AUDIO_ROWS):
        for cell in batch.column(0).field("bytes").is_valid():
            yield cell.as_py()


def _batches(
    file: pq.ParquetFile, group: int, names: list[str], rows: int
) -> Iterator[pa.RecordBatch]:
    try:
        yield from file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False)
    except (pa.ArrowException, OSError, ValueError) as error:
        detail = f"row group {group} cannot be read: {_short(error)}"
        raise ItemError("unreadable", detail) from None


def _rows(file: pq.ParquetFile, group: int, columns: _Columns) -> Iterator[dict[str, Any]]:
    """The small columns of each row, by role."""
    roles = {
        role: name
        for role in ("text", "id", "speaker", "language")
        if (name := getattr(columns, role)) is not None
    }
    names = sorted({*roles.values()})
    if columns.has_path:
        names.append(f"{columns.audio}.path")
    if not names:
        for _ in range(file.metadata.row_group(group).num_rows):
            yield {}
        return
    for batch in _batches(file, group, names, ROWS):
        try:
            cells = batch.to_pylist()
        except ValueError:
            raise ItemError("unreadable", f"row group {group}: a text is not UTF-8") from None
        for values in cells:
            found = {role: values.get(name) for role, name in roles.items()}
            found["path"] = (values.get(columns.audio) or {}).get("path")
            yield found


def _recording(
    name: str,
    path: str,
    root: str,
    columns: _Columns,
    row: int,
    values: dict[str, Any],
    held: bool,
    size: int,
    mark: str,
) -> Recording:
    error: tuple[str, str] | None = None
    locator = Locator(path, row=row, column=columns.audio)
    if not held:
        try:
            locator = Locator(located(root, values.get("path")))
            found = find(locator.path)
            size, mark, error = found.size, found.guard, found.error
        except ValueError:
            size, error = 0, ("missing", "the cell holds neither audio nor a path")
        except ItemError as refusal:
            size, error = 0, (refusal.code, refusal.detail)
    texts: dict[str, str | None] = {}
    for role in ("id", "text", "speaker", "language"):
        try:
            texts[role] = text_field(values.get(role))
        except ValueError as refusal:
            error = error or ("unreadable", f"{role}: {refusal}")
    return Recording(
        path=f"{name}/{row}",
        source_path=f"{source_text(path)}!{row}",
        locator=locator,
        size=size,
        guard=mark,
        source_id=texts.get("id") or text_field(values.get("path")),
        text=texts.get("text"),
        speaker=texts.get("speaker"),
        language=texts.get("language"),
        error=error,
    )
