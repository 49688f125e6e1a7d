"""Recordings of the rows of a list, in memory that does not grow with their texts.

The rows are read twice: first to find the last row of each file, in a few bytes a row, then to list
each recording there, with all its rows: those that name spans become its segments.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from ..base.arrays import Bools, Int64s
from ..base.errors import ItemError
from ..recording import Ignored, Recording, Segment, tracks
from ..recording.guard import of_file
from ..recording.locator import Channels, Labels
from ..recording.names import recording_name
from ..storage import bounds
from ._channels import ChannelSettings, Names, channels_field
from ._labels import LabelSettings
from ._layouts.folders import key_of, not_listed
from ._layouts.rows import Described, Found
from ._lists import (
    Entries,
    again,
    bad_line,
    cell_field,
    checked_span,
    is_absent,
    language_field,
    line_name,
    reference_field,
    seconds_cell,
    unlisted,
)
from ._paths import listed_name, resolve

Keep = Callable[[Mapping[str, object]], Labels]  # LabelSettings.kept


class RowSettings(LabelSettings, ChannelSettings):
    """Settings of a source of rows."""


@dataclass(slots=True)  # a frozen one takes three times as long to make
class Line:
    """One parsed line. `written`: the path as in the line; `whole`: it names no span; `channels`:
    the span's channels of the file, if the list states them; `length`: it states only the span's
    length."""

    path: str
    written: str
    whole: bool
    segment: Segment
    channels: Channels | None = None
    length: bool = False

    def again(self, former: Line) -> bool:
        """Whether both lines state the same span by its length alone."""
        same = self.segment.end == former.segment.end
        return self.length and former.length and same


@dataclass(slots=True)
class _Part:
    """The lines about the same channels of a file; `segments` is an ordered set."""

    first: Line
    segments: dict[Segment, None] = field(default_factory=dict)

    def add(self, line: Line) -> str | None:
        if self.segments and (
            self.first.whole
            or line.whole
            or line.again(self.first)
            or line.segment in self.segments
        ):
            both = (self.first.whole and line.whole) or line.again(self.first)
            first = self.first if both else line
            return again("duplicate_line", first.segment.text, line.segment.text)
        self.segments[line.segment] = None
        return None

    @property
    def spans(self) -> tuple[Segment, ...] | None:
        """The spans of the file that the lines name; None for one line about all of it."""
        line = self.first
        # Word times need a segment to be cut from, even where it is the whole file.
        is_whole = (line.whole or line.length) and len(self.segments) == 1
        return None if is_whole and not line.segment.words else (*self.segments,)

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


@dataclass(slots=True)
class Group:
    """The lines of one file, by channels."""

    parts: dict[Channels | None, _Part] = field(default_factory=dict)

    def add(self, line: Line) -> str | None:
        """Adds a line; why it is skipped, if an earlier one says the same or contradicts it."""
        return self.parts.setdefault(line.channels, _Part(line)).add(line)

    def recordings(self, root: str) -> Iterator[Recording]:
        for channels, part in self.parts.items():
            yield tracks.of_channels(part.recording(root), channels, self.parts)


def listed(
    layout: Found,
    language: str | None,
    labels: LabelSettings | None = None,
    numbers: Names = MappingProxyType({}),
) -> Entries:
    """The recordings of a layout, with labels, and the source's `language` where a row has none.
    Audio below a layout's folder that no row names is skipped as `not_listed`. `numbers`: of
    channels, by name."""
    keys = np.fromiter(map(partial(key_of, layout.root), layout.audio()), np.int64)
    keep = labels.kept if labels and labels.kept_names else None
    to_line = partial(as_line, root=layout.root, stated=language, labels=keep, numbers=numbers)
    yield from _recordings(layout, _last(keys), to_line)
    if layout.whole:
        yield from not_listed(layout.root, keys)


def _last(keys: Int64s) -> Bools:
    """Which rows are the last of their file."""
    _, first = np.unique(keys[::-1], return_index=True)
    last = np.zeros(len(keys), bool)
    last[len(keys) - 1 - first] = True
    return last


def _recordings(layout: Found, last: Bools, to_line: Callable[[Described], Line]) -> Entries:
    groups: dict[str, Group] = {}
    bad = 0
    for number, row in enumerate(layout.rows(), 1):
        if isinstance(row.what, Ignored):
            yield row.what
            continue
        try:
            if not isinstance(row.what, Described):
                raise row.what
            line = to_line(row.what)
        except (ItemError, ValueError) as error:
            yield bad_line(row.file, row.number, error)
            bad += 1
            if bounds.hopeless(bad, number):
                why = f"{bad:,} of {number:,} lines cannot be used; the rest is not read"
                name = recording_name(os.path.basename(row.file))
                yield unlisted(name, row.file, ItemError("unreadable", why))
                break
            continue
        group = groups.setdefault(line.path, Group())
        if why_not := group.add(line):
            yield Ignored(line_name(row.file, row.number), why_not)
        if number > len(last) or last[number - 1]:  # the list may have grown
            yield from groups.pop(line.path).recordings(layout.root)
    for group in groups.values():
        yield from group.recordings(layout.root)


def as_line(
    row: Described,
    root: str,
    stated: str | None,
    labels: Keep | None = None,
    numbers: Names = MappingProxyType({}),
) -> Line:
    """A row as a span of a file; raises ItemError or ValueError for a faulty one. `stated`: the
    source's language; `labels`: gives those of a record."""
    audio = row.audio.strip() if isinstance(row.audio, str) else row.audio
    path = resolve(root, None if is_absent(audio) else audio)
    start, end = seconds_cell(row.start), seconds_cell(row.end)
    duration = None
    if row.from_start or (start is not None and end is None):
        duration = seconds_cell(row.duration)
    has_length = start is None and end is None and duration is not None
    if end is None and duration is not None:
        end = (start or 0.0) + duration
    begin, finish = checked_span(start, end)
    language = language_field(row.language, stated)
    segment = Segment(
        begin,
        finish,
        source_id=cell_field(row.id),
        text=reference_field(row.text, language or stated),
        speaker=cell_field(row.speaker),
        language=language,
        words=row.words,
        labels=labels(row.record) if labels else (),
    )
    whole = start is None and finish is None
    channels = None if row.channel is None else channels_field(row.channel, numbers)
    return Line(path, str(audio), whole, segment, channels, has_length and finish is not None)
