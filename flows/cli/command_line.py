"""The command `uttermill`: arguments in, exit code out; what a command does stands in commands.py.

Nothing heavy is imported before the arguments are known, so that `--help` is quick.
Exit: 0 done, 1 failed or refused to publish, 2 settings or usage, 3 verify found a fault,
4 another run holds OUT, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from tasks import masking
from tasks.errors import ConfigError, Held, MillError, NothingLeft

DONE, FAILED, USAGE, FAULT, HELD, INTERRUPTED = 0, 1, 2, 3, 4, 130


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="uttermill",
        description="Raw recordings in, training-ready speech shards out, "
        "every second of audio accounted for.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--json", action="store_true", help="one JSON object on stdout")
        return command

    def sets(command: argparse.ArgumentParser) -> None:
        command.add_argument(
            "--set", action="append", default=[], metavar="A.B=C", dest="sets",
            help="change one setting; the value is YAML",
        )  # fmt: skip

    demo = add("demo", "all five tasks on a small corpus that it makes itself")
    demo.add_argument("--out", default="uttermill-demo", metavar="DIR")
    sets(demo)
    run = add("run", "prepare a dataset from SETTINGS.yaml, or from --source and --out")
    estimate = add("estimate", "forecast hours kept, time and disk of a run, from a sample of it")
    for command in (run, estimate):
        command.add_argument("settings", nargs="?", metavar="SETTINGS.yaml")
        command.add_argument(
            "--source", action="append", default=[], metavar="PATH", dest="sources"
        )
        command.add_argument("--out", metavar="DIR")
        sets(command)
    estimate.add_argument(
        "--fraction", type=_fraction, default=0.005, metavar="F",
        help="of the recordings that are sampled (0.005)",
    )  # fmt: skip
    estimate.add_argument(
        "--least", type=_count, default=50, metavar="N", help="recordings, at least (50)"
    )
    serve = add("serve", "run SETTINGS.yaml on a schedule and when Prefect's UI asks, until Ctrl-C")
    serve.add_argument("settings", metavar="SETTINGS.yaml")
    serve.add_argument("--cron", metavar="EXPR", help='a schedule, as "0 2 * * *" (none)')
    serve.add_argument("--timezone", metavar="ZONE", help="of the schedule, as Europe/Berlin (UTC)")
    serve.add_argument("--name", help="of the deployment (the file's name)")
    sets(serve)
    for name, text in (
        ("status", "what is done, stage by stage, and what a run would still compute"),
        ("ledger", "where every item and second went"),
        ("report", "(re)build the newest run's report.html"),
    ):
        command = add(name, text)
        command.add_argument("out", metavar="OUT")
        if name == "ledger":
            command.add_argument("--items", action="store_true", help="one row an item")
            command.add_argument("--reason", metavar="R", help="items of this reason only")
            command.add_argument("--dataset", metavar="D", help="items of this dataset only")
            command.add_argument("--csv", action="store_true", help="items as CSV on stdout")
    what_if = add("what-if", "hours and items that other thresholds would keep")
    what_if.add_argument("out", metavar="OUT")
    sets(what_if)
    verify = add("verify", "reopen everything published: hashes, decodes, keys, counts")
    verify.add_argument("dataset", metavar="DATASET")
    verify.add_argument(
        "--deep", action="store_true", help="also every checkpoint of the OUT that it lies in"
    )
    prune = add("prune", "list what no kept version and no current settings need; remove it")
    prune.add_argument("out", metavar="OUT")
    prune.add_argument(
        "--keep", type=int, default=3, metavar="N", help="versions that stay, the newest (3)"
    )
    prune.add_argument(
        "--runs", type=int, default=None, metavar="N", help="folders of runs that stay (all)"
    )
    prune.add_argument(
        "--keep-recipes", action="store_true",
        help="what the settings of kept versions reach stays, not only the newest run's",
    )  # fmt: skip
    prune.add_argument("--yes", action="store_true", help="remove it; without, it is only listed")
    listing = add("list", "data.list with absolute or prefixed paths, for a trainer")
    listing.add_argument("dataset", metavar="DATASET")
    listing.add_argument("--prefix", metavar="P", help="put before each path instead")
    listing.add_argument("--split", default=None, help="only this split")
    doctor = add("doctor", "prove the workers' environment; exit 1 if anything is wrong")
    doctor.add_argument("settings", nargs="?", metavar="SETTINGS.yaml", help="whose cluster")
    sets(doctor)
    add("plugins", "what stands on each shelf")
    add("schema", "every column with its unit")
    return top


def _fraction(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError("a fraction is above 0 and up to 1")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("give 1 or more")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    # No network unless a setting names it: Prefect's client would send usage data, too.
    os.environ.setdefault("DO_NOT_TRACK", "1")
    signal.signal(signal.SIGTERM, _interrupt)
    _log_to_stderr()
    from flows.cli import commands

    try:
        code: int = getattr(commands, args.command.replace("-", "_"))(args)
    except (KeyboardInterrupt, SystemExit):
        return _fail(args, "interrupted; run it again to go on from here", INTERRUPTED)
    except ConfigError as error:
        return _fail(args, str(error), USAGE)
    except Held as error:
        return _fail(args, str(error), HELD)
    except NothingLeft as error:
        facts = {"reasons": error.reasons, "ignored": error.ignored}
        return _fail(args, str(error), FAILED, facts)
    except MillError as error:
        return _fail(args, str(error), FAILED)
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return DONE
    except OSError as error:  # a full disk, most often
        return _fail(args, f"the system refused: {error}", FAILED)
    return code


def _log_to_stderr() -> None:
    """Our own lines only: Dask and Prefect say a great deal, and keep it in their own records."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    handler.addFilter(masking.Filter())
    logger = logging.getLogger("uttermill")
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    # Dask reads it when it is imported; a level that is set before would be undone then.
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")


def _fail(args: Any, sentence: str, code: int, facts: dict[str, Any] | None = None) -> int:
    sentence = masking.sentence(sentence)  # what the system says may name anything
    print(f"uttermill: {sentence}", file=sys.stderr)
    if args.json:
        print(json.dumps({"error": sentence, "exit": code, **(facts or {})}))
    return code


def _interrupt(signum: int, frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
