"""How a command ends: its answer as a table for people or one JSON object, and its exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Self

from ...tasks.base import masking
from ...tasks.base.errors import MillError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.masking import escaped, json_line

if TYPE_CHECKING:
    from .show.tables import Line

UNLIMITED = 1 << 20  # columns; more than any row has


class Exit(IntEnum):
    """What a command's exit code means."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member

    DONE = 0, "done; items may have been quarantined"
    FAILED = 1, "failed, refused to publish, or (doctor) found a fault; the message says why"
    USAGE = 2, "wrong settings or usage; no worker was started"
    FAULT = 3, "verify found a fault"
    HELD = 4, "another run holds OUT; the message names it"
    INTERRUPTED = 130, "interrupted; run it again to continue from there"  # as shells report SIGINT
    TERMINATED = 143, "ended by SIGTERM; run it again to continue from there"  # as shells report it


class Declined(MillError):
    """A person declined the work that a run would do."""


def print_answer(
    args: argparse.Namespace, result: JsonObject, show: Callable[[JsonObject], Iterable[Line]]
) -> Exit:
    """Print a result as text on stdout; with --json there is one object, and the text on stderr."""
    from .show.tables import Printer, print_to

    # In a file or pipe plain, with each row on one line for other programs.
    is_terminal = (sys.stderr if args.json else sys.stdout).isatty()
    plain: dict[str, Any] = {} if is_terminal else {"width": UNLIMITED, "color_system": None}
    print_to(Printer(stderr=args.json, **plain), show(result))
    if args.json:
        _print_object(result)
    return Exit.DONE


def print_lines(args: argparse.Namespace, result: JsonObject, lines: Iterable[str]) -> Exit:
    """Print the lines, for other programs to read; with --json one object instead."""
    if args.json:
        _print_object(result)
    else:
        shown = readable()
        sys.stdout.write("".join(f"{shown(line)}\n" for line in lines))
    return Exit.DONE


def readable() -> Callable[[str], str]:
    """Prepares text for standard output: escaped for a terminal, which obeys control characters."""
    return escaped if sys.stdout.isatty() else str


def tell(sentence: str) -> None:
    print(masking.sentence(sentence), file=sys.stderr)


def _print_object(result: JsonObject) -> None:
    with suppress(BrokenPipeError):  # the exit code remains
        print(json_line(result), flush=True)
