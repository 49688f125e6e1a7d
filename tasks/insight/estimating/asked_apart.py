"""Reads recordings in a separate process, because a file may crash or hang its reader, and a
forecast must not die of it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

from ... import audio
from ...base import environment
from ...base.errors import ItemError
from ...recording import Locator

PATIENCE = 10.0  # s for all recordings of a call


def answers(module: str, locators: Sequence[str]) -> list[Any]:
    """The answers of `serve` in a process of `module`, one for each recording, in order; fewer if
    the process died or took more than PATIENCE. `locators`: as `Locator.dumps` writes them."""
    if not locators:
        return []
    lines = "".join(f"{json.dumps(locator)}\n" for locator in locators)
    with subprocess.Popen(
        environment.python("-m", module),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment.of_child(),
    ) as child:
        limit = threading.Timer(PATIENCE, child.kill)
        limit.start()
        try:
            printed, _ = child.communicate(lines)
        finally:
            limit.cancel()
            child.kill()
    whole = printed[: printed.rfind("\n") + 1]  # an incomplete last line is not an answer
    return [json.loads(line) for line in whole.splitlines()]


def serve(answer: Callable[[Locator], object]) -> None:
    """In the child process: print the result of `answer` as a line of JSON for each locator on
    stdin."""
    for line in sys.stdin:
        print(json.dumps(answer(Locator.loads(json.loads(line)))), flush=True)


class Header(TypedDict):
    """The header of a recording."""

    seconds: float | None  # None: the header has no length
    rate: int  # Hz


def headers(locators: Sequence[str]) -> list[Header | None]:
    """The header of each recording, None if it cannot be read; fewer as for `answers`."""
    return answers(__name__, locators)


def _header(locator: Locator) -> Header | None:
    try:
        header = audio.probe(locator)
    except (ItemError, OSError):
        return None
    seconds = None if header.frames is None else header.frames / header.rate
    return {"seconds": seconds, "rate": header.rate}


if __name__ == "__main__":
    serve(_header)
