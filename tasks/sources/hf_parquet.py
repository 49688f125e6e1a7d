"""Parquet files with an Audio column as the `datasets` library writes it: struct(bytes, path).

`path` is one file, a folder or a glob. Listing reads only the small columns. Whether a cell holds
bytes comes from the column's statistics; audio is read only in row groups that mix both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from tasks.errors import ConfigError, ItemError
from tasks.recording import Ignored, Locator, Recording
from tasks.recording.guard import file_state
from tasks.recording.names import display_text, safe_name
from tasks.settings import SourceSettings
from tasks.settings.base import READ, WORDS
from tasks.sources._containers import containers
from tasks.sources._lists import Entries, failed, text_field
from tasks.sources._parquet_columns import DEFAULTS, Columns, find_columns
from tasks.sources._paths import display_path, list_root, resolve
from tasks.storage import urls

#: Rows per batch: of the small columns, and of audio.
ROWS, AUDIO_ROWS = 1024, 8


class Settings(SourceSettings):
    kind: Literal["hf_parquet"] = "hf_parquet"
    root: str | None = Field(
        None,
        description="Folder that relative paths in cells start from; default: the file's.",
        json_schema_extra=READ,
    )
    audio_column: str | None = Field(
        None, description="Default: the first struct(bytes, path).", json_schema_extra=WORDS
    )
    text_column: str | None = Field(
        None,
        description=f"Default: the first of {', '.join(DEFAULTS['text'])}.",
        json_schema_extra=WORDS,
    )
    id_column: str | None = Field(
        None, description="Default: id, else the path in the audio.", json_schema_extra=WORDS
    )
    speaker_column: str | None = Field(
        None, description="Default: speaker, speaker_id.", json_schema_extra=WORDS
    )
    language_column: str | None = Field(
        None, description="Default: language, lang, locale.", json_schema_extra=WORDS
    )


def recordings(settings: Settings) -> Entries:
    """Lists lazily. ConfigError at once if no file can be opened with these columns."""
    found = containers(
        settings.path, lambda name: name.lower().endswith(".parquet"), "Parquet file"
    )
    root = list_root(found.files[0][1], settings.root) if settings.root else None
    try:
        # Open one file now, so that a wrong column is reported before anything runs.
        with _open(found.files[0][1]) as file:
            _columns(file, settings)
    except ItemError as error:
        if len(found.files) == 1 or error.code == "unsupported":
            name = display_text(found.files[0][1])
            raise ConfigError(f"source {name!r} cannot be used: {error.detail}") from None
    return _all(found.files, found.ignored, settings, root)


def _all(
    files: list[tuple[str, str]], ignored: list[Ignored], settings: Settings, root: str | None
) -> Entries:
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
        return pq.ParquetFile(urls.arrow(path), pre_buffer=False, buffer_size=1 << 20)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ItemError("unreadable", f"not a readable Parquet file: {_short(error)}") from None


def _short(error: BaseException) -> str:
    return display_text(str(error)).splitlines()[0][:200] if str(error) else type(error).__name__


def _columns(file: pq.ParquetFile, settings: Settings) -> Columns:
    named = {role: getattr(settings, f"{role}_column") for role in DEFAULTS}
    return find_columns(file.schema_arrow, settings.audio_column, named)


def _file(name: str, path: str, settings: Settings, root: str) -> Entries:
    with _open(path) as file:
        guard = file_state(path).guard
        columns = _columns(file, settings)
        row = 0
        for group in range(file.metadata.num_row_groups):
            size, nulls = _group(file, group, columns.audio)
            held = _has_bytes(file, group, columns.audio, nulls)
            for values in _rows(file, group, columns):
                yield _recording(
                    name, path, root, columns, row, values, next(held, False), size, guard
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


def _has_bytes(file: pq.ParquetFile, group: int, audio: str, nulls: int | None) -> Iterator[bool]:
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


def _rows(file: pq.ParquetFile, group: int, columns: Columns) -> Iterator[dict[str, object]]:
    """Each row's values by role: text, id, speaker, language, path."""
    names = sorted({*columns.roles.values()})
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
            found = {role: values.get(name) for role, name in columns.roles.items()}
            found["path"] = (values.get(columns.audio) or {}).get("path")
            yield found


def _recording(
    name: str,
    path: str,
    root: str,
    columns: Columns,
    row: int,
    values: dict[str, object],
    held: bool,
    size: int,
    guard: str,
) -> Recording:
    error: tuple[str, str] | None = None
    locator = Locator(path, row=row, column=columns.audio)
    if not held:
        try:
            locator = Locator(resolve(root, values.get("path")))
            found = file_state(locator.path)
            size, guard, error = found.size, found.guard, found.error
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
        guard=guard,
        source_id=texts.get("id") or text_field(values.get("path")),
        text=texts.get("text"),
        speaker=texts.get("speaker"),
        language=texts.get("language"),
        error=error,
    )
