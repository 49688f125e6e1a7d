"""Exit codes of the command line: the one place that gives their numbers and meanings."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Exit(IntEnum):
    """What a command's exit code means."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        made = int.__new__(cls, code)
        made._value_, made.meaning = code, meaning
        return made

    DONE = 0, "done; items may have been quarantined"
    FAILED = 1, "failed, refused to publish, or (doctor) found a fault; the message says why"
    USAGE = 2, "wrong settings or usage; no worker was started"
    FAULT = 3, "verify found a fault"
    HELD = 4, "another run holds OUT; the message names it"
    INTERRUPTED = 130, "interrupted; run it again to continue from there"  # as shells report SIGINT
