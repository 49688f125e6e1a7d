"""Prints the answer of a command: a table for people, or one JSON object."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from flows.cli.exit_codes import Exit
from tasks import masking
from tasks.control_characters import escaped, json_line
from tasks.json_types import JsonObject

if TYPE_CHECKING:
    from flows.cli.show.tables import Line


def print_answer(
    args: argparse.Namespace, result: JsonObject, show: Callable[[JsonObject], Iterable[Line]]
) -> Exit:
    """Print a table for people, on stderr where stdout is not a terminal; with --json also one
    object on stdout."""
    from rich.console import Console

    from flows.cli.show.tables import print_to

    print_to(Console(stderr=args.json or not sys.stdout.isatty()), show(result))
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
    """What makes text fit for standard output: programs read it as it is; a terminal would obey the
    control characters in it."""
    return escaped if sys.stdout.isatty() else str


def tell(sentence: str) -> None:
    """Print a remark to standard error, beside the results."""
    print(masking.sentence(sentence), file=sys.stderr)


def _print_object(result: JsonObject) -> None:
    with suppress(BrokenPipeError):  # the exit code still tells
        print(json_line(result), flush=True)
