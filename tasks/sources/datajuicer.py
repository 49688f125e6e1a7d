"""Data-Juicer's JSONL: `{"text": "<__dj__audio>hello<|__dj__eoc|>", "audios": ["a.wav"]}`.

A sample with several audios is one recording each; its text belongs to none of them alone, so
it is used only where there is exactly one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from tasks.errors import ItemError
from tasks.recording import Ignored, Locator, Recording
from tasks.settings import SourceSettings
from tasks.sources._shared import (
    bad_line,
    find,
    json_object,
    line_name,
    lines,
    list_file,
    list_root,
    listed_name,
    located,
    source_text,
    text_field,
)

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
    """Lists at the first step; ConfigError at once if the list cannot be read."""
    path = list_file(settings.path)
    return _list(path, list_root(path, settings.root), settings)


def _list(path: str, root: str, settings: Settings) -> Iterator[Recording | Ignored]:
    seen: set[str] = set()
    for number, line in lines(path):
        try:
            if line is None:
                raise ValueError("the line is too long")
            sample = json_object(line)
            audios, text = _audios(sample.get(settings.audio_key)), _text(sample, settings)
            source_id = text_field(sample.get("id"))
        except ValueError as error:
            yield bad_line(path, number, str(error))
            continue
        if not audios:
            yield Ignored(line_name(path, number), "no_audio")
        for index, audio in enumerate(audios):
            place = line_name(path, number) + (f":{index}" if len(audios) > 1 else "")
            yield _one(path, number, place, audio, root, seen, text, source_id)


def _audios(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("the audios are not a list")
    return value


def _text(sample: dict[str, Any], settings: Settings) -> str | None:
    value = sample.get(settings.text_key)
    cleaned = text_field(_TOKENS.sub(" ", value) if isinstance(value, str) else value)
    alone = len(_audios(sample.get(settings.audio_key))) == 1
    return cleaned if alone else None


def _one(
    file: str,
    number: int,
    place: str,
    audio: Any,
    root: str,
    seen: set[str],
    text: str | None,
    source_id: str | None,
) -> Recording | Ignored:
    try:
        path = located(root, audio)
    except (ItemError, ValueError) as error:
        code, detail = (
            (error.code, error.detail)
            if isinstance(error, ItemError)
            else ("unreadable", str(error))
        )
        return replace(bad_line(file, number, detail, code), path=place)
    name = listed_name(path, audio, root)
    if name in seen:
        return Ignored(place, "duplicate_line")
    seen.add(name)
    found = find(path)
    return Recording(
        path=name,
        source_path=source_text(path),
        locator=Locator(path),
        size=found.size,
        guard=found.guard,
        source_id=source_id,
        text=text,
        error=found.error,
    )
