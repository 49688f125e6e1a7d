"""What every list and layout gives: rows that name audio, with its text, speaker and so on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import NamedTuple

from ...base.errors import ItemError
from ...recording import Ignored, TimedWord
from ...recording.names import display_text
from ...storage import urls
from .. import _columns, _delimited
from .._delimited import Form, Record
from .._lists import cell_field, json_object, timed_words, without_data_root
from .._paths import AS_WRITTEN, Place, place_of

#: Names of the columns of each role, the preferred first.
Roles = Mapping[str, tuple[str, ...]]


@dataclass(slots=True)
class Described:
    """One row by role, as it is written; `audio` from the layout's root. Times in seconds.
    `record`: all its values by the file's own names. `from_start`: without a start, its duration
    counts from 0; otherwise it is not used."""

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
    words: tuple[TimedWord, ...] | None = None
    from_start: bool = False


class FileRow(NamedTuple):
    """A row of a file, or why it is none. `number`: its place in the file."""

    file: str
    number: int | str
    what: Described | Ignored | ValueError | ItemError


Rows = Callable[[], Iterator[FileRow]]


class Records:
    """The numbered rows of one file by the names of their columns; its head is read once."""

    def __init__(self, rows: Callable[[], Iterator[tuple[int, Record]]]) -> None:
        self.rows = rows

    @cached_property
    def head(self) -> list[dict[str, object]]:
        """The first records that can be read."""
        looked = islice(self.rows(), _columns.LOOKED)
        return [record for _, record in looked if not isinstance(record, ValueError)]


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a layout: its records and the roles of their columns. `speaker`, `language`: for
    rows without one."""

    file: str
    records: Records
    roles: Roles
    place: Place = AS_WRITTEN
    speaker: str | None = None
    language: str | None = None
    from_start: bool = False  # as of Described

    def rows(self) -> Iterator[FileRow]:
        """Its rows by role, with audio named from the root."""
        for number, record in self.records.rows():
            what: Described | ValueError
            try:
                what = record if isinstance(record, ValueError) else self._described(record)
            except ValueError as error:
                what = error
            yield FileRow(self.file, number, what)

    def audio(self) -> Iterator[object]:
        """The audio of its rows alone; None for a row that cannot be read."""
        for _, record in self.records.rows():
            yield None if isinstance(record, ValueError) else self._audio(record)

    def _described(self, record: Mapping[str, object]) -> Described:
        described = by_role(record, self.roles, self._audio(record))
        described.from_start = self.from_start
        if described.speaker in (None, ""):
            described.speaker = self.speaker
        if described.language in (None, ""):
            described.language = self.language
        return described

    def _audio(self, record: Mapping[str, object]) -> object:
        name = _path_in(record.get(self.roles["audio"][0]))
        if self.place == AS_WRITTEN or not isinstance(name, str) or not name.strip():
            return name
        return self.place.path(name.strip())


def by_role(record: Mapping[str, object], roles: Roles, audio: object) -> Described:
    """An entry by role. ValueError if its times of words are wrong."""
    described = Described(audio, record=record)
    for role, names in roles.items():
        if role == "words":
            described.words = timed_words(_first(record, names))
        elif role != "audio":
            setattr(described, role, _first(record, names))
    return described


def _path_in(audio: object) -> object:
    """A path, also of audio as `datasets` writes it to JSON: `{"path": …}`; without SpeechBrain's
    mark of the data's folder."""
    if isinstance(audio, str):
        return without_data_root(audio)
    return audio.get("path") if isinstance(audio, dict) and not audio.get("bytes") else audio


def _first(record: Mapping[str, object], names: Sequence[str]) -> object:
    """The first value that is not absent, or the last."""
    for name in names[:-1]:
        value = record.get(name)
        if value is not None and (not isinstance(value, str) or cell_field(value) is not None):
            return value
    return record.get(names[-1])


@dataclass(frozen=True, slots=True)
class Found:
    """A folder or file as a layout reads it. `says`: what it was taken for, in words; `whole`: all
    audio below the root belongs to it, so that audio in no row is reported; `outside`: lists that
    are not read, as they are links out of the folder, as far as its rows were read. `only_audio`:
    of each row, in less time."""

    layout: str
    root: str
    rows: Rows
    says: tuple[str, ...]
    parts: tuple[Part, ...] = ()
    whole: bool = True
    outside: dict[str, None] = field(default_factory=dict)
    only_audio: Callable[[], Iterator[object]] | None = None

    def audio(self) -> Iterator[object]:
        """The audio of each row, in their order; None for a row that cannot be read."""
        if self.only_audio:
            return self.only_audio()
        if self.parts:
            return chain.from_iterable(part.audio() for part in self.parts)
        rows = (row.what for row in self.rows())
        return (what.audio if isinstance(what, Described) else None for what in rows)


def of_parts(
    layout: str, title: str, root: str, parts: Sequence[Part], whole: bool = True
) -> Found:
    """A layout of several parts with the same columns."""

    def rows() -> Iterator[FileRow]:
        return chain.from_iterable(part.rows() for part in parts)

    names = [display_text(os.path.relpath(part.file, root)) for part in parts]
    files = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    one = parts[0]
    place = f" ({one.place})" if one.place != AS_WRITTEN else ""
    says = _columns.given_by(f"{title} ({files})", one.roles, place)
    return Found(layout, root, rows, (says,), tuple(parts), whole)


def delimited(form: Form) -> Records:
    return Records(partial(_delimited.records, form))


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
    """The part with the place of its audio, and how many of its first files are there."""
    names = (_path_in(record.get(part.roles["audio"][0])) for record in part.records.head)
    looked = [name.strip() for name in names if isinstance(name, str) and name.strip()]
    place, present = place_of(root, looked, folders)
    return replace(part, place=place), present
