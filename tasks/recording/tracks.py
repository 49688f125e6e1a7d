"""The audio track of a recording's file that is read, and its channels, from the recording's row.

Both are determined once, when a recording is probed. The track is part of the format,
`matroska/flac#1`; without one, it is the first.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ..base.schema import RecordingRow
from ..settings import FilterSettings
from .locator import Channels, Locator

NOT_READ = "its audio track"  # start of the note on a track
_NOT_READ = re.compile(rf"{NOT_READ} (\d+)")


def noted(form: str, track: int) -> str:
    """A header's format, followed by the track, from 0, unless it is the first."""
    return f"{form}#{track}" if track else form


def track_of(row: RecordingRow) -> int:
    """The track of a probed recording."""
    return int((row["format"] or "").partition("#")[2] or 0)


def channels_of(row: RecordingRow) -> Channels | None:
    """The channels used of a probed recording; None: all channels of its file."""
    return tuple(row.get("channels") or ()) or None


def file_channel(row: RecordingRow, channel: int) -> Channels:
    """The file's number of channel `channel` among those used."""
    picked = channels_of(row)
    return (channel if picked is None else picked[channel],)


def channel_of(row: RecordingRow) -> int | None:
    """The channel used, if it is a single one; None: several, or all of the file."""
    channels = channels_of(row)
    return channels[0] if channels is not None and len(channels) == 1 else None


def part_of(row: RecordingRow) -> tuple[int | None, int | None]:
    """(track, channel) of the file: None for the first track, and for a mix. For a recording that
    cannot be probed, what its source asked for."""
    track, channel = track_of(row) or None, channel_of(row)
    if row["error_code"] is None or (track, channel) != (None, None):
        return track, channel
    where = Locator.loads(row["locator"])
    channels = where.channels or ()
    return where.track or None, channels[0] if len(channels) == 1 else None


def not_read(note: str) -> int | None:
    """The track in a note about a track that is not read; None for another note."""
    number = _NOT_READ.match(note)
    return int(number[1]) if number else None


def locator_of(row: RecordingRow, settings: FilterSettings, channel: int | None = None) -> Locator:
    """The locator of a probed recording, with its track and channels. `channel`: read only this one
    of the channels used; None: all of them."""
    where, silenced = Locator.loads(row["locator"]), settings.non_finite == "silence" or None
    channels = channels_of(row) if channel is None else file_channel(row, channel)
    return replace(where, track=track_of(row), channels=channels, silenced=silenced)


def may_be_non_finite(row: RecordingRow) -> bool:
    """Whether samples of a probed recording may be NaN or infinite: never with integer codecs."""
    codec = (row["format"] or "").partition("#")[0].rpartition("/")[2]
    return codec.startswith("pcm_f") or not codec.startswith(("pcm_", "flac"))
