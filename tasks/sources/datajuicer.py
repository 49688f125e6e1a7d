"""Data-Juicer's JSONL: `{"text": "<__dj__audio>hello<|__dj__eoc|>", "audios": ["a.wav"]}`.

A sample with several audios becomes several recordings. Its text is used only if there is exactly
one audio: otherwise it belongs to none of them alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Literal

from pydantic import Field

from ..recording import Ignored
from ..settings.base import WORDS
from ..storage import urls
from ._layouts.rows import Described, FileRow, Found
from ._lists import Entries, ListSettings, json_object, line_name, text_field
from ._paths import list_root, text_list
from ._rows import listed

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
    rows = partial(_rows, path, settings)
    layout = Found("datajuicer", list_root(path, settings.root), rows, (), whole=False)
    return listed(layout, settings.language)


def _rows(path: str, settings: Settings) -> Iterator[FileRow]:
    for number, line in urls.lines(path):
        try:
            sample = json_object(line)
            audios = _audios(sample.get(settings.audio_key))
            text = _text(sample.get(settings.text_key))
        except ValueError as error:
            yield FileRow(path, number, error)
            continue
        if not audios:
            yield FileRow(path, number, Ignored(line_name(path, number), "no_audio"))
        for index, audio in enumerate(audios):
            is_only = len(audios) == 1
            described = Described(audio, text if is_only else None, id=sample.get("id"))
            yield FileRow(path, number if is_only else f"{number}:{index}", described)


def _audios(value: object) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("the audios are not a list")
    return value


def _text(value: object) -> str | None:
    return text_field(_TOKENS.sub(" ", value) if isinstance(value, str) else value)
