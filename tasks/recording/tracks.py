"""The audio track of a recording's file that is read, and its channels, from the recording's row.
Both are determined when a recording is probed. The track is part of the format,
`matroska/flac#1`; without one, it is the first."""

import re
from collections.abc import Collection, Container, Iterator
from dataclasses import replace

from ..base.schema import RecordingRow
from ..settings import FilterSettings
from .locator import Channels, Locator, Recording, Segment

NOT_READ = "its audio track"  # start of the note on a track
SUBTITLES = "it holds subtitles"  # start of the note on these
PEAK = "its peak is"  # start of the note on samples beyond full scale
_NOT_READ = re.compile(rf"{NOT_READ} (\d+)")


def noted(form: str, track: int) -> str:
    """A header's format, followed by the track, from 0, unless it is the first."""
    return f"{form}#{track}" if track else form


def track_of(row: RecordingRow) -> int:
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
    where = Locator.loads(row["locator"])
    where.channels = channels_of(row) if channel is None else file_channel(row, channel)
    where.track, where.silenced = track_of(row), settings.non_finite == "silence" or None
    return where


def may_be_non_finite(row: RecordingRow) -> bool:
    """Whether samples of a probed recording may be NaN or infinite: never with integer codecs."""
    codec = (row["format"] or "").partition("#")[0].rpartition("/")[2]
    return codec.startswith("pcm_f") or not codec.startswith(("pcm_", "flac"))


# One recording for each channel of a file that a source names.

_NUMBERED = re.compile(r"(?:(?:ch|chan|channel)[ _-]?)?(\d{1,9})", re.IGNORECASE)
_WORDS = {"left": 0, "l": 0, "right": 1, "r": 1} | {name: n for n, name in enumerate("abcdefgh")}


def channel_number(text: str) -> int | None:
    """The number of a channel written as a number (`1`, `ch1`), a letter or a side; None for
    anything else."""
    if numbered := _NUMBERED.fullmatch(text):
        return int(numbered[1])
    return _WORDS.get(text.casefold())


def channel_side(text: str, names: Container[str]) -> Channels | None:
    """A channel as NIST's files and Kaldi's write it: A, B, or a number, counted from 1 unless 0 is
    among the file's `names`."""
    channel = channel_number(text)
    if channel is None:
        return None
    return (channel - (text.isdecimal() and "0" not in names),)


def of_channels(
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


def by_channels(recording: Recording) -> Iterator[Recording]:
    """One recording for each channel that segments name, with those segments."""
    groups: dict[Channels | None, list[Segment]] = {}
    for segment in recording.segments or ():
        groups.setdefault(segment.channels, []).append(segment)
    if groups.keys() <= {None}:
        yield recording
        return
    for channels, segments in groups.items():
        yield of_channels(replace(recording, segments=tuple(segments)), channels, groups)
