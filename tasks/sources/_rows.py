"""Recordings of the rows of a table, in memory that does not grow with their texts.

The rows are read twice: first to find the last row of each file, in a few bytes a row, then to list
each recording there, with all its rows. Most rows are simple ones, each the only row of its file:
these become recordings a block at a time, column by column, in a third of the time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import numpy as np

from ..base.arrays import Bools, Int64s
from ..base.errors import ItemError
from ..recording import Ignored, Locator, Recording, Segment, unreachable
from ..recording.locator import Labels
from ..recording.names import recording_name
from ..storage import bounds
from ..storage.local import stat_guard
from ._channels import ChannelSettings, Names, channels_field
from ._labels import LabelSettings
from ._layouts.folders import audio_below
from ._layouts.rows import Block, Described, FileRow, Found
from ._lists import (
    Entries,
    bad_line,
    cell_field,
    checked_span,
    language_field,
    line_name,
    reference_field,
    seconds_cell,
)
from ._paths import is_plain, plain_root, resolve
from ._spans import Group, Line

Keep = Callable[[Mapping[str, object]], Labels]  # LabelSettings.kept


class RowSettings(LabelSettings, ChannelSettings):
    """Settings of a source of rows."""


def listed(layout: Found, settings: RowSettings) -> Entries:
    """The recordings of a layout, with labels, and the source's language where a row has none.
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
    odd = "./" in audio or "//" in audio or audio.endswith(("/", "/."))
    return hash(os.path.normpath(audio) if odd else audio)


def _places(keys: Int64s) -> tuple[Bools, Bools]:
    """Which rows are the last, and which the only one, of their file."""
    _, first, counts = np.unique(keys[::-1], return_index=True, return_counts=True)
    last, once = np.zeros((2, len(keys)), bool)
    last[len(keys) - 1 - first] = True
    once[len(keys) - 1 - first] = counts == 1
    return last, once


def _recordings(layout: Found, keys: Int64s, settings: RowSettings) -> Entries:
    last, once = _places(keys)
    labels = settings.kept if settings.kept_names else None
    numbers = settings.channel_numbers
    groups: dict[str, Group] = {}
    position = bad = number = 0
    for row in _shortened(layout, once, settings):
        if isinstance(row, list):  # most rows
            number += len(row)
            position += len(row)
            yield from row
            continue
        number += 1
        try:
            if isinstance(row.what, ValueError):
                raise row.what
            is_last = position >= len(last) or last[position]  # the table may have grown
            position += 1
            line = _line(row.what, layout.root, settings.language, labels, numbers)
        except (ItemError, ValueError) as error:
            yield bad_line(row.file, row.number, error)
            bad += 1
            if bounds.hopeless(bad, number):
                why = f"{bad:,} of {number:,} rows cannot be used; the rest is not read"
                yield bad_line(row.file, row.number + 1, why)
                break
            continue
        group = groups.setdefault(line.path, Group())
        if why_not := group.add(line):
            yield Ignored(line_name(row.file, row.number), why_not)
        if is_last:
            yield from groups.pop(line.path).recordings(layout.root)
    for group in groups.values():
        yield from group.recordings(layout.root)


def _shortened(
    layout: Found, once: Bools, settings: RowSettings
) -> Iterator[FileRow | list[Recording]]:
    """The rows of a layout; a block of rows as recordings if each names, by a plain path, a whole
    file that no other row names, as most do."""
    before, position = plain_root(layout.root), 0
    if before is None or not layout.parts:
        yield from layout.rows()
        return
    for block in chain.from_iterable(part.blocks() for part in layout.parts):
        count = len(block.columns[0])
        only = once[position : position + count]
        position += count
        recordings = None
        if len(only) == count == len(block.numbered) and only.all():
            recordings = _whole_files(block, before, settings)
        if recordings is None:
            yield from block.rows()
        else:
            yield recordings


def _whole_files(block: Block, before: str, settings: RowSettings) -> list[Recording] | None:
    """The recordings of rows that each name a whole file below `before`, a `plain_root`; None if
    one does not, or cannot be read: faults are reported row by row."""
    written, texts, speakers, languages, ids, starts, ends, _, channels = block.columns
    count = len(written)
    if any(column.count(None) < count for column in (starts, ends, channels)):
        return None
    if {*map(type, written)} != {str}:
        return None
    names = [str(path).removeprefix(before) for path in written]
    if not all(map(is_plain, names)):
        return None
    stated, labels = settings.language, settings.kept if settings.kept_names else None
    paths = [f"{before}{name}" for name in names]
    patience = unreachable.patience
    look = os.stat if patience.unspent else lambda path: patience.read(partial(os.stat, path))
    try:
        codes = _each(languages, partial(language_field, stated=stated))
        keys, voices = _each(ids, cell_field), _each(speakers, cell_field)
        references = [*map(reference_field, texts, [code or stated for code in codes])]
        files = [*map(look, paths)]
    except (OSError, ValueError):
        return None
    if not all(stat.S_ISREG(file.st_mode) for file in files):
        return None
    kept = [*map(labels, block.records())] if labels else [()] * count
    sizes, none = [file.st_size for file in files], [None] * count
    places = names, paths, map(Locator, paths), sizes, map(stat_guard, files)
    return [*map(Recording, *places, keys, references, voices, codes, none, none, none, kept)]


def _each(values: Sequence[object], read: Callable[[object], str | None]) -> list[str | None]:
    """`read` of each cell, called once for equal texts."""
    if {*map(type, values)} <= {str, type(None)}:
        results = {value: read(value) for value in {*values}}
        return [results[value] for value in values]
    return [*map(read, values)]


def _line(
    row: Described, root: str, stated: str | None, labels: Keep | None, numbers: Names
) -> Line:
    """A row as a span of a file; raises ItemError or ValueError for a faulty one. `stated`: the
    source's language; `labels`: gives those of a record; `numbers`: of channels, by name."""
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
        labels=labels(row.record) if labels else (),
    )
    whole = start is None and end is None
    channels = None if row.channel is None else channels_field(row.channel, numbers)
    return Line(path, str(audio), whole, segment, channels)
