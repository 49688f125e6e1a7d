"""Data-Juicer's JSONL: `{"text": "<__dj__audio>hello<|__dj__eoc|>", "audios": ["a.wav"]}`.

A sample with several audios becomes several recordings. Its text is used only if there is exactly
one audio: otherwise it belongs to none of them alone.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from pydantic import Field

from ..base.errors import ItemError
from ..recording import Ignored
from ..recording.guard import of_file
from ..settings.base import WORDS
from ..storage import urls
from ._lists import (
    Entries,
    ListSettings,
    again,
    bad_line,
    json_object,
    line_name,
    text_field,
)
from ._paths import list_root, listed_name, resolve, text_list

#: `<__dj__audio>`, `<__dj__image>`, `<__dj__video>` and the end of a chunk `<|__dj__eoc|>`.
_TOKENS = re.compile(r"\s*(?:<__dj__\w+>|<\|__dj__\w+\|>)\s*")


class Settings(ListSettings):
    kind: Literal["datajuicer"] = "datajuicer"
    text_key: str = Field("text", description="Data-Juicer's `text_keys`.", json_schema_extra=WORDS)
    audio_key: str = Field(
        "audios", description="Data-Juicer's `audio_key`.", json_schema_extra=WORDS
    )


def gives(settings: Settings) -> str:
    return f"Data-Juicer: audio from {settings.audio_key!r}, text from {settings.text_key!r}"


def recordings(settings: Settings) -> Entries:
    """Reads the list lazily. ConfigError at once if it cannot be read."""
    path = text_list(settings.path)
    return _list(path, list_root(path, settings.root), settings)


def _list(path: str, root: str, settings: Settings) -> Entries:
    seen: dict[str, str | None] = {}  # the text of each file
    for number, line in urls.lines(path):
        try:
            sample = json_object(line)
            audios = _audios(sample.get(settings.audio_key))
            text = _text(sample.get(settings.text_key))
            source_id = text_field(sample.get("id"))
        except ValueError as error:
            yield bad_line(path, number, error)
            continue
        if not audios:
            yield Ignored(line_name(path, number), "no_audio")
        for index, audio in enumerate(audios):
            place = line_name(path, number) + (f":{index}" if len(audios) > 1 else "")
            try:
                file = resolve(root, audio)
            except (ItemError, ValueError) as error:
                yield replace(bad_line(path, number, error), path=place)
                continue
            name = listed_name(file, str(audio), root)
            reference = text if len(audios) == 1 else None
            if name in seen:
                yield Ignored(place, again("duplicate_line", seen[name], reference))
                continue
            seen[name] = reference
            yield replace(of_file(name, file), source_id=source_id, text=reference)


def _audios(value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("the audios are not a list")
    return value


def _text(value: object) -> str | None:
    return text_field(_TOKENS.sub(" ", value) if isinstance(value, str) else value)
