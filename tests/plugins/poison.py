"""A filter that misbehaves on the utterance of one length: crash, hang, memory, errors."""

import ctypes
import os
import signal
import time
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.plugins.rules import Limit, Rule
from uttermill.tasks.settings import THRESHOLD, StageSettings

VERSION = 1
COLUMNS = {"poison": ("1", "twice the length")}
HELD: list[np.ndarray[tuple[int], np.dtype[np.uint8]]] = []

How = Literal[
    "nothing", "segv", "memory", "hang", "item_error", "memory_error", "bug", "odd_bug", "kill"
]


class Settings(StageSettings):
    seconds: float = -1.0  # of the clip; 0: of every one
    how: How = "nothing"
    max: float | None = Field(None, json_schema_extra=THRESHOLD)


class OddError(Exception):
    """An error that does not survive pickling."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


def harm(how: How) -> None:
    if how == "segv":
        ctypes.string_at(0)
    elif how == "memory":
        while True:  # until somebody ends it
            HELD.append(np.ones(100 << 20, np.uint8))
            time.sleep(0.05)
    elif how == "hang":
        time.sleep(3600)
    elif how == "kill":  # as the kernel does for want of memory, while UTTERMILL_KILLS has lines
        left = Path(os.environ["UTTERMILL_KILLS"])
        if lines := left.read_text().splitlines(keepends=True):
            left.write_text("".join(lines[1:]))
            os.kill(os.getpid(), signal.SIGKILL)
    elif how == "item_error":
        raise ItemError("immeasurable", "it does not please")
    elif how == "memory_error":
        raise MemoryError("so much was asked for")
    elif how == "bug":
        raise ValueError("our own bug")
    elif how == "odd_bug":
        raise OddError("our own", "bug")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    # UTTERMILL_COUNT: a file that gets a line for each clip that is measured.
    if path := os.environ.get("UTTERMILL_COUNT"):
        with open(path, "a") as handle:
            handle.write(f"{clip.seconds:.3f}\n")
    if settings.seconds == 0 or abs(clip.seconds - settings.seconds) < 1e-3:
        harm(settings.how)
    return {"poison": 2 * clip.seconds}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (Limit("poison", None, settings.max, "", "poisonous"),)
