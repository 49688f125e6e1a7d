"""The parser of `uttermill`. Commands, their arguments and help are in `commands.json`, as
`argparse` names the parts of an argument: a text alone is the help of a flag, and `true` stands for
the argument of this name in `shared`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from ...tasks.base import masking
from .printing import Exit


class WrongUsage(SystemExit):
    """Arguments that the parser refused, after it printed usage and `sentence` on stderr."""

    def __init__(self, sentence: str) -> None:
        super().__init__(int(Exit.USAGE))
        self.sentence = sentence


class _Parser(argparse.ArgumentParser):
    """Errors keep their sentence for --json. Each command's parser is one, too."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        if message.startswith("unrecognized"):
            message += "; `uttermill COMMAND --help` lists those of a command"
        sentence = masking.sentence(message)
        print(f"{self.prog}: error: {sentence}", file=sys.stderr)
        raise WrongUsage(sentence)


def parser() -> argparse.ArgumentParser:
    """The parser of `uttermill`; nothing heavy is imported for it, so that `--help` is quick."""
    top: argparse.ArgumentParser = _Parser(
        prog="uttermill",
        description="Raw recordings in, training-ready speech shards out, "
        "every second of audio accounted for.",
        epilog="exit codes: " + " | ".join(f"{code:d} {code.meaning}" for code in Exit),
    )
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    every = json.loads(Path(__file__).with_name("commands.json").read_text("utf-8"))
    shared = every.pop("shared")
    for name, arguments in every.items():
        text = arguments.pop("help")
        command = commands.add_parser(name, help=text, description=text)
        if name == "completion":  # prints a script
            command.set_defaults(json=False)
        else:
            command.add_argument(
                "--json", action="store_true", help="print one JSON object on stdout"
            )
        for argument, given in arguments.items():
            about = shared[argument] if given is True else given
            about = {"help": about, "action": "store_true"} if isinstance(about, str) else {**about}
            if about.get("action") == "append":
                about["default"] = []
            if "type" in about:
                about["type"] = KINDS[about["type"]]
            command.add_argument(argument, **about)
    return top


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"uttermill {version('uttermill')}")
        parser.exit()


def _number(
    kind: Callable[[str], float], fits: Callable[[float], bool], wanted: str
) -> Callable[[str], float]:
    def number(text: str) -> float:
        with suppress(ValueError):
            if fits(value := kind(text)):
                return value
        raise argparse.ArgumentTypeError(f"give {wanted}")

    return number


#: The types of arguments.
KINDS: dict[str, Callable[[str], float]] = {
    "int": int,
    "fraction": _number(float, lambda share: 0 < share <= 1, "a fraction above 0 and up to 1"),
    "count": _number(int, lambda count: count >= 1, "1 or more"),
    "port": _number(
        int, lambda port: 0 <= port <= 65535, "a port up to 65535, or 0 for a free one"
    ),
}
