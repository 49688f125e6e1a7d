"""What headers of new recordings say: their lengths and rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict, cast

from tasks import audio
from tasks.base.errors import ItemError
from tasks.insight.estimating import asked_apart
from tasks.recording import Locator

PATIENCE = 10.0  # s for all headers; the rest is estimated from file sizes


class Header(TypedDict):
    """Of a recording that can be read."""

    seconds: float | None  # None: the header does not tell
    rate: int


def read(locators: Sequence[str], patience: float = PATIENCE) -> list[Header | None]:
    """The header of each recording, as `asked_apart.answers`; None: it cannot be read."""
    return cast(list[Header | None], asked_apart.answers(__name__, locators, patience))


def header(locator: Locator) -> Header | None:
    try:
        probed = audio.probe(locator)
    except (ItemError, OSError):
        return None
    seconds = None if probed.frames is None else probed.frames / probed.rate
    return {"seconds": seconds, "rate": probed.rate}


if __name__ == "__main__":
    asked_apart.serve(header)
