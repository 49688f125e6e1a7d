"""Parquet files with an Audio column as the `datasets` library writes it, struct(bytes, path), and
the Arrow streams of its `save_to_disk`.

Listing reads only the small columns. Whether a cell holds bytes comes from the column's statistics;
audio is read only in row groups that mix both. A text of more than 1 MB fails its row; excessive
claims of a file fail its rest, before memory is allocated for them.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice, repeat
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from ..base.errors import ItemError
from ..recording import Locator, Recording, file_kinds, unreachable
from ..recording.guard import display_path, file_state
from ..recording.names import display_text, safe_name
from ..recording.parquet_tables import Table, table_of
from ..settings.base import READ
from ..storage import bounds, regular
from . import _columns, _labels, _lists
from ._columns import LOOKED, SHOWN, Column
from ._folders import Containers, containers
from ._lists import Entries, SpeakerSettings
from ._paths import list_root, resolve

ARROW = ".arrow"
LOOKED_FILES = 20  # in which unused columns are looked for
ROLES = ("text", "id", "speaker", "language")
MOST_COLUMNS = 50  # of which values are examined


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
    listed = _files(settings)
    first, opener = listed.files[0][1], listed.boundary.opener
    root = list_root(first, settings.root) if settings.root else None
    try:
        # Open one file now, so that a wrong column is reported before anything runs.
        with _open(first, opener) as file:
            columns = _columns_of(file, settings)
            if (name := columns.roles.get("language")) and not settings.language:
                head = _head(file, [name], columns.classes)
                _columns.check_languages(head, {"language": (name,)}, settings)
    except ItemError as error:
        if len(listed.files) == 1 or error.code == "unsupported":
            raise _lists.refusal(first, f"cannot be used: {error.detail}") from None
    return listed.boundary.checked(_all(listed, settings, root))


def notes(settings: Settings) -> list[str]:
    sentences: list[str] = []
    names, records = dict[str, None](), list[dict[str, object]]()
    listed = _files(settings)
    for _, path in listed.files[:LOOKED_FILES]:
        # `recordings` reports what cannot be opened.
        with suppress(ItemError), _open(path, listed.boundary.opener) as file:
            columns = _columns_of(file, settings)
            roles = {role: (name,) for role, name in columns.roles.items() if role != "path"}
            used = {columns.audio, *columns.labels}
            others: list[dict[str, object]] = [dict.fromkeys(file.schema.names)]
            title = "Arrow" if path.endswith(ARROW) else "Parquet"
            given = _columns.given_by(title, {"audio": (columns.audio,), **roles})
            unused = _columns.not_used(others, used | {*columns.roles.values()})
            sentences.append(given + unused)
            nested = [f.name for f in file.schema if pa.types.is_nested(f.type)]
            if "text" not in roles and (name := _columns.first("text", nested)):
                kind = display_text(str(file.schema.field(name).type))[:80]
                sentences.append(
                    f"the column {name!r} holds {kind}, not texts, and is not taken; write the "
                    "text as a column of its own"
                )
            values = [field.name for field in file.schema if _is_value(field.type)][:MOST_COLUMNS]
            head, pattern = _head(file, values, {}), "{role}_column: {name}"
            sentences += _columns.of_columns(head, roles, used, "column", pattern, ROLES)
            names = dict.fromkeys([*names, *file.schema.names])
            records += _head(file, columns.labels, {})
    sentences += _labels.notes(records, settings, "column", names)
    return [*dict.fromkeys(sentences)]


def _files(settings: Settings) -> Containers:
    def holds_rows(name: str) -> bool:
        # `datasets` keeps what it computes beside a saved data set, in files called `cache-…`.
        is_stream = name.endswith(ARROW) and not os.path.basename(name).startswith("cache-")
        return is_stream or name.lower().endswith(".parquet")

    return containers(settings.path, holds_rows, "Parquet file", settings.follow_links)


def _all(listed: Containers, settings: Settings, root: str | None) -> Entries:
    yield from listed.ignored
    for name, path in listed.files:
        safe = safe_name(name)
        try:
            with _open(path, listed.boundary.opener) as table:
                yield from _rows_of(table, safe, path, settings, root or os.path.dirname(path))
        except ItemError as error:
            yield _lists.unlisted(safe, path, error)


def _open(path: str, opener: regular.Opener) -> Table:
    """ItemError `unreachable`, `unreadable` or `missing` if it cannot be opened."""
    if wrong := file_state(path).error:
        raise ItemError(*wrong)
    return table_of(unreachable.opened(path, opener))


class Columns(NamedTuple):
    """`audio`: a column of struct(bytes, path); `roles`: the column of each role that exists, and
    the field of paths; `labels`: the columns of labels; `classes`: of each ClassLabel, names of its
    numbers."""

    audio: str
    roles: Mapping[str, str]
    labels: Sequence[str]
    classes: Mapping[str, Sequence[str]]


def _columns_of(table: Table, settings: Settings) -> Columns:
    """The columns that the settings name, else the first that fit. ItemError `unsupported` if there
    is no audio column, or a named one is missing."""
    schema = table.schema
    listed = ", ".join(schema.names[:SHOWN]) or "none"
    if len(schema.names) > SHOWN:
        listed += f" and {len(schema.names) - SHOWN} more"
    named: dict[str, str | None] = {role: getattr(settings, f"{role}_column") for role in ROLES}
    for name in named.values():
        if name is None:
            continue
        if name not in schema.names:
            raise ItemError("unsupported", f"no column {name!r}; it has {listed}")
        if pa.types.is_nested(kind := schema.field(name).type):
            raise ItemError("unsupported", f"column {name!r} holds {kind}, not texts"[:300])
    holding = [field.name for field in schema if _is_audio(field.type)]
    audio = settings.audio_column
    if not audio and len(holding) > 1 and "audio" not in holding:
        shown = ", ".join(map(repr, holding[:SHOWN]))
        what = f"several columns hold audio: {shown}; choose one, `audio_column: {holding[0]}`"
        raise ItemError("unsupported", what)
    audio = audio or ("audio" if "audio" in holding else next(iter(holding), None))
    if audio is None or audio not in holding:
        wanted = f"column {audio!r} of" if audio else "column of type"
        raise ItemError("unsupported", f"no {wanted} struct(bytes, path); it has {listed}")
    struct = schema.field(audio).type
    fitting = [field.name for field in schema if _is_value(field.type)]
    given = {role: named[role] or _columns.first(role, fitting) for role in ROLES}
    roles = {role: name for role, name in given.items() if name is not None}
    if struct.get_field_index("path") >= 0 and _is_value(struct.field("path").type):
        roles["path"] = f"{audio}.path"
    kept = [name for name in settings.kept_names if name in schema.names]
    labels = [name for name in kept if not pa.types.is_nested(schema.field(name).type)]
    classes = {name: _class_names(schema, name) for name in (*kept, *roles.values())}
    return Columns(audio, roles, labels, classes)


def _class_names(schema: pa.Schema, name: str) -> tuple[str, ...]:
    """The names of a ClassLabel, which `datasets` keeps in the schema's metadata."""
    try:
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        feature = about["info"]["features"][name]
        names = feature["names"] if feature["_type"] == "ClassLabel" else ()
        return tuple(map(str, names))
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()


