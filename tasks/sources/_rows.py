"""Rows that name audio, with its text, speaker and so on, as every list and layout gives them; and
the recordings of these rows, in memory that does not grow with their texts: rows are read twice,
first to find the last one of each file, then to list each recording there, with all its rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, islice
from typing import Literal, NamedTuple

import numpy as np

from ..base.errors import ItemError
from ..recording import Ignored, Recording, Segment, TimedWord, tracks
from ..recording.guard import of_file
from ..recording.locator import Channels, Labels
from ..recording.names import display_text, recording_name
from ..settings import SourceSettings
from ..storage import bounds, urls
from . import _columns, _delimited, _lists
from ._columns import ChannelSettings, Roles, channels_field
from ._delimited import Form, Record
from ._folders import key_of, not_listed
from ._labels import LabelSettings
from ._lists import Entries
from ._paths import AS_WRITTEN, listed_name, place_of, resolve


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
        looked = islice(self.rows(), _columns.LOOKED)
        return [record for _, record in looked if not isinstance(record, ValueError)]


def delimited(form: Form) -> Records:
    return Records(partial(_delimited.records, form))


def json_lines(path: str) -> Records:
    """The records of a list with one JSON object per line."""

    def rows() -> Iterator[tuple[int, Record]]:
        for number, line in urls.lines(path):
            try:
                yield number, _lists.json_object(line)
            except ValueError as error:
                yield number, error

    return Records(rows)


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a layout: its records and the roles of their columns. `place`: of its audio;
    `speaker`, `language`: for rows without one; `from_start`: as of Described."""

    file: str
    records: Records
    roles: Roles
    place: str = AS_WRITTEN
    speaker: str | None = None
    language: str | None = None
    from_start: bool = False

    def rows(self) -> Iterator[FileRow]:
        """Its rows by role, with audio named from the root."""
        for number, record in self.records.rows():
            what: Described | ValueError
            try:
                what = record if isinstance(record, ValueError) else self._described(record)
            except ValueError as error:
                what = error
            yield FileRow(self.file, number, what)

    def _described(self, record: Mapping[str, object]) -> Described:
        audio = _path_in(record.get(self.roles["audio"][0]))
        if self.place != AS_WRITTEN and isinstance(audio, str) and audio.strip():
            audio = self.place.replace(AS_WRITTEN, audio.strip())
        described = by_role(record, self.roles, audio)
        described.from_start = self.from_start
        if described.speaker in (None, ""):
            described.speaker = self.speaker
        if described.language in (None, ""):
            described.language = self.language
        return described

    def placed(self, root: str, folders: Sequence[str]) -> tuple[Part, int]:
        """The part with the place of its audio, and how many of its first files are there."""
        names = (_path_in(record.get(self.roles["audio"][0])) for record in self.records.head)
        looked = [name.strip() for name in names if isinstance(name, str) and name.strip()]
        place, present = place_of(root, looked, folders)
        return replace(self, place=place), present


def by_role(record: Mapping[str, object], roles: Roles, audio: object) -> Described:
    """An entry by role: of each, the first value that is not absent, or the last. ValueError if its
    times of words are wrong."""
    described = Described(audio, record=record)
    for role, names in roles.items():
        values = (v for v in map(record.get, names[:-1]) if v is not None)
        present = (v for v in values if not isinstance(v, str) or _lists.cell_field(v) is not None)
        value = next(present, record.get(names[-1]))
        if role == "words":
            described.words = _lists.timed_words(value)
        elif role in ("start", "end", "duration") and _columns.in_milliseconds(names[-1]):
            milliseconds = _lists.seconds_cell(value)
            setattr(described, role, None if milliseconds is None else milliseconds / 1000)
        elif role != "audio":
            setattr(described, role, value)
    return described


def _path_in(audio: object) -> object:
    """A path, also of audio as `datasets` writes it to JSON: `{"path": …}`; without SpeechBrain's
    mark of the data's folder."""
    if isinstance(audio, str):
        return _lists.without_data_root(audio)
    return audio.get("path") if isinstance(audio, dict) and not audio.get("bytes") else audio


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
        """The audio of each row, in their order; None for a row that cannot be read."""
        rows = (row.what for row in self.rows())
        return (what.audio if isinstance(what, Described) else None for what in rows)


def of_parts(
    layout: str, title: str, root: str, parts: Sequence[Part], whole: bool = True
) -> Found:
    """A layout of several parts with the same columns."""

    def rows() -> Iterator[FileRow]:
        return chain.from_iterable(part.rows() for part in parts)

    one = parts[0]
    files = display_text(os.path.relpath(one.file, root))
    files += f" and {len(parts) - 1} more" if len(parts) > 1 else ""
    place = f" ({one.place})" if one.place != AS_WRITTEN else ""
    says = _columns.given_by(f"{title} ({files})", one.roles, place)
    return Found(layout, root, rows, (says,), tuple(parts), whole)


@dataclass(slots=True)  # a frozen one takes three times as long to make
class Line:
    """One parsed line. `written`: the path as in the line; `names`: all of the file, a length from
    its beginning, or a span; `channels`: those of the file, if the list states them."""

    path: str
    written: str
    names: Literal["all", "length", "span"]
    segment: Segment
    channels: Channels | None = None


