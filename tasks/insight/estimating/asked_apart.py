"""Reads recordings in a separate process, because a file may crash or hang its reader, and a
forecast must not die of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, TypedDict

from ... import audio
from ...base import environment
from ...base.errors import ItemError
from ...recording import Locator

PATIENCE = 10.0  # s for all recordings of a call


class Header(TypedDict):
    """The header of a recording."""

    seconds: float | None  # None: the header has no length
    rate: int  # Hz


class Sides(TypedDict):
    """The decision on a file: whether its channels are read `apart` (None: it has only one), and
    why."""

    apart: bool | None
    says: str


def headers(locators: Sequence[str]) -> list[Header | None]:
    """The header of each recording, in order, None if it cannot be read; fewer if the process died
    or took more than PATIENCE. `locators`: as `Locator.dumps` writes them."""
    return _answers("header", locators)


def sides(locators: Sequence[str]) -> list[Sides | None]:
    """The decision on the channels of each file, as `headers`."""
    return _answers("sides", locators)


def _answers(asked: str, locators: Sequence[str]) -> list[Any]:
    if not locators:
        return []
    lines = "".join(f"{json.dumps(locator)}\n" for locator in locators)
    words, child = environment.python("-m", __name__, asked), environment.of_child()
    try:
        done = subprocess.run(
            words, input=lines.encode(), env=child, capture_output=True, timeout=PATIENCE
        )
        printed = done.stdout
    except subprocess.TimeoutExpired as late:
        printed = late.stdout or b""
    whole = printed[: printed.rfind(b"\n") + 1]  # an incomplete last line is not an answer
    return [json.loads(line) for line in whole.splitlines()]


def _answer(asked: str, locator: Locator) -> Header | Sides | None:
    try:
        header = audio.probe(locator)
        if asked == "header":
            seconds = None if header.frames is None else header.frames / header.rate
            return {"seconds": seconds, "rate": header.rate}
        if header.channels < 2:
            return {"apart": None, "says": ""}
        from ...stages import probe  # here: headers do without

        decision = probe.looked_at(locator, header)
    except (ItemError, OSError):
        return None
    return {"apart": decision.apart, "says": str(decision)}


if __name__ == "__main__":
    for line in sys.stdin:
        answer = _answer(sys.argv[1], Locator.loads(json.loads(line)))
        print(json.dumps(answer), flush=True)