def _head(
    table: Table, names: Sequence[str], classes: Mapping[str, Sequence[str]]
) -> list[dict[str, object]]:
    """The first rows of some columns; none if they cannot be read."""
    try:
        rows = _rows(table, 0, names, classes) if names and table.groups else iter(())
        return [*islice(rows, LOOKED)]
    except ItemError:  # listing the rows reports it
        return []


def _values(column: pa.Array) -> list[object]:
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


def _is_value(kind: pa.DataType) -> bool:
    types = pa.types  # pandas has floats where a whole number may be missing
    if types.is_dictionary(kind):
        kind = kind.value_type
    number = types.is_integer(kind) or types.is_floating(kind)
    return bool(types.is_string(kind) or types.is_large_string(kind) or number)


def _rows_of(table: Table, name: str, path: str, settings: Settings, root: str) -> Entries:
    columns, guard = _columns_of(table, settings), file_state(path).guard
    wanted = sorted({*columns.roles.values(), *columns.labels})
    row = empty = 0
    for group in range(len(table.groups)):
        size, filled = _audio(table, group, columns.audio)
        for record in _rows(table, group, wanted, columns.classes):
            has_bytes = next(filled, False)
            written = record.get(columns.roles.get("path", ""))
            if not has_bytes and not written:
                empty += 1
                if bounds.hopeless(empty, row):
                    why = f"{empty:,} of its first {row + 1:,} rows hold neither audio nor a path"
                    raise ItemError("missing", f"{why}; the rest is not read")
            kind = file_kinds.headerless(str(written or ""))
            texts, error = _texts(record, columns.roles, settings.language)
            recording = Recording(
                path=f"{name}/{row}",
                source_path=f"{display_path(path)}!{row}",
                locator=Locator(path, row=row, column=columns.audio, headerless=kind),
                size=size,
                guard=guard,
                source_id=texts.get("id") or texts.get("path"),
                text=texts.get("text"),
                speaker=texts.get("speaker"),
                language=texts.get("language"),
                error=error,
                labels=settings.kept(record),
            )
            if not has_bytes:
                _take_file(recording, root, written)
            yield recording
            row += 1


