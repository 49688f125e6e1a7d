"""Data-Juicer's JSONL: `{"text": "<__dj__audio>hello<|__dj__eoc|>", "audios": ["a.wav"]}`.

A sample with several audios becomes several recordings. Its text is used only if there is exactly
one audio: otherwise it belongs to none of them alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from pydantic import Field

from tasks.errors import ItemError
from tasks.recording import Ignored, Locator, Recording
from tasks.recording.guard import file_state
from tasks.settings import SourceSettings
from tasks.sources._lists import bad_line, json_object, line_name, read_lines, text_field
from tasks.sources._paths import display_path, list_file, list_root, listed_name, resolve

#: `<__dj__audio>`, `<__dj__image>`, `<__dj__video>` and the end of a chunk `<|__dj__eoc|>`.
_TOKENS = re.compile(r"\s*(?:<__dj__\w+>|<\|__dj__\w+\|>)\s*")


class Settings(SourceSettings):
    kind: Literal["datajuicer"] = "datajuicer"
    root: str | None = Field(
        None, description="Folder that relative paths start from; default: the list's folder."
    )
    text_key: str = Field("text", description="Data-Juicer's `text_keys`.")
    audio_key: str = Field("audios", description="Data-Juicer's `audio_key`.")


def recordings(settings: Settings) -> Iterator[Recording | Ignored]:
    """Reads the list lazily. ConfigError at once if it cannot be read."""
    path = list_file(settings.path)
    return _list(path, list_root(path, settings.root), settings)


def _list(path: str, root: str, settings: Settings) -> Iterator[Recording | Ignored]:
    seen: set[str] = set()
    for number, line in read_lines(path):
        try:
            if line is None:
                raise ValueError("the line is too long")
            sample = json_object(line)
            audios, text = _audios(sample.get(settings.audio_key)), _text(sample, settings)
            source_id = text_field(sample.get("id"))
        except ValueError as error:
            yield bad_line(path, number, error)
            continue
        if not audios:
            yield Ignored(line_name(path, number), "no_audio")
        for index, audio in enumerate(audios):
            place = line_name(path, number) + (f":{index}" if len(audios) > 1 else "")
            yield _one(path, number, place, audio, root, seen, text, source_id)


def _audios(value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("the audios are not a list")
    return value


def _text(sample: dict[str, object], settings: Settings) -> str | None:
    value = sample.get(settings.text_key)
    cleaned = text_field(_TOKENS.sub(" ", value) if isinstance(value, str) else value)
    alone = len(_audios(sample.get(settings.audio_key))) == 1
    return cleaned if alone else None


def _one(
    file: str,
    number: int,
    place: str,
    audio: object,
    root: str,
    seen: set[str],
    text: str | None,
    source_id: str | None,
) -> Recording | Ignored:
    try:
        path = resolve(root, audio)
    except (ItemError, ValueError) as error:
        return replace(bad_line(file, number, error), path=place)
    name = listed_name(path, str(audio), root)
    if name in seen:
        return Ignored(place, "duplicate_line")
    seen.add(name)
    found = file_state(path)
    return Recording(
        path=name,
        source_path=display_path(path),
        locator=Locator(path),
        size=found.size,
        guard=found.guard,
        source_id=source_id,
        text=text,
        error=found.error,
    )
