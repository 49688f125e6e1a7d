"""Parquet files with an Audio column as the `datasets` library writes it: struct(bytes, path).

`path` is one file, a folder or a glob. Listing reads only the small columns. Whether a cell holds
bytes comes from the column's statistics; audio is read only in row groups that mix both.
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
from tasks.recording.guard import file_state
from tasks.recording.names import display_text, safe_name
from tasks.settings import SourceSettings
from tasks.sources._containers import containers
from tasks.sources._lists import failed, text_field
from tasks.sources._paths import display_path, resolve, source_root
from tasks.storage import urls

TEXT = ("text", "sentence", "transcription", "transcript", "normalized_text")
SPEAKER = ("speaker", "speaker_id")
LANGUAGE = ("language", "lang", "locale")

#: Rows per batch: of the small columns, and of audio.
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


def recordings(settings: Settings) -> Listed:
    """Lists lazily. ConfigError at once if no file can be opened with these columns."""
    found = containers(
        settings.path, lambda name: name.lower().endswith(".parquet"), "Parquet file"
    )
    root = source_root(settings.root)[0] if settings.root else None
    try:
        # Open one file now, so that a wrong column is reported before anything runs.
        with _open(found.files[0][1]) as file:
            _columns(file.schema_arrow, settings)
    except ItemError as error:
        if len(found.files) == 1 or error.code == "unsupported":
            name = display_text(found.files[0][1])
            raise ConfigError(f"source {name!r} cannot be used: {error.detail}") from None
    return _all(found.files, found.ignored, settings, root)


def _all(
    files: list[tuple[str, str]], ignored: list[Ignored], settings: Settings, root: str | None
) -> Listed:
    yield from ignored
    for name, path in files:
        safe, rest = safe_name(name), f"{display_path(path)}!rest"
        try:
            yield from _file(safe, path, settings, root or os.path.dirname(path))
        except ItemError as error:
            yield failed(f"{safe}!rest", rest, path, error.code, error.detail)
        except UnicodeDecodeError:  # pyarrow's, of a name in a damaged footer
            detail = "a name in its footer is not UTF-8"
            yield failed(f"{safe}!rest", rest, path, "unreadable", detail)


def _open(path: str) -> pq.ParquetFile:
    """ItemError `unreadable` or `missing` if it cannot be opened."""
    if wrong := file_state(path).error:
        raise ItemError(*wrong)
    try:
        if storage.is_url(path):
            return pq.ParquetFile(urls.streamed(path), pre_buffer=False, buffer_size=1 << 20)
        # As bytes: pyarrow would refuse a name that is not UTF-8.
        return pq.ParquetFile(pa.OSFile(os.fsencode(path)), pre_buffer=False, buffer_size=1 << 20)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ItemError("unreadable", f"not a readable Parquet file: {_short(error)}") from None


def _short(error: BaseException) -> str:
    return display_text(str(error)).splitlines()[0][:200] if str(error) else type(error).__name__


def _columns(schema: pa.Schema, settings: Settings) -> _Columns:
    """The column of each role. ItemError `unsupported` if audio or a named column is missing."""
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
        mark = file_state(path).guard
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
    """Mean audio bytes per row, and the number of null cells (None if the file does not say)."""
    metadata = file.metadata.row_group(group)
    for index in range(metadata.num_columns):
        column = metadata.column(index)
        if column.path_in_schema == f"{audio}.bytes":
            known = column.statistics
            nulls = known.null_count if known is not None and known.has_null_count else None
            return column.total_uncompressed_size // max(metadata.num_rows, 1), nulls
    return 0, None


def _held(file: pq.ParquetFile, group: int, audio: str, nulls: int | None) -> Iterator[bool]:
    """For each row of a group, whether its cell holds bytes; reads audio only if it has to."""
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
    """Each row's values by role: text, id, speaker, language, path."""
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
            locator = Locator(resolve(root, values.get("path")))
            found = file_state(locator.path)
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
        source_path=f"{display_path(path)}!{row}",
        locator=locator,
        size=size,
        guard=mark,
        source_id=texts.get("id") or text_field(values.get("path")),
        text=texts.get("text"),
        speaker=texts.get("speaker"),
        language=texts.get("language"),
        error=error,
    )
