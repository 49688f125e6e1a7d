"""Channels of a file as lists name them: numbers from 0, letters from A, left and right, or names
of their own (`agent`), which a setting explains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from ..base.errors import ConfigError
from ..recording.locator import Channels
from ..recording.names import display_text
from ..recording.tracks import channel_number
from ..settings import SourceSettings
from ._lists import cell_field

Records = Sequence[Mapping[str, object]]

MOST = 64  # channels of a file; a larger number is not a channel
MOST_NAMES = 8  # of channels; a column with more names holds broadcasters, or the like

Names = Mapping[str, int]


class ChannelSettings(SourceSettings):
    """Settings of a source whose rows name channels."""

    channel_names: dict[str, Annotated[int, Field(ge=0, lt=MOST)]] | None = Field(
        None,
        description="Channels, from 0, that values of the column `channel` stand for: {agent: 0, "
        "customer: 1}.",
    )

    @property
    def channel_numbers(self) -> Names:
        return {name.strip().casefold(): n for name, n in (self.channel_names or {}).items()}


def channels_field(value: object, names: Names = MappingProxyType({})) -> Channels | None:
    """The channels in a cell or field, which holds one or a list of them; None for all of the file.
    ValueError for what no channel has as its number or name."""
    if value is None:  # most rows
        return None
    if isinstance(value, list | tuple):
        channels = [channel for one in value if (channel := _channel(one, names)) is not None]
        return (*sorted({*channels}),) or None
    channel = _channel(value, names)
    return None if channel is None else (channel,)


def _channel(value: object, names: Names) -> int | None:
    if isinstance(value, str):
        if (text := cell_field(value)) is None:
            return None
        value = names.get(text.casefold(), channel_number(text.removesuffix(".0")))
        if value is None:
            raise ValueError(f"{text[:20]!r} is not a channel; {_REMEDY.format(text[:20])}")
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    if value != int(value) or not 0 <= value < MOST:
        raise ValueError(f"no file has a channel {value}; channels are counted from 0")
    return int(value)


_REMEDY = "`channel_names: {{{}: 0, …}}` of the source says which it is"


def _written(records: Records, name: str) -> set[str]:
    """The texts and numbers in a column."""
    values = {str(value) for r in records if isinstance(value := r.get(name), str | int | float)}
    return {text for value in values if (text := cell_field(value))}


def are_others(records: Records, name: str) -> bool:
    """Whether a column of this name holds something else, such as broadcasters."""
    words = [text for text in _written(records, name) if channel_number(text) is None]
    return len(words) > MOST_NAMES


def check(
    records: Records, names: Sequence[str], path: str, named: Names = MappingProxyType({})
) -> None:
    """Raises ConfigError if a list seems to count channels from 1, or has names of its own for
    them, which the settings do not explain: all of its rows would be of the mix."""
    for name in names:
        written = [text.removesuffix(".0") for text in sorted(_written(records, name))]
        written = [text for text in written if text.casefold() not in named]
        if words := [text for text in written if channel_number(text) is None]:
            shown = ", ".join(repr(display_text(word)[:20]) for word in words[:3])
            numbered = ", ".join(f"{word[:20]}: {n}" for n, word in enumerate(words[:2]))
            raise ConfigError(
                f"source {display_text(path)!r}: {name!r} holds {shown}, which are no channels; "
                f"say which they are, counted from 0 (`channel_names: {{{numbered}}}`, if that is "
                "right), or hear the mix (`columns: {channel: ''}`)"
            )
        numbers = {
            n
            for text in written
            if text[-1].isdecimal() and (n := channel_number(text)) is not None
        }
        if numbers and 0 not in numbers and 2 in numbers:
            raise ConfigError(
                f"source {display_text(path)!r}: {name!r} seems to count channels from 1, since it "
                "has 2 and no 0; they are counted from 0 here, so write 0 and 1, or A and B"
            )
