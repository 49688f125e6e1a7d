"""Lengths of new recordings by their headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tasks import audio
from tasks.base.errors import ItemError
from tasks.insight.estimating import asked_apart
from tasks.recording import Locator

PATIENCE = 10.0  # s for all headers; the rest is estimated from file sizes

#: Seconds; None: the header does not tell; False: it cannot be read.
Length = float | None | bool


def read(locators: Sequence[str], patience: float = PATIENCE) -> list[Length]:
    """The length of each recording, as `asked_apart.answers`."""
    return cast(list[Length], asked_apart.answers(__name__, locators, patience))


def length(locator: Locator) -> Length:
    try:
        header = audio.probe(locator)
    except (ItemError, OSError):
        return False
    return None if header.frames is None else header.frames / header.rate


if __name__ == "__main__":
    asked_apart.serve(length)
