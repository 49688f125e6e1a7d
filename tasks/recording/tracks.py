"""Which audio track of a recording's file is read, by its row.

The choice is made once, when a recording is probed, and kept in its format: `matroska/flac#1`.
Rows of before name no track: the first one was read.
"""

from __future__ import annotations

from dataclasses import replace

from tasks.base.schema import RecordingRow
from tasks.recording.locator import Locator

NOT_READ = "its audio track"  # the note on a track begins so


def noted(form: str, track: int) -> str:
    """A header's format with the track, counted from 0, unless it is the first."""
    return f"{form}#{track}" if track else form


def track_of(row: RecordingRow) -> int:
    """The track of a recording that was probed."""
    return int((row["format"] or "").partition("#")[2] or 0)


def locator_of(row: RecordingRow) -> Locator:
    """Where the bytes of a recording that was probed are, and which track of them is read."""
    return replace(Locator.loads(row["locator"]), track=track_of(row))
