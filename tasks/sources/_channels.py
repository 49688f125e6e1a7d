"""Channels of a file as lists name them: numbers from 0, letters from A, left and right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.errors import ConfigError
from ..recording import by_channel
from ..recording.locator import Channels
from ..recording.names import display_text
from ._lists import cell_field

MOST = 64  # channels of a file; a larger number is not a channel


def channels_field(value: object) -> Channels | None:
    """The channels in a cell or field, which holds one or a list of them. None for all of the file,
    or for a word that is not a channel, such as a broadcaster's name. ValueError for a number that
    no channel has."""
    if value is None:  # most rows
        return None
    if isinstance(value, list | tuple):
        channels = [channel for one in value if (channel := _channel(one)) is not None]
        return (*sorted({*channels}),) or None
    channel = _channel(value)
    return None if channel is None else (channel,)


def _channel(value: object) -> int | None:
    if isinstance(value, str):
        value = by_channel.number((cell_field(value) or "").removesuffix(".0"))
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    if value != int(value) or not 0 <= value < MOST:
        raise ValueError(f"no file has a channel {value}; channels are counted from 0")
    return int(value)


def check(records: Sequence[Mapping[str, object]], names: Sequence[str], path: str) -> None:
    """Raises ConfigError if a list seems to count channels from 1."""
    for name in names:
        numbers = {
            int(text)
            for record in records
            if (text := cell_field(str(record.get(name)))) and text.isdecimal()
        }
        if numbers and 0 not in numbers and 2 in numbers:
            raise ConfigError(
                f"source {display_text(path)!r}: {name!r} seems to count channels from 1, since it "
                "has 2 and no 0; they are counted from 0 here, so write 0 and 1, or A and B"
            )
