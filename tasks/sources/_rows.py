"""Recordings of the rows of a table, in memory that does not grow with their texts.

The rows are read twice: first for where each file is named for the last time, some bytes a row,
then to list each recording there, with all rows that name it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial

import numpy as np

from tasks.base.arrays import Bools, Int64s
from tasks.base.errors import ItemError
from tasks.recording import Ignored, Segment
from tasks.recording.names import recording_name
from tasks.sources._channels import channels_field
from tasks.sources._labels import LabelSettings, of_record
from tasks.sources._layouts.folders import audio_below
from tasks.sources._layouts.rows import Described, Found
from tasks.sources._lists import (
    Entries,
    bad_line,
    cell_field,
    checked_span,
    language_field,
    line_name,
    reference_field,
    seconds_cell,
)
from tasks.sources._paths import resolve
from tasks.sources._spans import Group, Line, alone
from tasks.storage import bounds


def listed(layout: Found, settings: LabelSettings) -> Entries:
    """The recordings of a layout; the source's language where a row names none, and its labels.
    Audio below a layout's folder that no row names is skipped as `not_listed`."""
    key_of = partial(_key, layout.root.rstrip("/") + "/")
    keys = np.fromiter(map(key_of, layout.audio()), np.int64)
    yield from _recordings(layout, keys, settings)
    if layout.whole:
        named = np.unique(keys)
        for path in audio_below(layout.root):
            key = hash(path)
            place = int(np.searchsorted(named, key))
            if place == len(named) or named[place] != key:
                yield Ignored(recording_name(path), "not_listed")


def _key(below: str, audio: object) -> int:
    if not isinstance(audio, str):
        return 0
    audio = audio.strip().removeprefix(below)
    # Most paths are normal already.
    return hash(os.path.normpath(audio) if "./" in audio or "//" in audio else audio)


def _last(keys: Int64s) -> Bools:
    """Which rows are the last ones of their file."""
    _, first = np.unique(keys[::-1], return_index=True)
    last = np.zeros(len(keys), bool)
    last[len(keys) - 1 - first] = True
    return last


def _recordings(layout: Found, keys: Int64s, settings: LabelSettings) -> Entries:
    last, labels = _last(keys).tolist(), settings.label_names
    groups: dict[str, Group] = {}
    position = bad = number = 0
    for row in layout.rows():
        number += 1
        try:
            if isinstance(row.what, ValueError):
                raise row.what
            is_last = position >= len(last) or last[position]  # a table that grew meanwhile
            position += 1
            line = _line(row.what, layout.root, settings.language, labels)
        except (ItemError, ValueError) as error:
            yield bad_line(row.file, row.number, error)
            bad += 1
            if bounds.hopeless(bad, number):
                why = f"{bad:,} of {number:,} rows cannot be used; the rest is not read"
                yield bad_line(row.file, row.number + 1, why)
                break
            continue
        if is_last and line.path not in groups:  # most rows
            yield alone(line, layout.root)
            continue
        group = groups.setdefault(line.path, Group())
        if why_not := group.add(line):
            yield Ignored(line_name(row.file, row.number), why_not)
        if is_last:
            yield from groups.pop(line.path).recordings(layout.root)
    for group in groups.values():
        yield from group.recordings(layout.root)


def _line(row: Described, root: str, stated: str | None, labels: Sequence[str]) -> Line:
    """A row as a span of a file; ItemError or ValueError says what is wrong with it. `stated`: the
    source's language; `labels`: names of those that it keeps."""
    audio = row.audio.strip() if isinstance(row.audio, str) else row.audio
    path = resolve(root, None if cell_field(audio) is None else audio)
    start = end = None
    if row.start is not None or row.end is not None:
        start, end = seconds_cell(row.start), seconds_cell(row.end)
        duration = None if start is None else seconds_cell(row.duration)
        if start is not None and end is None and duration is not None:
            end = start + duration
    begin, finish = checked_span(start, end)
    language = language_field(row.language, stated)
    segment = Segment(
        begin,
        finish,
        source_id=cell_field(row.id),
        text=reference_field(row.text, language or stated),
        speaker=cell_field(row.speaker),
        language=language,
        labels=of_record(row.record, labels) if labels else (),
    )
    whole = start is None and end is None
    channels = None if row.channel is None else channels_field(row.channel)
    return Line(path, str(audio), whole, segment, channels)
