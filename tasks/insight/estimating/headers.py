"""Lengths by header of new recordings, read in a process of its own: a header may kill or hang its
reader, and a forecast must not end a run before it has begun."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence

from tasks.base import environment

PATIENCE = 10.0  # s for all headers; the rest is estimated from file sizes

#: Seconds; None: the header does not tell; False: it cannot be read.
Length = float | None | bool


def read(locators: Sequence[str], patience: float = PATIENCE) -> list[Length]:
    """The length of each recording, in their order; fewer where the reader died or took too long.

    `locators`: as `Locator.dumps` writes them.
    """
    if not locators:
        return []
    lines = "".join(f"{json.dumps(locator)}\n" for locator in locators)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "tasks.insight.estimating.headers"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment.of_child(),
    ) as child:
        limit = threading.Timer(patience, child.kill)
        limit.start()
        try:
            answers, _ = child.communicate(lines)
        finally:
            limit.cancel()
            child.kill()
    whole = answers[: answers.rfind("\n") + 1]  # an incomplete last line is not an answer
    return [json.loads(line) for line in whole.splitlines()]


def main() -> None:
    """In the child: a line of JSON for each locator on stdin."""
    from tasks import audio
    from tasks.base.errors import ItemError
    from tasks.recording import Locator

    for line in sys.stdin:
        length: Length
        try:
            header = audio.probe(Locator.loads(json.loads(line)))
            length = None if header.frames is None else header.frames / header.rate
        except (ItemError, OSError):
            length = False
        print(json.dumps(length), flush=True)


if __name__ == "__main__":
    main()
