"""One recording for each channel of a file that a source names."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator
from dataclasses import replace

from .locator import Channels, Recording, Segment

_NUMBERED = re.compile(r"(?:(?:ch|chan|channel)[ _-]?)?(\d{1,9})", re.IGNORECASE)
_WORDS = {"left": 0, "l": 0, "right": 1, "r": 1} | {name: n for n, name in enumerate("abcdefgh")}


def number(text: str) -> int | None:
    """The number of a channel written as a number (`1`, `ch1`), a letter or a side; None for
    anything else."""
    if numbered := _NUMBERED.fullmatch(text):
        return int(numbered[1])
    return _WORDS.get(text.casefold())


def side(text: str, names: Container[str]) -> Channels | None:
    """A channel as NIST's files and Kaldi's write it: A, B, or a number, counted from 1 unless 0 is
    among the file's `names`."""
    channel = number(text)
    if channel is None:
        return None
    return (channel - (text.isdecimal() and "0" not in names),)


def named(
    recording: Recording, channels: Channels | None, others: Collection[Channels | None] = ()
) -> Recording:
    """The recording of these channels of a file, `call.wav#1`. `others`: what else the source names
    of the file. If nothing else, channel 0 keeps the file's name, since it may be its only one."""
    if channels is None:
        return recording
    where = replace(recording.locator, channels=channels)
    if channels[0] == 0 and not {*others} - {channels}:
        return replace(recording, locator=where)
    path = f"{recording.path}#{'+'.join(map(str, channels))}"
    return replace(recording, path=path, locator=where)


def divided(recording: Recording) -> Iterator[Recording]:
    """One recording for each channel that segments name, with those segments."""
    groups: dict[Channels | None, list[Segment]] = {}
    for segment in recording.segments or ():
        groups.setdefault(segment.channels, []).append(segment)
    if groups.keys() <= {None}:
        yield recording
        return
    for channels, segments in groups.items():
        yield named(replace(recording, segments=tuple(segments)), channels, groups)
