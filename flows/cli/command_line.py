"""The command `uttermill`: arguments in, exit code out.

Commands, their arguments and help are in `commands.json`, as `argparse` names the parts of an
argument: a text alone is the help of a flag, and `true` stands for the argument of this name in
`shared`.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from ...tasks.base import environment, masking
from ...tasks.base.errors import ConfigError, MillError, NothingLeft, OutLocked, TooManyFailed
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log, sent_to
from ...tasks.base.masking import json_line
from ...tasks.base.process_memory import importing, without_pandas
from ..machine import NO_THREAD, RAISE
from . import process_setup
from .printing import Declined, Exit


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


INTERRUPTED = "interrupted; run it again to continue from here"

#: Commands by the module with their functions, which is imported by the command that needs it.
MODULES = {
    "run": ("demo", "run", "plan", "estimate", "serve"),
    "result": (
        *("status", "ledger", "report", "explore", "review", "what-if", "compare"),
        *("verify", "prune", "forget", "list"),
    ),
    "tool": (
        *("doctor", "plugins", "settings", "schema", "models", "files", "test-set"),
        *("init", "completion"),
    ),
}
#: Commands that import Prefect.
RECORDED = ("demo", "run", "estimate", "serve")


def _called(module: str, args: argparse.Namespace) -> Exit:
    with importing():
        functions = import_module(f"uttermill.flows.cli.{module}_commands")
    name = "list_clips" if args.command == "list" else args.command.replace("-", "_")
    code: Exit = getattr(functions, name)(args)
    return code


COMMANDS = {name: partial(_called, module) for module, names in MODULES.items() for name in names}


def main(argv: Sequence[str] | None = None) -> int:
    if argv is None:
        sys.excepthook = _show
    args = _parsed(sys.argv[1:] if argv is None else argv)
    with ExitStack() as scope:
        scope.enter_context(environment.set_up())
        scope.callback(log.setLevel, log.level)
        log.setLevel(logging.INFO)
        scope.enter_context(sent_to(logging.StreamHandler(), "%(levelname)s %(message)s"))
        return _run(args, is_own_process=argv is None)


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print the traceback of a bug, masked: a library's error may name any path or URL."""
    whole = "".join(traceback.format_exception(kind, error, trace))
    print(masking.lines(whole), end="", file=sys.stderr)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    try:
        return parser().parse_args(words)
    except WrongUsage as error:
        if "--json" in words:  # no parsed arguments say so
            _print_error(error.sentence, Exit.USAGE, {})
        raise
    except SystemExit:  # help or the version is printed
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            pass
        except OSError as error:
            print(f"uttermill: {_sentence(error)}", file=sys.stderr)
            raise SystemExit(int(Exit.FAILED)) from None
        raise


def _run(args: argparse.Namespace, is_own_process: bool) -> Exit:
    heard = process_setup.Heard()
    try:
        with process_setup.interrupts_heard(heard):
            environment.check_current_folder(prefect=args.command in RECORDED)
            if is_own_process:
                with importing():
                    without_pandas()
            if getattr(args, "trust_plugins", False):
                environment.set_own_plugins(environment.ANY_PLUGIN)
            code = COMMANDS[args.command](args)
            sys.stdout.flush()
        return code
    except (KeyboardInterrupt, SystemExit):
        return _interrupted(args, heard)
    except ConfigError as error:
        return _fail(args, str(error), Exit.USAGE)
    except Declined as error:
        return _fail(args, str(error), Exit.INTERRUPTED)
    except OutLocked as error:
        return _fail(args, str(error), Exit.HELD)
    except NothingLeft as error:
        for line in error.notes:
            print(f"  {masking.sentence(line)}", file=sys.stderr)
        facts = {"reasons": error.reasons, "ignored": error.ignored}
        return _fail(args, str(error), Exit.FAILED, facts)
    except TooManyFailed as error:
        for line in error.broken:
            print(f"  {masking.sentence(line)}", file=sys.stderr)
        return _fail(args, str(error.args[0]), Exit.FAILED, {"broken": list(error.broken)})
    except MillError as error:
        return _fail(args, str(error), Exit.FAILED)
    except BrokenPipeError:  # `| head` has read enough
        return Exit.DONE
    except UnicodeEncodeError as error:
        if error.encoding in ("utf-8", "utf8"):
            raise  # a bug
        why = f"this locale's encoding, {error.encoding}, cannot print a name"
        return _fail(args, f"{why}; set PYTHONUTF8=1", Exit.FAILED)
    except OSError as error:
        return _fail(args, _sentence(error), Exit.FAILED)
    except Exception as error:  # libraries give an interrupt, or a lack of threads, other names
        if isinstance(error, RuntimeError) and str(error) == NO_THREAD:
            sentence = f"this user may start no more threads or processes here: {RAISE}"
            return _fail(args, sentence, Exit.FAILED)
        if not process_setup.was_interrupt(error):
            raise  # a bug
        return _interrupted(args, heard)


def _sentence(error: OSError) -> str:
    from ...tasks.storage import owners  # here: it imports pyarrow

    return owners.sentence(error)


def _interrupted(args: argparse.Namespace, heard: process_setup.Heard) -> Exit:
    return _fail(args, INTERRUPTED, Exit.TERMINATED if heard.terminated else Exit.INTERRUPTED)


def _fail(
    args: argparse.Namespace, sentence: str, code: Exit, facts: JsonObject | None = None
) -> Exit:
    sentence = masking.sentence(sentence)  # a system error may name any path or URL
    print(f"uttermill: {sentence}", file=sys.stderr)
    if args.json:
        _print_error(sentence, code, facts or {})
    return code


def _print_error(sentence: str, code: Exit, facts: JsonObject) -> None:
    with suppress(OSError):  # if nobody can read it, the exit code remains
        print(json_line({"error": sentence, "exit": code, **facts}), flush=True)
