"""Parquet files with an Audio column as the `datasets` library writes it, struct(bytes, path), and
the Arrow streams of its `save_to_disk`.

`path` is one file, a folder or a glob. Listing reads only the small columns. Whether a cell holds
bytes comes from the column's statistics; audio is read only in row groups that mix both.

Excessive claims of a file are refused before memory is allocated for them. A text of more than 1 MB
fails its row. The rest of the file fails where it holds more than 64 MiB and 64 times its size, has
pages of more than 64 MiB in the columns that are listed, or 100,000 rows with neither audio nor a
path; the whole file where it claims more than 100,000 rows and more than one for each of its bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Annotated, Literal

import pyarrow.compute as pc
from pydantic import Field

from ..base.errors import ConfigError, ItemError
from ..recording import Locator, Recording, file_kinds, unreachable
from ..recording.arrow_streams import table_of
from ..recording.guard import display_path, file_state
from ..recording.locator import Labels
from ..recording.names import display_text, safe_name
from ..recording.parquet_tables import Table
from ..settings.base import READ, WORDS
from ..storage import bounds, regular
from . import _columns, _labels
from ._containers import Containers, containers
from ._lists import (
    Entries,
    SpeakerSettings,
    cell_field,
    language_field,
    reference_field,
    text_field,
    unlisted,
)
from ._parquet_columns import (
    ROLES,
    Columns,
    find_columns,
    head_of,
    values,
)
from ._paths import list_root, resolve

ARROW = ".arrow"
LOOKED_FILES = 20  # in which unused columns are looked for


Column = Annotated[str | None, Field(json_schema_extra=WORDS)]


class Settings(_labels.LabelSettings, SpeakerSettings):
    kind: Literal["hf_parquet"] = "hf_parquet"
    root: str | None = Field(
        None,
        description="Folder that relative paths in cells start from; default: the file's.",
        json_schema_extra=READ,
    )
    audio_column: Column = Field(
        None, description="Column of the audio; default: audio, or the only struct(bytes, path)."
    )
    text_column: Column = Field(
        None, description="Column of the text; default: recognised by its name, as in a table."
    )
    id_column: Column = Field(
        None, description="Column of the id; default: by its name, else the path in the audio."
    )
    speaker_column: Column = Field(None, description="Column of the speaker; default: by its name.")
    language_column: Column = Field(
        None, description="Column of the language; default: by its name."
    )


def recordings(settings: Settings) -> Entries:
    """Lists lazily. ConfigError at once if no file can be opened with these columns."""
    listed = _files(settings)
    root = list_root(listed.files[0][1], settings.root) if settings.root else None
    try:
        # Open one file now, so that a wrong column is reported before anything runs.
        with _open(listed.files[0][1], listed.opener) as file:
            _check_languages(file, _columns_of(file, settings), settings)
    except ItemError as error:
        if len(listed.files) == 1 or error.code == "unsupported":
            name = display_text(listed.files[0][1])
            raise ConfigError(f"source {name!r} cannot be used: {error.detail}") from None
    return listed.checked(_all(listed, settings, root))


def notes(settings: Settings) -> list[str]:
    """Columns of the first files that seem to hold a role and are not used; labels that no row
    has."""
    sentences: list[str] = []
    names, records = dict[str, None](), list[dict[str, object]]()
    listed = _files(settings)
    for _, path in listed.files[:LOOKED_FILES]:
        with suppress(ItemError), _open(path, listed.opener) as file:  # `recordings` reports it
            columns = _columns_of(file, settings)
            roles = {role: (name,) for role, name in columns.roles.items()}
            pattern = "{role}_column: {name}"
            used = {columns.audio, *columns.labels}
            given = {"audio": (columns.audio,), **roles}
            taken = {name for names in given.values() for name in names} | used
            others: list[dict[str, object]] = [dict.fromkeys(file.schema.names)]
            title = "Arrow" if path.endswith(ARROW) else "Parquet"
            sentences.append(_columns.given_by(title, given) + _columns.not_used(others, taken))
            sentences += _columns.of_columns(head_of(file), roles, used, "column", pattern, ROLES)
            names = dict.fromkeys([*names, *file.schema.names])
            records += [] if not columns.labels else head_of(file, [*columns.labels])
    sentences += _labels.notes(records, settings, "column", names)
    return [*dict.fromkeys(sentences)]


def _files(settings: Settings) -> Containers:
    return containers(settings.path, _holds_rows, "Parquet file", settings.follow_links)


def _holds_rows(name: str) -> bool:
    """`datasets` keeps what it computes beside a saved data set, in files called `cache-…`."""
    is_stream = name.endswith(ARROW) and not os.path.basename(name).startswith("cache-")
    return is_stream or name.lower().endswith(".parquet")


def _check_languages(file: Table, columns: Columns, settings: Settings) -> None:
    if "language" in columns.roles and not settings.language:
        name = columns.roles["language"]
        head = [{name: columns.language(row.get(name))} for row in head_of(file, [name])]
        _columns.check_languages(head, {"language": (name,)}, settings)


def _all(listed: Containers, settings: Settings, root: str | None) -> Entries:
    yield from listed.ignored
    for name, path in listed.files:
        safe = safe_name(name)
        try:
            with _open(path, listed.opener) as table:
                yield from _rows_of(table, safe, path, settings, root or os.path.dirname(path))
        except ItemError as error:
            yield unlisted(safe, path, error)


def _open(path: str, opener: regular.Opener) -> Table:
    """ItemError `unreachable`, `unreadable` or `missing` if it cannot be opened."""
    if wrong := file_state(path).error:
        raise ItemError(*wrong)
    return table_of(unreachable.opened(path, opener))


def _columns_of(table: Table, settings: Settings) -> Columns:
    named = {role: getattr(settings, f"{role}_column") for role in ROLES}
    return find_columns(table.schema, settings.audio_column, named, settings.kept_names)


def _rows_of(table: Table, name: str, path: str, settings: Settings, root: str) -> Entries:
    file = _File(name, path, root, settings, _columns_of(table, settings), file_state(path).guard)
    row = empty = 0
    for group in range(len(table.groups)):
        size, nulls = _audio(table, group, file.columns.audio)
        filled = _has_bytes(table, group, file.columns.audio, nulls)
        for cells, labels in _rows(table, group, file.columns, settings):
            has_bytes = next(filled, False)
            if not has_bytes and not cells.get("path"):
                empty += 1
                if bounds.hopeless(empty, row):
                    why = f"{empty:,} of its first {row + 1:,} rows hold neither audio nor a path"
                    raise ItemError("missing", f"{why}; the rest is not read")
            yield replace(file.recording(row, cells, size if has_bytes else None), labels=labels)
            row += 1


def _audio(table: Table, group: int, audio: str) -> tuple[int, int | None]:
    """Mean audio bytes per row, and the number of null cells (None if the file does not say)."""
    column = table.column(group, f"{audio}.bytes")
    if column is None:  # an Arrow stream has no statistics
        return table.size // max(sum(group.num_rows for group in table.groups), 1), None
    statistics = column.statistics
    nulls = statistics.null_count if statistics is not None and statistics.has_null_count else None
    return column.total_uncompressed_size // max(table.groups[group].num_rows, 1), nulls


def _has_bytes(table: Table, group: int, audio: str, nulls: int | None) -> Iterator[bool]:
    """For each row of a group, whether its cell holds bytes; reads audio only if it has to."""
    rows = table.groups[group].num_rows
    if nulls in (0, rows):
        yield from repeat(nulls == 0, rows)
        return
    for batch in table.listed(group, [f"{audio}.bytes"]):
        yield from pc.struct_field(batch.column(0), "bytes").is_valid().to_pylist()


def _rows(
    table: Table, group: int, columns: Columns, settings: Settings
) -> Iterator[tuple[dict[str, object], Labels]]:
    """Each row's values by role: text, id, speaker, language, path; and its labels."""
    names = {**columns.roles}
    if columns.has_path:
        names["path"] = f"{columns.audio}.path"
    if not names and not columns.labels:
        yield from repeat(({}, ()), table.groups[group].num_rows)
        return
    for batch in table.listed(group, sorted({*names.values(), *columns.labels})):
        columns_of = [
            values(pc.struct_field(batch[columns.audio], "path") if role == "path" else batch[name])
            for role, name in names.items()
        ]
        labels = [
            [columns.label(name, value) for value in values(batch[name])] for name in columns.labels
        ]
        for row in zip(*columns_of, *labels, strict=True):
            stated = dict(zip(columns.labels, row[len(names) :], strict=True))
            yield (
                dict(zip(names, row, strict=False)),
                settings.kept(stated),
            )


