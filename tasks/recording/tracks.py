"""Which audio track of a recording's file is read, and which of its channels, by its row.

Both are found once, when a recording is probed. The track is kept in its format,
`matroska/flac#1`; rows of before name none: the first one was read.
"""

from __future__ import annotations

import re
from dataclasses import replace

from tasks.base.schema import RecordingRow
from tasks.recording.locator import Channels, Locator
from tasks.settings import FilterSettings

NOT_READ = "its audio track"  # the note on a track begins so
_NOT_READ = re.compile(rf"{NOT_READ} (\d+)")


def noted(form: str, track: int) -> str:
    """A header's format with the track, counted from 0, unless it is the first."""
    return f"{form}#{track}" if track else form


def track_of(row: RecordingRow) -> int:
    """The track of a recording that was probed."""
    return int((row["format"] or "").partition("#")[2] or 0)


def channels_of(row: RecordingRow) -> Channels | None:
    """The channels that are heard of a recording that was probed; None: all of its file."""
    return tuple(row.get("channels") or ()) or None


def file_channel(row: RecordingRow, channel: int) -> Channels:
    """Which channel of its file is number `channel` of those heard of a recording."""
    picked = channels_of(row)
    return (channel if picked is None else picked[channel],)


def channel_of(row: RecordingRow) -> int | None:
    """The one channel that is heard; None: several, or all of the file."""
    channels = channels_of(row)
    return channels[0] if channels is not None and len(channels) == 1 else None


def part_of(row: RecordingRow) -> tuple[int | None, int | None]:
    """(track, channel) of its file that a recording is: None for the first track, and for a mix.
    One that cannot be probed is what its source asked for."""
    track, channel = track_of(row) or None, channel_of(row)
    if row["error_code"] is None or (track, channel) != (None, None):
        return track, channel
    where = Locator.loads(row["locator"])
    channels = where.channels or ()
    return where.track or None, channels[0] if len(channels) == 1 else None


def not_read(note: str) -> int | None:
    """The track of a note that says that it is not read; None for another note."""
    number = _NOT_READ.match(note)
    return int(number[1]) if number else None


def locator_of(row: RecordingRow, settings: FilterSettings, channel: int | None = None) -> Locator:
    """Where the bytes of a recording that was probed are, what of them is read, and how. `channel`:
    the one of those heard that is read; None: all."""
    where, silenced = Locator.loads(row["locator"]), settings.non_finite == "silence" or None
    channels = channels_of(row) if channel is None else file_channel(row, channel)
    return replace(where, track=track_of(row), channels=channels, silenced=silenced)


def may_be_non_finite(row: RecordingRow) -> bool:
    """Whether samples of a recording that was probed may be NaN or infinite: not those of codecs
    of integers."""
    codec = (row["format"] or "").partition("#")[0].rpartition("/")[2]
    return codec.startswith("pcm_f") or not codec.startswith(("pcm_", "flac"))
