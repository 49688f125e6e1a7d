"""Who speaks when, from RTTM files: `X.rttm` beside a recording, or one file for a whole source.

A line is `SPEAKER <file> <channel> <start> <duration> <NA> <NA> <speaker> <NA> <NA>`, times in s
(NIST, "The 2009 Rich Transcription Meeting Recognition Evaluation Plan", appendix A); lines of
other types, empty ones and comments (`;;`) are ignored. Beside a recording, all lines of the file
are its own. In a source's file (`rttm`), the second field is the recording's path without
extension, or only the name at its end. A recording of one channel gets the turns of that channel,
if the lines name several. If there are both files, the one beside the recording counts. A malformed
line fails only the recording that it names, in the filter stage (`bad_rttm`). In a source's file, a
line without a recording's name fails all recordings of the file, since any of them may lack a turn.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field

from ...base.errors import ConfigError
from ...base.schema import StatedTurnRow
from ...recording import Recording
from ...recording.guard import file_state
from ...recording.locator import Channels
from ...recording.names import display_text, is_utf8
from ...recording.tracks import channel_side
from ...settings import SourceSettings
from ...storage import regular, urls

Turn = tuple[float, float, str, str]  # start, end in s; speaker; channel, as written
Said = tuple[list[StatedTurnRow] | None, str | None]  # turns as in RECORDINGS; the fault


@dataclass(slots=True)
class Turns:
    """The turns in an RTTM file by its own names of recordings, and the first malformed line of
    each; None: of those that name no recording."""

    turns: dict[str, list[Turn]] = field(default_factory=dict)
    faults: dict[str | None, str] = field(default_factory=dict)


class SideFiles:
    """The RTTM files of one source. ConfigError if the source's own file cannot be read."""

    def __init__(self, settings: SourceSettings) -> None:
        self._whole: Turns | None = None
        self._follow_links = settings.follow_links
        if settings.rttm is not None:
            try:
                self._whole = read(urls.checked(settings.rttm))
            except OSError as error:
                why = error.strerror or "no such object"
                raise ConfigError(
                    f"rttm {display_text(settings.rttm)!r} cannot be read: {why}"
                ) from None

    def turns_of(self, recording: Recording) -> Said:
        """The turns of a recording (None if no file names it), and a fault in them, if any."""
        locator = recording.locator
        if locator.offset is None and locator.row is None:
            path = f"{os.path.splitext(locator.path)[0]}.rttm"
            if (state := file_state(path)).error is None:
                return _own(path, self._opener(path, locator.inside), locator.channels)
            if state.error[0] != "missing":
                return None, f"{display_text(os.path.basename(path))}: {state.error[1]}"
        if self._whole is None:
            return None, None
        stem = os.path.splitext(recording.path)[0]
        for name in (stem, os.path.basename(stem)):
            if name in self._whole.turns or name in self._whole.faults:
                wrong = self._whole.faults.get(None) or self._whole.faults.get(name)
                turns = self._whole.turns.get(name, [])
                return _as_segments(turns, locator.channels), wrong
        return None, None

    def _opener(self, path: str, inside: int | None) -> regular.Opener:
        """A link beside a recording must not leave the source's folder, or its own."""
        if self._follow_links:
            return regular.read
        return regular.read_inside(os.path.dirname(path) if inside is None else path[:inside])


def _own(path: str, opener: regular.Opener, channels: Channels | None) -> Said:
    try:
        file_turns = read(path, opener)
    except OSError as error:
        return None, f"{display_text(os.path.basename(path))} cannot be read: {error.strerror}"
    wrong = file_turns.faults.get(None) or next(iter(file_turns.faults.values()), None)
    every = [turn for turns in file_turns.turns.values() for turn in turns]
    return _as_segments(every, channels), wrong


def _as_segments(turns: list[Turn], channels: Channels | None) -> list[StatedTurnRow]:
    """The turns in these channels (None: in all). If the lines name only one channel, they apply to
    all: the format requires the field."""
    names = {channel for *_, channel in turns}
    plain: list[StatedTurnRow] = [
        {"start": start, "end": end, "speaker": speaker} for start, end, speaker, _ in sorted(turns)
    ]
    if len(names) < 2:
        return plain
    sides = {name: (channel_side(name, names) or (None,))[0] for name in names}
    placed: list[StatedTurnRow] = [
        {**turn, "channel": sides[channel]}
        for turn, (*_, channel) in zip(plain, sorted(turns), strict=True)
    ]
    return placed if channels is None else [t for t in placed if t["channel"] in channels]


def read(path: str, opener: regular.Opener = regular.read) -> Turns:
    """Parses an RTTM file. OSError if it cannot be read."""
    file_turns = Turns()
    name = display_text(os.path.basename(path))
    for number, line in urls.lines(path, opener):
        fields = ["SPEAKER"] if line is None else line.split()
        if not fields or fields[0] != "SPEAKER":
            continue
        recording = fields[1] if len(fields) > 1 else None
        try:
            turn = _turn(fields)
        except ValueError as error:
            file_turns.faults.setdefault(recording, f"{name}, line {number}: {error}")
            continue
        file_turns.turns.setdefault(fields[1], []).append(turn)
    return file_turns


def _turn(fields: list[str]) -> Turn:
    if len(fields) < 8:
        raise ValueError("a SPEAKER line has at least 8 fields")
    try:
        start, duration = float(fields[3]), float(fields[4])
    except ValueError:
        raise ValueError("start and duration are not numbers") from None
    if not (math.isfinite(start) and math.isfinite(duration) and start >= 0 and duration >= 0):
        raise ValueError("start or duration is negative or not finite")
    if fields[7] == "<NA>" or not is_utf8(fields[7]):
        raise ValueError("it names no speaker")
    return start, start + duration, fields[7], fields[2]