@dataclass(slots=True)
class _Part:
    """The lines about the same channels of a file; `segments`: by their times and speakers."""

    first: Line
    segments: dict[tuple[float, float | None, str | None], Segment] = field(default_factory=dict)

    def add(self, line: Line) -> str | None:
        first = self.first
        ends = line.names == "all" or first.segment.end == line.segment.end
        alike = first.names == line.names != "span" and ends
        key = line.segment.start, line.segment.end, line.segment.speaker
        if self.segments and (alike or "all" in (first.names, line.names) or key in self.segments):
            same = first.segment if alike else self.segments.get(key, line.segment)
            return _lists.again("duplicate_line", same.text, line.segment.text)
        self.segments[key] = line.segment
        return None

    @property
    def spans(self) -> tuple[Segment, ...] | None:
        """The spans of the file that the lines name; None for one line about all of it."""
        line = self.first
        # Word times need a segment to be cut from, even where it is the whole file.
        is_whole = line.names != "span" and len(self.segments) == 1
        return None if is_whole and not line.segment.words else (*self.segments.values(),)

    def recording(self, root: str) -> Recording:
        """The recording of the file, or of some of its channels."""
        line = self.first
        name, spans = listed_name(line.path, line.written, root), self.spans
        if spans is None:
            return of_file(name, line.path, line.segment)
        return replace(of_file(name, line.path), segments=spans)

    def described(self, member: Recording) -> Recording:
        """A member of an archive, as its lines describe it."""
        one, spans = self.first.segment, self.spans
        if spans is not None:
            return replace(member, segments=spans)
        key = one.source_id or member.source_id
        member = replace(member, source_id=key, text=one.text, length=one.end)
        return replace(member, speaker=one.speaker, language=one.language)


class Group(dict[Channels | None, _Part]):
    def add(self, line: Line) -> str | None:
        """Adds a line; why it is skipped, if an earlier one says the same or contradicts it."""
        return self.setdefault(line.channels, _Part(line)).add(line)

    def recordings(self, of_part: Callable[[_Part], Recording]) -> Iterator[Recording]:
        for channels, part in self.items():
            yield tracks.of_channels(of_part(part), channels, self)


def listed(layout: Found, settings: SourceSettings) -> Entries:
    """The recordings of a layout, with labels, and the source's language where a row has none.
    Audio below a layout's folder that no row names is skipped as `not_listed`."""
    keys = np.fromiter(map(partial(key_of, layout.root), layout.audio()), np.int64)
    last = np.zeros(len(keys), bool)  # whether a row is the last of its file
    last[len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]] = True
    keep = settings.kept if isinstance(settings, LabelSettings) and settings.kept_names else None
    numbers = settings.channel_numbers if isinstance(settings, ChannelSettings) else {}

    def made(part: _Part) -> Recording:
        return part.recording(layout.root)

    groups: dict[str, Group] = {}
    bad = 0
    for number, row in enumerate(layout.rows(), 1):
        if isinstance(row.what, Ignored):
            yield row.what
            continue
        try:
            if not isinstance(row.what, Described):
                raise row.what
            line = as_line(row.what, layout.root, settings.language, keep, numbers)
        except (ItemError, ValueError) as error:
            yield _lists.bad_line(row.file, row.number, error)
            bad += 1
            if bounds.hopeless(bad, number):
                why = f"{bad:,} of {number:,} lines cannot be used; the rest is not read"
                name = recording_name(os.path.basename(row.file))
                yield _lists.unlisted(name, row.file, ItemError("unreadable", why))
                break
            continue
        if why_not := groups.setdefault(line.path, Group()).add(line):
            yield Ignored(_lists.line_name(row.file, row.number), why_not)
        if number > len(last) or last[number - 1]:  # the list may have grown
            yield from groups.pop(line.path).recordings(made)
    for group in groups.values():
        yield from group.recordings(made)
    if layout.whole:
        yield from not_listed(layout.root, keys)


def as_line(
    row: Described,
    root: str,
    stated: str | None,
    labels: Callable[[Mapping[str, object]], Labels] | None = None,
    numbers: Mapping[str, int] | None = None,
) -> Line:
    """A row as a span of a file; raises ItemError or ValueError for a faulty one. `stated`: the
    source's language; `labels`: gives those of a record; `numbers`: of channels, by name."""
    audio = row.audio.strip() if isinstance(row.audio, str) else row.audio
    path = resolve(root, None if _lists.is_absent(audio) else audio)
    start, end = _lists.seconds_cell(row.start), _lists.seconds_cell(row.end)
    if start is None and end is not None and row.start is not None:
        raise ValueError("the segment has an end, but no start")
    duration = None
    if row.from_start or (start is not None and end is None):
        duration = _lists.seconds_cell(row.duration)
    has_length = start is None and end is None and duration is not None
    if end is None and duration is not None:
        end = (start or 0.0) + duration
    begin, finish = _lists.checked_span(start, end)
    language = _lists.language_field(row.language, stated)
    segment = Segment(
        begin,
        finish,
        source_id=_lists.cell_field(row.id),
        text=_lists.reference_field(row.text, language or stated),
        speaker=_lists.cell_field(row.speaker),
        language=language,
        words=row.words,
        labels=labels(row.record) if labels else (),
    )
    whole = start is None and finish is None
    channels = None if row.channel is None else channels_field(row.channel, numbers)
    names: Literal["all", "length", "span"] = "length" if has_length else "span"
    return Line(path, str(audio), "all" if whole else names, segment, channels)
