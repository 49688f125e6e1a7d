"""What every layout gives: rows that name audio and say what is known of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from tasks.recording.names import display_text
from tasks.sources import _columns
from tasks.sources._audio_places import AS_WRITTEN, Place, place_of
from tasks.sources._delimited import Form, Record, records
from tasks.sources._lists import cell_field, json_object
from tasks.storage import urls

#: Names of the columns of each role, the preferred first.
Roles = Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Described:
    """One row by role, as it is written; `audio` from the layout's root. Times in seconds.
    `record`: all that it has, by the file's own names."""

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
    """A row of a file, or what is wrong with it."""

    file: str
    number: int
    what: Described | ValueError


Rows = Callable[[], Iterator[FileRow]]


class Records:
    """The records of one file, numbered; its first ones are read once."""

    def __init__(self, rows: Callable[[], Iterator[tuple[int, Record]]]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[tuple[int, Record]]:
        return self._rows()

    @cached_property
    def head(self) -> list[dict[str, object]]:
        """The first records that can be read."""
        looked = islice(self, _columns.LOOKED)
        return [record for _, record in looked if not isinstance(record, ValueError)]


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a layout: its records and the roles of their columns. `speaker`, `language`: of
    rows that name none."""

    file: str
    records: Records
    roles: Roles
    place: Place = AS_WRITTEN
    speaker: str | None = None
    language: str | None = None

    def rows(self) -> Iterator[FileRow]:
        """Its rows by role, for which audio is named from the root."""
        audio = self.roles["audio"][0]
        taken = [self.roles.get(role, ()) for role in ROLES]
        alone = [names[0] if len(names) == 1 else None for names in taken]
        further = [(place, names) for place, names in enumerate(taken) if len(names) > 1]
        given = [("speaker", self.speaker), ("language", self.language)]
        stated = [(ROLES.index(role), value) for role, value in given if value is not None]
        moved = self.place != AS_WRITTEN
        for number, record in self.records:
            if isinstance(record, ValueError):
                yield FileRow(self.file, number, record)
                continue
            values = [None if name is None else record.get(name) for name in alone]
            for place, names in further:
                values[place] = _first(record, names)
            for place, value in stated:
                if values[place] in (None, ""):
                    values[place] = value
            named = _path_in(record.get(audio))
            named = self._named(named) if moved else named
            text, speaker, language, key, start, end, duration, channel = values
            described = Described(
                named, text, speaker, language, key, start, end, duration, channel, record
            )
            yield FileRow(self.file, number, described)

    def audio(self) -> Iterator[object]:
        """The audio of its rows alone."""
        audio, moved = self.roles["audio"][0], self.place != AS_WRITTEN
        for _, record in self.records:
            if not isinstance(record, ValueError):
                named = _path_in(record.get(audio))
                yield self._named(named) if moved else named

    def _named(self, name: object) -> object:
        is_name = isinstance(name, str) and name.strip()
        return self.place.path(str(name).strip()) if is_name else name


def _path_in(audio: object) -> object:
    """A path as it is, or of an audio as `datasets` writes it to JSON: `{"path": …}`."""
    return audio.get("path") if isinstance(audio, dict) and not audio.get("bytes") else audio


def _first(record: dict[str, object], names: tuple[str, ...]) -> object:
    """The value of the first of these columns that has one."""
    for name in names:
        value = record.get(name)
        if value is not None and (not isinstance(value, str) or cell_field(value) is not None):
            return value
    return None


@dataclass(frozen=True, slots=True)
class Found:
    """A folder or file as a layout reads it. `says`: what it was taken for, in words; `whole`: all
    audio below the root belongs to it, so that what no row names is told."""

    layout: str
    root: str
    rows: Rows
    says: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    whole: bool = True

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
    """A layout that is made of parts, which have the same columns."""

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


def delimited(form: Form) -> Records:
    return Records(lambda: records(form))


def json_lines(path: str) -> Records:
    """The records of a list with one JSON object per line."""

    def rows() -> Iterator[tuple[int, Record]]:
        for number, line in urls.lines(path):
            try:
                yield number, json_object(line)
            except ValueError as error:
                yield number, error

    return Records(rows)


def placed(part: Part, root: str, folders: Sequence[str]) -> tuple[Part, int]:
    """The part with the place at which its first audio is, and how many of it are there."""
    names = (_path_in(record.get(part.roles["audio"][0])) for record in part.records.head)
    looked = [name.strip() for name in names if isinstance(name, str) and name.strip()]
    place, present = place_of(root, looked, folders)
    return replace(part, place=place), present
