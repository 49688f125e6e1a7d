"""Standard input, output and error of a command's own process: they are there, and what happens to
their readers ends no run."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def kept() -> Iterator[None]:
    """Inside, all three can be used, and writing to standard error never fails. At the end nothing
    is left that Python could not write, and would complain of.

    A reader of standard output that ends (`| head -1`) raises BrokenPipeError: nobody wants the
    rest. Standard error only accompanies the work.
    """
    _open_closed()
    encoding = sys.stderr.encoding
    whole = io.BufferedWriter(_Accompanying(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(whole, encoding, "backslashreplace", line_buffering=True)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError:
            _into_nothing(1)


def _open_closed() -> None:
    """Without this a file that is written would get the number of a closed stream, and with it all
    that libraries and child processes print there."""
    number = os.open(os.devnull, os.O_RDWR)
    while number <= 2:
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    sys.stdin = sys.stdin or open(0, closefd=False)  # noqa: SIM115 - for all of the process
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


class _Accompanying(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError:  # its reader has ended, or its disk is full
            _into_nothing(self.fileno())
            return len(data)


def _into_nothing(descriptor: int) -> None:
    """Discard what is written there from now on."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)
