"""A list with one JSON object a line: WeNet's raw list, NeMo's manifest, or columns by setting.

    {"key": …, "wav": …, "txt": …[, "start": …, "end": …]}              WeNet raw
    {"audio_filepath": …, "duration": …, "text": …[, "offset": …]}      NeMo

Each line's keys tell its kind. Lines that name spans of one file become one recording with
segments, in the place of the file's first line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from tasks.errors import ItemError
from tasks.recording import Ignored, Locator, Recording, Segment
from tasks.recording.guard import file_state
from tasks.settings import SourceSettings, StageSettings
from tasks.sources._lists import (
    bad_line,
    checked_span,
    json_object,
    line_name,
    read_lines,
    seconds_field,
    text_field,
)
from tasks.sources._paths import display_path, list_file, list_root, listed_name, resolve

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


class Settings(SourceSettings):
    kind: Literal["jsonl"] = "jsonl"
    root: str | None = Field(
        None, description="Folder that relative paths start from; default: the list's folder."
    )
    columns: ColumnSettings | None = Field(
        None, description="Names of columns, where the list is neither WeNet's nor NeMo's."
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """One parsed line. `written`: the path as in the line; `whole`: it names no span."""

    path: str
    written: str
    whole: bool
    segment: Segment


@dataclass(frozen=True, slots=True)
class _Group:
    """The lines of one file; `segments` is an ordered set."""

    first: _Line
    segments: dict[Segment, None]


def recordings(settings: Settings) -> Iterator[Recording | Ignored]:
    """Reads the list lazily. ConfigError at once if it cannot be read.

    Bad lines come first, then the recordings: a file's lines may be anywhere in the list.
    """
    path = list_file(settings.path)
    return _list(path, list_root(path, settings.root), _given(settings.columns))


def _given(columns: ColumnSettings | None) -> Columns | None:
    if columns is None:
        return None
    return {role: (name,) for role, name in columns.model_dump().items() if name is not None}


def _list(path: str, root: str, given: Columns | None) -> Iterator[Recording | Ignored]:
    groups: dict[str, _Group] = {}
    for number, line in read_lines(path):
        try:
            if line is None:
                raise ValueError("the line is too long")
            parsed = _parse(json_object(line), root, given)
        except ItemError as error:
            yield bad_line(path, number, error.detail, error.code)
        except ValueError as error:
            yield bad_line(path, number, str(error))
        else:
            group = groups.get(parsed.path)
            if group is None:
                groups[parsed.path] = _Group(parsed, {parsed.segment: None})
            elif group.first.whole or parsed.whole or parsed.segment in group.segments:
                yield Ignored(line_name(path, number), "duplicate_line")
            else:
                group.segments[parsed.segment] = None
    names: set[str] = set()
    for group in groups.values():
        recording = _recording(group, root)
        if recording.path in names:
            # Two spellings of one path, one through `..`: perhaps the same file.
            yield Ignored(recording.path, "duplicate_path")
            continue
        names.add(recording.path)
        yield recording


def _parse(value: dict[str, object], root: str, given: Columns | None) -> _Line:
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
    )
    return _Line(path, str(get("audio")), start is None and end is None, segment)


def _recording(group: _Group, root: str) -> Recording:
    line = group.first
    found = file_state(line.path)
    first, whole = line.segment, line.whole
    return Recording(
        path=listed_name(line.path, line.written, root),
        source_path=display_path(line.path),
        locator=Locator(line.path),
        size=found.size,
        guard=found.guard,
        source_id=first.source_id if whole else None,
        text=first.text if whole else None,
        speaker=first.speaker if whole else None,
        language=first.language if whole else None,
        segments=None if whole else tuple(group.segments),
        error=found.error,
    )
