"""A list of JSON objects, one per line or in one array: WeNet's raw list, NeMo's manifest, or
columns by setting.

    {"key": …, "wav": …, "txt": …[, "start": …, "end": …]}              WeNet raw
    {"id": …, "wav": …, "text": …[, "speaker": …, "language": …]}       Emilia
    {"audio_filepath": …, "duration": …, "text": …[, "offset": …]}      NeMo
    {"audio": …, "sentence": …[, "client_id": …]}                       usual names, as of a `table`

A length without a start means a span from 0, as in NeMo; if it is the file's own, the whole file.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field

from ..recording.names import display_text
from . import _columns, _labels
from ._columns import Column
from ._layouts.objects import whole
from ._lists import Entries, ListSettings, refusal
from ._paths import list_root, text_list
from ._rows import Part, json_lines, listed, of_parts

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
NEMO: Columns = {
    "audio": ("audio_filepath",),
    "text": ("text",),
    "start": ("offset",),
    "duration": ("duration",),
    **_WHO,
}


class ColumnSettings(_columns.ColumnSettings):
    """The keys that the list uses, in place of the usual ones; empty: none is taken. Times in
    seconds."""

    duration: Column = Field(
        None, description="Length of the span, from start or from 0; used where end is not."
    )
    words: Column = Field(
        None,
        description="Times of words in the file, in their order: a list of {word, start, end} or "
        "of [word, start, duration].",
    )


class Settings(_labels.LabelSettings, _columns.ChannelSettings, ListSettings):
    kind: Literal["jsonl"] = "jsonl"
    columns: ColumnSettings | None = Field(
        None, description="Names of columns, where they are not recognised."
    )


def recordings(settings: Settings) -> Entries:
    part = _part(settings)
    head = part.records.head
    if head and "audio" not in part.roles:
        keys = ", ".join(map(repr, [*head[0]][: _columns.SHOWN]))
        raise refusal(
            part.file,
            f": no key names audio (the first line has {keys}); name it in `columns: {{audio: …}}`",
        )
    _columns.check(head, part.roles, settings, settings.columns)
    part = replace(part, roles={"audio": ("audio",), **part.roles})
    layout = of_parts("jsonl", "list", list_root(part.file, settings.root), [part], whole=False)
    return listed(layout, settings)


def notes(settings: Settings) -> list[str]:
    part = _part(settings)
    head = part.records.head
    used = {name for names in part.roles.values() for name in names} | {*settings.kept_names}
    keys = {name for record in head for name in record}
    present = {r: tuple(n for n in names if n in keys) for r, names in part.roles.items()}
    present = {role: names for role, names in present.items() if names}
    title = f"list ({display_text(os.path.basename(settings.path))})"
    return [
        _columns.given_by(title, present) + _columns.not_used(head, used),
        *_columns.of_columns(head, present, used, "key"),
        *_labels.notes(head, settings, "key"),
    ]


def _part(settings: Settings) -> Part:
    path = text_list(settings.path)
    records = whole(path) or json_lines(path)
    return Part(path, records, _roles(settings, records.head), from_start=True)


def _roles(settings: Settings, head: Sequence[dict[str, object]]) -> Columns:
    """The columns that the settings name, or that most lines have: those of WeNet's and NeMo's
    lists, else usual names. Without a name for the audio, the named ones replace recognised
    ones."""
    stated = settings.columns.model_dump() if settings.columns else {}
    named: Columns = {role: (name,) for role, name in stated.items() if name is not None}
    kinds = [_WENET if "wav" in e else NEMO if "audio_filepath" in e else {} for e in head]
    recognised = {} if "audio" in named else max(kinds, key=kinds.count, default={})
    if not recognised and "audio" not in named:
        keys = [*dict.fromkeys(name for record in head for name in record)]
        by_content = _columns.by_content(head, keys)
        recognised = ({"audio": (by_content,)} if by_content else {}) | _columns.by_name(keys)
    roles = {role: names for role, names in (recognised | named).items() if names[0]}
    return roles if "channel" in named else _columns.without_other_channels(roles, head)
