"""What a source reports of a list before it is read: unused columns, unreadable languages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ..base.errors import ConfigError
from ..recording.names import display_text
from ..settings import SourceSettings
from . import _columns
from ._lists import cell_field, language_field

Records = Sequence[Mapping[str, object]]
Roles = Mapping[str, tuple[str, ...]]
SHOWN = 12  # columns that are not used
_WORDS = {
    "text": "a text",
    "id": "an id",
    "speaker": "a speaker",
    "language": "a language",
    "start": "a time",
    "end": "a time",
    "channel": "a channel",
}


def of_columns(
    records: Records, roles: Roles, used: Collection[str], noun: str, setting: str = ""
) -> list[str]:
    """A sentence for each column that seems to hold a role and is not used, with the setting that
    would use it. `setting`: its pattern, with `{role}` and the column's `{name}`."""
    taken = {role: names[0] for role, names in roles.items()}
    pattern = setting or "columns: {{{role}: {name}}}"
    sentences = []
    for column in _columns.untaken(records, taken, used):
        name = display_text(column.name)[: _columns.SHOWN * 4]
        instead = f" in place of {column.taken!r}" if column.taken else ""
        takes = pattern.format(role=column.role, name=name)
        sentences.append(
            f"the {noun} {name!r} looks like {_WORDS[column.role]} and is not taken; `{takes}` "
            f"takes it{instead}"
        )
    return sentences


def given_by(title: str, roles: Roles, unused: str = "") -> str:
    """Which column or file gave what, in a sentence; `unused`: of `not_used`."""
    parts = [f"{role} from {', else '.join(map(repr, names))}" for role, names in roles.items()]
    return f"{title}: {', '.join(parts)}{unused}"


def not_used(records: Records, used: Collection[str]) -> str:
    """The columns that none of the first rows is read for."""
    names = dict.fromkeys(name for record in records for name in record if name not in used)
    shown = ", ".join(repr(display_text(name)[: 4 * _columns.SHOWN]) for name in [*names][:SHOWN])
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"; not used: {shown}{more}" if names else ""


def check_languages(records: Records, roles: Roles, settings: SourceSettings) -> None:
    """Raises ConfigError if no language of a column can be read, and the source states none."""
    if settings.language or not roles.get("language"):
        return
    unread: dict[str, None] = {}
    for name in roles["language"]:
        for record in records:
            try:
                value = record.get(name)
                if cell_field(value) is None:
                    continue
                language_field(value, None)
            except ValueError:
                unread[str(value)] = None
            else:
                return
    if unread:
        shown = ", ".join(repr(display_text(value)[: _columns.SHOWN]) for value in [*unread][:3])
        raise ConfigError(
            f"source {display_text(settings.path)!r}: {roles['language'][0]!r} holds {shown}, "
            'which are not languages; set `language: "en"` on the source, or use codes like "en"'
        )
