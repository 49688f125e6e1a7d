"""Prints the answer of a command: a table for people, or one JSON object."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from flows.cli.exit_codes import Exit
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
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return Exit.DONE


def _print_object(result: JsonObject) -> None:
    with suppress(BrokenPipeError):  # the exit code still tells
        print(json.dumps(result, ensure_ascii=False), flush=True)
