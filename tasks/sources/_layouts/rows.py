"""What every layout returns: rows that name audio, with its text, speaker and so on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any, Generic, NamedTuple, TypeVar

from ...recording.names import display_text
from ...storage import urls
from .. import _columns, _delimited
from .._audio_places import AS_WRITTEN, Place, place_of
from .._delimited import Form, Record
from .._lists import cell_field, json_object
from .._trainers_json import without_data_root

BLOCK = 64  # rows read at once

#: A row as its file has it: cells, or an object of JSON.
Row = TypeVar("Row")
#: Names of the columns of each role, the preferred first.
Roles = Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Described:
    """One row by role, as it is written; `audio` from the layout's root. Times in seconds.
    `record`: all its values by the file's own names."""

    audio: object
    text: object = None
    speaker: object = None
    language: object = None
    id: object = None
    start: object = None
    end: object = None
    duration: object = None
    channel: object = None
    record: Mapping[str, object] = field(default_factory=dict)


#: What a row may say beside its audio, in the order of Described's fields.
ROLES = tuple(field.name for field in fields(Described))[1:-1]


class FileRow(NamedTuple):
    """A row of a file, or its fault."""

    file: str
    number: int
    what: Described | ValueError


Rows = Callable[[], Iterator[FileRow]]


class Records(Generic[Row]):
    """The numbered rows of one file; its head is read once. `column`: the values of a column in
    some rows, None where absent; `record`: all values of a row, by name."""

    def __init__(
        self,
        rows: Callable[[], Iterator[tuple[int, Row | ValueError]]],
        column: Callable[[Sequence[Row], str], list[object]],
        record: Callable[[Row], dict[str, object]],
    ) -> None:
        self.rows, self.column, self.record = rows, column, record

    def blocks(self) -> Iterator[tuple[list[tuple[int, Row | ValueError]], list[Row]]]:
        """Blocks of consecutive rows: (all, numbered; those that can be read)."""
        numbered = self.rows()
        while block := [*islice(numbered, BLOCK)]:
            yield block, [row for _, row in block if not isinstance(row, ValueError)]

    @cached_property
    def head(self) -> list[dict[str, object]]:
        """The first records that can be read."""
        looked = islice(self.rows(), _columns.LOOKED)
        return [self.record(row) for _, row in looked if not isinstance(row, ValueError)]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of a file. `numbered`: all of them; `columns`: the audio of those that can
    be read, then their values of each of ROLES; `records`: all values of each."""

    file: str
    numbered: Sequence[tuple[int, object]]
    columns: Sequence[Sequence[object]]
    records: Callable[[], Iterator[dict[str, object]]]

    def rows(self) -> Iterator[FileRow]:
        described = map(Described, *self.columns, self.records())
        for number, row in self.numbered:
            what = row if isinstance(row, ValueError) else next(described)
            yield FileRow(self.file, number, what)


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a layout: its records and the roles of their columns. `speaker`, `language`: for
    rows without one."""

    file: str
    records: Records[Any]
    roles: Roles
    place: Place = AS_WRITTEN
    speaker: str | None = None
    language: str | None = None

    def blocks(self) -> Iterator[Block]:
        """Its rows by role, with audio named from the root."""
        for numbered, rows in self.records.blocks():
            columns = [self._named(rows), *(self._column(role, rows) for role in ROLES)]
            yield Block(self.file, numbered, columns, partial(map, self.records.record, rows))

    def rows(self) -> Iterator[FileRow]:
        """`blocks`, row by row."""
        for block in self.blocks():
            yield from block.rows()

    def audio(self) -> Iterator[object]:
        """The audio of its rows alone."""
        for _, rows in self.records.blocks():
            yield from self._named(rows)

    def _column(self, role: str, rows: Sequence[Any]) -> list[object]:
        """The values of a role in some rows."""
        names = self.roles.get(role, ())
        stated = {"speaker": self.speaker, "language": self.language}.get(role)
        if not names:
            return [stated] * len(rows)
        columns = [self.records.column(rows, name) for name in names]
        values = columns[0] if len(names) == 1 else [*map(_first, *columns)]
        if stated is not None:
            values = [stated if value in (None, "") else value for value in values]
        return values

    def _named(self, rows: Sequence[Any]) -> list[object]:
        """The audio of some rows, from the root."""
        named = self.records.column(rows, self.roles["audio"][0])
        plain = [isinstance(name, str) and name[:1] not in "{$" for name in named]
        values = [n if is_plain else _path_in(n) for n, is_plain in zip(named, plain, strict=True)]
        return values if self.place == AS_WRITTEN else [*map(self._moved, values)]

    def _moved(self, name: object) -> object:
        is_name = isinstance(name, str) and name.strip()
        return self.place.path(str(name).strip()) if is_name else name


