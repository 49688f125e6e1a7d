"""A list of JSON objects, one per line or in one array: WeNet's raw list, NeMo's manifest, or
columns by setting.

    {"key": …, "wav": …, "txt": …[, "start": …, "end": …]}              WeNet raw
    {"id": …, "wav": …, "text": …[, "speaker": …, "language": …]}       Emilia
    {"audio_filepath": …, "duration": …, "text": …[, "offset": …]}      NeMo
    {"audio": …, "sentence": …[, "client_id": …]}                       usual names, as of a `table`

The keys of the lines tell their kind; `plan` and the run report unused keys that look like a text,
an id or a time. Lines that name spans of one file become one recording with segments, in the place
of the file's last line. A second line for a whole file is skipped, as `duplicate_line`, or as
`other_text` if its text differs. A length without a start means a span from 0, as in NeMo; if it is
the file's own length, the whole file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from ..recording.names import display_text
from ..settings.base import WORDS
from . import _channels, _columns, _labels
from ._layouts.objects import whole
from ._layouts.rows import Described, FileRow, Found, Records, json_lines
from ._lists import Entries, ListSettings, timed_words
from ._paths import list_root, text_list
from ._rows import RowSettings, listed

Columns = dict[str, tuple[str, ...]]

_WHO = {
    "speaker": ("speaker", "spk", "speaker_id"),
    "language": ("language", "lang"),
    "channel": ("channel",),
}
_WENET: Columns = {
    "audio": ("wav",),
    "id": ("key", "id"),
    "text": ("txt", "text"),
    "start": ("start",),
    "end": ("end",),
    **_WHO,
}
_NEMO: Columns = {
    "audio": ("audio_filepath",),
    "text": ("text",),
    "start": ("offset",),
    "duration": ("duration",),
    **_WHO,
}


class ColumnSettings(_columns.ColumnSettings):
    """The keys that the list uses, in place of the usual ones; empty: none is taken. Times in
    seconds."""

    duration: str | None = Field(
        None,
        description="Length of the span, from start or from 0; used where end is not.",
        json_schema_extra=WORDS,
    )
    words: str | None = Field(
        None,
        description="Times of words in the file, in their order: a list of {word, start, end} or "
        "of [word, start, duration].",
        json_schema_extra=WORDS,
    )


class Settings(RowSettings, ListSettings):
    kind: Literal["jsonl"] = "jsonl"
    columns: ColumnSettings | None = Field(
        None, description="Names of columns, where they are not recognised."
    )


def recordings(settings: Settings) -> Entries:
    """Reads the list lazily. ConfigError at once if it cannot be read."""
    path = text_list(settings.path)
    root = list_root(path, settings.root)
    records = _records(path)
    head = records.head
    given = _given(settings, head)
    columns = _columns_of(head, given)
    _columns.check_languages(head, columns, settings)
    channel = columns.get("channel", ())
    stated = settings.columns is not None and settings.columns.channel is not None
    others = not stated and any(_channels.are_others(head, name) for name in channel)
    if not others:
        _channels.check(head, channel, settings.path, settings.channel_numbers)

    def rows() -> Iterator[FileRow]:
        for number, record in records.rows():
            what: Described | ValueError
            try:
                what = record if isinstance(record, ValueError) else _described(record, given)
                if others and isinstance(what, Described):
                    what.channel = None
            except ValueError as error:
                what = error
            yield FileRow(path, number, what)

    def audio() -> Iterator[object]:
        for _, record in records.rows():
            if isinstance(record, ValueError):
                yield None
            else:
                yield _value(record, (given or _kind(record)).get("audio", ()))

    layout = Found("jsonl", root, rows, (), whole=False, only_audio=audio)
    return listed(layout, settings.language, settings, settings.channel_numbers)


def notes(settings: Settings) -> list[str]:
    """Keys that seem to hold a role and are not used; labels that no line has."""
    head = _records(text_list(settings.path)).head
    columns = _columns_of(head, _given(settings, head))
    used = {name for names in columns.values() for name in names} | {*settings.kept_names}
    keys = {name for record in head for name in record}
    present = {r: tuple(n for n in names if n in keys) for r, names in columns.items()}
    present = {role: names for role, names in present.items() if names}
    sentences = _columns.of_columns(head, present, used, "key") if columns else []
    title = f"list ({display_text(os.path.basename(settings.path))})"
    sentences.insert(0, _columns.given_by(title, present, _columns.not_used(head, used)))
    return sentences + _labels.notes(head, settings, "key")


def _given(settings: Settings, head: Sequence[dict[str, object]]) -> Columns | None:
    """The columns that the settings name, or that have usual names; None for those of WeNet's and
    NeMo's lists. Without a name for the audio, the others replace recognised columns."""
    stated = settings.columns.model_dump() if settings.columns else {}
    named: Columns = {role: (name,) for role, name in stated.items() if name is not None}
    recognised: Columns = {} if "audio" in named else _columns_of(head, None)
    if recognised and not named:
        return None  # each line by its own keys
    if not recognised and "audio" not in named:
        recognised = _usual(head)
    columns = {role: names for role, names in (recognised | named).items() if names[0]}
    return columns if "audio" in columns else None


def _usual(head: Sequence[dict[str, object]]) -> Columns:
    """The columns by the usual names of their roles, the audio also by its values."""
    keys = [*dict.fromkeys(name for record in head for name in record)]
    first = {role: _columns.first(role, keys) for role in _columns.NAMES}
    first["audio"] = first["audio"] or _columns.by_content(head, keys)
    return {role: (name,) for role, name in first.items() if name is not None}


def _records(path: str) -> Records:
    return whole(path) or json_lines(path)


def _columns_of(head: Sequence[dict[str, object]], given: Columns | None) -> Columns:
    """The columns that most lines of a list have."""
    if given is not None:
        return given
    kinds = [*map(_kind, head)]
    return max(kinds, key=kinds.count, default={})


def _kind(value: dict[str, object]) -> Columns:
    """The columns of WeNet's or NeMo's list, if a line is of one."""
    return _WENET if "wav" in value else _NEMO if "audio_filepath" in value else {}


def _value(value: dict[str, object], names: Sequence[str]) -> object:
    """The first value that is not empty."""
    return next((value[name] for name in names if value.get(name) not in (None, "")), None)


def _described(value: dict[str, object], given: Columns | None) -> Described:
    """A line by role. ValueError if none of its keys names audio, or its words are wrong."""
    columns = given or _kind(value)
    if not columns:
        raise ValueError("no key of it names audio; name it, `columns: {audio: …}` of the source")
    cells = {role: _value(value, names) for role, names in columns.items()}
    words = timed_words(cells.pop("words", None))
    return Described(**cells, record=value, words=words, from_start=True)
