"""Data-Juicer's JSONL: `{"text": "<__dj__audio>hello<|__dj__eoc|>", "audios": ["a.wav"]}`. A sample
with several audios becomes several recordings, without its text, which belongs to none of them."""

import re
from collections.abc import Iterator
from functools import partial
from typing import Literal

from pydantic import Field

from ..recording import Ignored
from ..settings.base import WORDS
from . import _columns
from ._lists import Entries, ListSettings, line_name
from ._paths import list_root, text_list
from ._rows import Described, FileRow, Found, json_lines, listed

#: `<__dj__audio>`, `<__dj__image>`, `<__dj__video>` and the end of a chunk `<|__dj__eoc|>`.
_TOKENS = re.compile(r"\s*(?:<__dj__\w+>|<\|__dj__\w+\|>)\s*")


class Settings(ListSettings):
    kind: Literal["datajuicer"] = "datajuicer"
    text_key: str = Field("text", description="Data-Juicer's `text_keys`.", json_schema_extra=WORDS)
    audio_key: str = Field(
        "audios", description="Data-Juicer's `audio_key`.", json_schema_extra=WORDS
    )


def recordings(settings: Settings) -> Entries:
    path = text_list(settings.path)
    root, rows = list_root(path, settings.root), partial(_rows, path, settings)
    return listed(Found("datajuicer", root, rows, (), whole=False), settings)


def notes(settings: Settings) -> list[str]:
    head = json_lines(text_list(settings.path)).head
    roles = {"audio": (settings.audio_key,), "text": (settings.text_key,), "id": ("id",)}
    present = {role: names for role, names in roles.items() if any(names[0] in r for r in head)}
    used = [names[0] for names in roles.values()]
    return [_columns.given_by("Data-Juicer", present) + _columns.not_used(head, used)]


def _rows(path: str, settings: Settings) -> Iterator[FileRow]:
    for number, record in json_lines(path).rows():
        if isinstance(record, ValueError):
            yield FileRow(path, number, record)
            continue
        audios = record.get(settings.audio_key) or []
        if not isinstance(audios, list):
            yield FileRow(path, number, ValueError("no list of audios"))
            continue
        if not audios:
            yield FileRow(path, number, Ignored(line_name(path, number), "no_audio"))
        text = record.get(settings.text_key) if len(audios) == 1 else None
        text = _TOKENS.sub(" ", text) if isinstance(text, str) else text
        for index, audio in enumerate(audios):
            place = number if len(audios) == 1 else f"{number}:{index}"
            yield FileRow(path, place, Described(audio, text, id=record.get("id")))