def _path_in(audio: object) -> object:
    """A path, also of audio as `datasets` writes it to JSON: `{"path": …}`; without SpeechBrain's
    mark of the data's folder."""
    if isinstance(audio, str):
        return without_data_root(audio)
    return audio.get("path") if isinstance(audio, dict) and not audio.get("bytes") else audio


def _first(*values: object) -> object:
    """The first value that is not absent."""
    for value in values:
        if value is not None and (not isinstance(value, str) or cell_field(value) is not None):
            return value
    return None


@dataclass(frozen=True, slots=True)
class Found:
    """A folder or file as a layout reads it. `says`: what it was taken for, in words; `whole`: all
    audio below the root belongs to it, so that audio in no row is reported; `outside`: lists that
    are not read, as they are links out of the folder, as far as its rows were read."""

    layout: str
    root: str
    rows: Rows
    says: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    whole: bool = True
    outside: dict[str, None] = field(default_factory=dict)

    def audio(self) -> Iterator[object]:
        """The audio of each row that can be read, in their order."""
        if self.parts:
            for part in self.parts:
                yield from part.audio()
        else:
            yield from (row.what.audio for row in self.rows() if isinstance(row.what, Described))


def of_parts(
    layout: str, title: str, root: str, parts: Sequence[Part], whole: bool = True
) -> Found:
    """A layout of several parts with the same columns."""

    def rows() -> Iterator[FileRow]:
        for part in parts:
            yield from part.rows()

    names = [display_text(os.path.relpath(part.file, root)) for part in parts]
    files = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    one = parts[0]
    place = f" ({one.place})" if one.place != AS_WRITTEN else ""
    columns = ", ".join(
        f"{role} from {', else '.join(map(repr, names))}{place if role == 'audio' else ''}"
        for role, names in sorted(one.roles.items(), key=lambda item: item[0] != "audio")
    )
    return Found(layout, root, rows, (f"{title} ({files}): {columns}",), tuple(parts), whole)


def delimited(form: Form) -> Records[list[str]]:
    def column(rows: Sequence[list[str]], name: str) -> list[object]:
        place = form.names.index(name) if name in form.names else len(form.names)
        return [cells[place] if place < len(cells) else None for cells in rows]

    return Records(partial(_delimited.rows, form), column, partial(_delimited.by_name, form))


def objects(rows: Callable[[], Iterator[tuple[int, Record]]]) -> Records[dict[str, object]]:
    """Rows that are objects, as in JSON."""
    return Records(rows, lambda some, name: [row.get(name) for row in some], lambda row: row)


def json_lines(path: str) -> Records[dict[str, object]]:
    """The records of a list with one JSON object per line."""

    def rows() -> Iterator[tuple[int, Record]]:
        for number, line in urls.lines(path):
            try:
                yield number, json_object(line)
            except ValueError as error:
                yield number, error

    return objects(rows)


def placed(part: Part, root: str, folders: Sequence[str]) -> tuple[Part, int]:
    """The part with the place of its audio, and how many of its first files are there."""
    names = (_path_in(record.get(part.roles["audio"][0])) for record in part.records.head)
    looked = [name.strip() for name in names if isinstance(name, str) and name.strip()]
    place, present = place_of(root, looked, folders)
    return replace(part, place=place), present