def _take_file(recording: Recording, root: str, path: object) -> None:
    """Of a row whose cell has a path in place of audio."""
    wrong: tuple[str, str] | None
    recording.size = 0
    try:
        recording.locator = Locator(resolve(root, path))
        recording.size, recording.guard, wrong = file_state(recording.locator.path)
    except ValueError:
        wrong = "missing", "the cell holds neither audio nor a path"
    except ItemError as refused:
        wrong = refused.code, refused.detail
    recording.error = wrong or recording.error


def _audio(table: Table, group: int, audio: str) -> tuple[int, Iterator[bool]]:
    """Mean audio bytes per row of a group, and of each row whether its cell holds bytes; reads
    audio only if the statistics do not tell."""
    rows = table.groups[group].num_rows
    column = table.column(group, f"{audio}.bytes")
    if column is None:  # an Arrow stream has no statistics
        size = table.size // max(sum(group.num_rows for group in table.groups), 1)
    else:
        size, statistics = column.total_uncompressed_size // max(rows, 1), column.statistics
        states = statistics is not None and statistics.has_null_count
        if states and statistics.null_count in (0, rows):
            return size, repeat(statistics.null_count == 0, rows)
    batches = table.listed(group, [f"{audio}.bytes"])
    cells = (pc.struct_field(batch.column(0), "bytes") for batch in batches)
    return size, (is_valid for cell in cells for is_valid in cell.is_valid().to_pylist())


def _rows(
    table: Table, group: int, names: Sequence[str], classes: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, object]]:
    """The rows of some columns, which may be fields (`audio.path`). `classes`: of each ClassLabel,
    names of its numbers."""
    if not names:
        yield from repeat({}, table.groups[group].num_rows)
        return

    def values(batch: pa.RecordBatch, name: str) -> list[object]:
        column, _, field = ("", "", "") if name in table.schema.names else name.rpartition(".")
        cells = _values(pc.struct_field(batch[column], field) if field else batch[name])
        named = classes.get(name)
        return [_named(cell, named) for cell in cells] if named else cells

    for batch in table.listed(group, names):
        for row in zip(*(values(batch, name) for name in names), strict=True):
            yield dict(zip(names, row, strict=True))


def _named(cell: object, names: Sequence[str]) -> object:
    return names[cell] if isinstance(cell, int) and 0 <= cell < len(names) else cell


def _texts(
    record: Mapping[str, object], roles: Mapping[str, str], stated: str | None
) -> tuple[dict[str, str | None], tuple[str, str] | None]:
    """The fields of a row by role, and what is wrong with the first that is unusable."""
    texts: dict[str, str | None] = {}
    wrong: tuple[str, str] | None = None
    for role, name in roles.items():
        value = record[name]
        try:
            if role == "language":
                texts[role] = _lists.language_field(value, stated)
            elif role == "text":
                texts[role] = _lists.reference_field(value, stated)
            else:
                read = _lists.text_field if role == "path" else _lists.cell_field
                texts[role] = read(value)
        except ValueError as refused:
            wrong = wrong or ("unreadable", f"{role}: {refused}")
    return texts, wrong
