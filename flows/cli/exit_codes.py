"""Exit codes of the command line: the one place that gives their numbers and meanings."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit code means."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    FAULT = 3
    HELD = 4
    INTERRUPTED = 130  # as shells report SIGINT

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Exit.DONE: "done; items may have been quarantined",
    Exit.FAILED: "failed, refused to publish, or (doctor) found a fault; the message says why",
    Exit.USAGE: "wrong settings or usage; no worker was started",
    Exit.FAULT: "verify found a fault",
    Exit.HELD: "another run holds OUT; the message names it",
    Exit.INTERRUPTED: "interrupted; run it again to continue from there",
}
