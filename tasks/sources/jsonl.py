"""A list with one JSON object a line: WeNet's raw list, NeMo's manifest, or columns by setting.

    {"key": …, "wav": …, "txt": …[, "start": …, "end": …]}              WeNet raw
    {"audio_filepath": …, "duration": …, "text": …[, "offset": …]}      NeMo

Each line's keys tell its kind. Lines that name spans of one file become one recording with
segments, in the place of the file's first line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from tasks.errors import ItemError
from tasks.recording import Ignored, Recording, Segment
from tasks.settings import SourceSettings, StageSettings
from tasks.sources._lists import (
    checked_span,
    json_object,
    read_lines,
    seconds_field,
    text_field,
    timed_words,
)
from tasks.sources._paths import list_file, list_root, resolve
from tasks.sources._spans import Line, ParsedLine, grouped

Columns = dict[str, tuple[str, ...]]

_WHO = {"speaker": ("speaker", "spk", "speaker_id"), "language": ("language", "lang")}
_WENET: Columns = {
    "audio": ("wav",),
    "id": ("key",),
    "text": ("txt",),
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


class ColumnSettings(StageSettings):
    """The keys that the list uses; times in seconds."""

    audio: str
    text: str | None = None
    id: str | None = None
    speaker: str | None = None
    language: str | None = None
    start: str | None = None
    end: str | None = None
    duration: str | None = Field(None, description="Length of the span; used where start is.")
    words: str | None = Field(
        None,
        description="Times of words in the file, in their order: a list of {word, start, end} or "
        "of [word, start, duration].",
    )


class Settings(SourceSettings):
    kind: Literal["jsonl"] = "jsonl"
    root: str | None = Field(
        None, description="Folder that relative paths start from; default: the list's folder."
    )
    columns: ColumnSettings | None = Field(
        None, description="Names of columns, where the list is neither WeNet's nor NeMo's."
    )


def recordings(settings: Settings) -> Iterator[Recording | Ignored]:
    """Reads the list lazily. ConfigError at once if it cannot be read.

    Bad lines come first, then the recordings: a file's lines may be anywhere in the list.
    """
    path = list_file(settings.path)
    root = list_root(path, settings.root)
    return grouped(path, root, _parsed(path, root, _given(settings.columns)))


def _given(columns: ColumnSettings | None) -> Columns | None:
    if columns is None:
        return None
    return {role: (name,) for role, name in columns.model_dump().items() if name is not None}


def _parsed(path: str, root: str, given: Columns | None) -> Iterator[tuple[int, ParsedLine]]:
    for number, line in read_lines(path):
        try:
            if line is None:
                raise ValueError("the line is too long")
            yield number, _parse(json_object(line), root, given)
        except (ItemError, ValueError) as error:
            yield number, error


def _parse(value: dict[str, object], root: str, given: Columns | None) -> Line:
    columns = given or (_WENET if "wav" in value else _NEMO if "audio_filepath" in value else None)
    if columns is None:
        raise ValueError("neither `wav` nor `audio_filepath`; name the columns in the settings")

    def get(role: str) -> object:
        found = (value[name] for name in columns.get(role, ()) if value.get(name) is not None)
        return next(found, None)

    path = resolve(root, get("audio"))
    start, end = seconds_field(get("start")), seconds_field(get("end"))
    duration = seconds_field(get("duration"))
    if start is not None and end is None and duration is not None:
        end = start + duration
    begin, finish = checked_span(start, end)
    segment = Segment(
        begin,
        finish,
        source_id=text_field(get("id")),
        text=text_field(get("text")),
        speaker=text_field(get("speaker")),
        language=text_field(get("language")),
        words=timed_words(get("words")),
    )
    return Line(path, str(get("audio")), start is None and end is None, segment)