def _field(role: str, value: object, columns: Columns, stated: str | None) -> str | None:
    if role == "language":
        return language_field(columns.language(value), stated)
    if role == "text":
        return reference_field(value, stated)
    return text_field(value) if role == "path" else cell_field(value)


@dataclass(frozen=True, slots=True)
class _File:
    """A file of rows."""

    name: str
    path: str
    root: str
    settings: Settings
    columns: Columns
    guard: str

    def recording(self, row: int, cells: dict[str, object], size: int | None) -> Recording:
        """A row as a recording. `size`: of the audio in its cell, in bytes; None: it has a path."""
        error: tuple[str, str] | None = None
        guard = self.guard
        kind = file_kinds.headerless(str(cells.get("path") or ""))
        locator = Locator(self.path, row=row, column=self.columns.audio, headerless=kind)
        if size is None:
            try:
                locator = Locator(resolve(self.root, cells.get("path")))
                size, guard, error = file_state(locator.path)
            except ValueError:
                size, error = 0, ("missing", "the cell holds neither audio nor a path")
            except ItemError as refusal:
                size, error = 0, (refusal.code, refusal.detail)
        texts: dict[str, str | None] = {}
        for role, value in cells.items():
            try:
                texts[role] = _field(role, value, self.columns, self.settings.language)
            except ValueError as refusal:
                error = error or ("unreadable", f"{role}: {refusal}")
        return Recording(
            path=f"{self.name}/{row}",
            source_path=f"{display_path(self.path)}!{row}",
            locator=locator,
            size=size,
            guard=guard,
            source_id=texts.get("id") or texts.get("path"),
            text=texts.get("text"),
            speaker=texts.get("speaker"),
            language=texts.get("language"),
            error=error,
        )
