"""What each command does: parsed arguments in, exit code out.

Modules are imported by the command that needs them, so that a command starts quickly.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.cli.exit_codes import Exit
from tasks.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from flows.settings import PrepareSettings


def run(args: argparse.Namespace) -> Exit:
    print("Looking at the sources, and at what is done …", file=sys.stderr, flush=True)
    from flows.cli import asking
    from flows.cli.show import runs
    from flows.run import launch

    settings = _settings(args)
    if not asking.agreed(settings, args.yes):
        print("Nothing was started.", file=sys.stderr)
        return Exit.INTERRUPTED
    return _print(args, launch.run(settings), runs.run)


def plan(args: argparse.Namespace) -> Exit:
    from flows import settings
    from flows.cli.show import plans as shown
    from flows.run import plans

    chosen = _settings(args)
    settings.check_wishes(chosen)
    return _print(args, plans.of(chosen), shown.plan)


def estimate(args: argparse.Namespace) -> Exit:
    from flows.cli.show import runs
    from flows.run import launch

    options = {"fraction": args.fraction, "least": args.least}
    return _print(args, launch.estimate(_settings(args), **options), runs.estimate)


def demo(args: argparse.Namespace) -> Exit:
    from flows import settings
    from flows.cli.show import runs
    from flows.demo.corpus import DEMO_SETTINGS, make_corpus
    from flows.run import launch

    if "://" in args.out:
        raise ConfigError("the demo makes its corpus beside its results; give a folder as --out")
    home = Path(args.out).absolute()
    data = {**DEMO_SETTINGS, "sources": make_corpus(home / "corpus"), "out": str(home)}
    for assignment in args.sets:
        settings.assign(data, assignment)
    return _print(args, launch.run(settings.parse(data)), runs.run)


def serve(args: argparse.Namespace) -> Exit:
    from flows import serve as serving
    from flows import settings
    from flows.cli.show import runs

    def ready(served: serving.Served) -> None:
        _print(args, vars(served), runs.serve)
        sys.stdout.flush()  # the command goes on for long

    chosen = settings.read(args.settings, [], None, args.sets)
    name = Path(args.settings).stem if args.name is None else args.name
    serving.serve(chosen, name, args.cron, args.timezone, ready)
    return Exit.DONE


def status(args: argparse.Namespace) -> Exit:
    from flows.cli import queries
    from flows.cli.show import results

    return _print(args, queries.status(_out(args.out)), results.status)


def ledger(args: argparse.Namespace) -> Exit:
    from flows.cli import queries
    from flows.cli.show import results
    from flows.run import items

    if not (args.items or args.csv or args.reason or args.dataset):
        return _print(args, queries.ledger(_out(args.out)), results.ledger)
    if args.csv and args.json:
        raise ConfigError("give --csv or --json, not both")
    rows = queries.items(_out(args.out), args.reason, args.dataset)
    if args.csv:
        items.write_csv(rows, sys.stdout)
        return Exit.DONE
    return _print(args, {"items": [*rows]}, results.items)


def report(args: argparse.Namespace) -> Exit:
    from flows.cli.show import results
    from flows.run import report as reports

    return _print(args, reports.newest(_out(args.out)), results.report)


def explore(args: argparse.Namespace) -> Exit:
    from flows.cli.show import results
    from flows.explore import serve as exploring

    def ready(served: exploring.Served) -> None:
        _print(args, asdict(served), results.explore)
        sys.stdout.flush()  # the command goes on for long

    exploring.explore(_out(args.out), args.version, args.against, args.port, ready)
    return Exit.DONE


def review(args: argparse.Namespace) -> Exit:
    from flows.cli import reviews
    from flows.cli.show import results

    out, file = reviews.places(args.action, args.paths, args.out)
    if file is not None:
        return _print(args, reviews.take(_out(out), file), results.imported)
    found = reviews.told(_out(out), args.all)
    if args.json:
        print(json.dumps({"decisions": found}, ensure_ascii=False))
    else:
        lines = (json.dumps(each, ensure_ascii=False) for each in found)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return Exit.DONE


def what_if(args: argparse.Namespace) -> Exit:
    from flows.cli import queries
    from flows.cli.show import results

    return _print(args, queries.what_if(_out(args.out), args.sets), results.what_if)


def verify(args: argparse.Namespace) -> Exit:
    from flows.cli.show import results
    from tasks.upkeep import checkpoints
    from tasks.upkeep import verify as verifying

    dataset = _dataset(args.dataset)
    out = checkpoints.out_of(dataset) if args.deep else None
    faults = verifying.verify(dataset)
    result: dict[str, Any] = {"ok": not faults, "faults": faults}
    if out is not None:
        found = checkpoints.verify(out)
        faults += found.faults
        read = {"parts": found.parts, "blobs": found.blobs, "bytes": found.bytes}
        result = {"ok": not faults, "faults": faults, "checkpoints": read}
    if not faults and (beside := verifying.side_files(dataset)):
        result["side_files"] = beside
    _print(args, result, results.verify)
    return Exit.FAULT if faults else Exit.DONE


def prune(args: argparse.Namespace) -> Exit:
    from flows.cli import pruning
    from flows.cli.show import results

    result = pruning.prune(_out(args.out), args.keep, args.runs, args.keep_recipes, args.yes)
    return _print(args, result, results.prune)


def list_clips(args: argparse.Namespace) -> Exit:
    from flows.cli import queries

    found = queries.data_list(_dataset(args.dataset), args.prefix, args.format, args.split)
    if args.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in found["paths"]))
    if args.split is None and found["others"]:
        left_out = " and ".join(found["others"])
        print(f"Only the split train of {found['format']}; --split for {left_out}", file=sys.stderr)
    return Exit.DONE


def doctor(args: argparse.Namespace) -> Exit:
    from flows.cli import doctor as examination

    return examination.doctor(args.json, *examination.chosen(args.settings, args.sets))


def plugins(args: argparse.Namespace) -> Exit:
    from flows.cli import shelf_facts
    from flows.cli.show import results

    if args.which is None:
        return _print(args, shelf_facts.all_shelves(), results.shelves)
    return _print(args, shelf_facts.named(args.which), results.plugins)


def schema(args: argparse.Namespace) -> Exit:
    from flows.cli import queries
    from flows.cli.show import results

    return _print(args, queries.columns(), results.columns)


def models(args: argparse.Namespace) -> Exit:
    from flows.cli import models as known

    if (args.action == "fetch") != (args.name is not None):
        raise ConfigError("`uttermill models fetch NAME` takes a name, such as speakers; no other")
    found = known.answer(args)
    _print(args, found, known.shown)
    return Exit.FAULT if found.get("damaged") else Exit.DONE


def init(args: argparse.Namespace) -> Exit:
    from flows.cli import starting

    return _print(args, starting.init(args), starting.told)


def completion(args: argparse.Namespace) -> Exit:
    import shtab

    from flows.cli.arguments import parser

    print(shtab.complete(parser(), args.shell))
    return Exit.DONE


#: Every command by its name.
COMMANDS: dict[str, Callable[[argparse.Namespace], Exit]] = {
    "demo": demo,
    "run": run,
    "plan": plan,
    "estimate": estimate,
    "serve": serve,
    "status": status,
    "ledger": ledger,
    "report": report,
    "explore": explore,
    "review": review,
    "what-if": what_if,
    "verify": verify,
    "prune": prune,
    "list": list_clips,
    "doctor": doctor,
    "plugins": plugins,
    "schema": schema,
    "models": models,
    "init": init,
    "completion": completion,
}


def _settings(args: argparse.Namespace) -> PrepareSettings:
    """Settings from a file, or from `--source` and `--out`."""
    from flows import settings

    if args.settings is None and not args.sources:
        raise ConfigError("give SETTINGS.yaml, or --source PATH and --out DIR")
    if args.settings is not None and args.sources:
        raise ConfigError("give SETTINGS.yaml or --source, not both")
    if args.settings is None and args.out is None:
        raise ConfigError("--source needs --out DIR, where the dataset goes")
    return settings.read(args.settings, args.sources, args.out, args.sets)


def _print(
    args: argparse.Namespace,
    result: dict[str, Any],
    show: Callable[[dict[str, Any], Console], None],
) -> Exit:
    """Print a table for people, on stderr where stdout is no terminal; with --json also print one
    object on stdout."""
    from rich.console import Console

    show(result, Console(stderr=args.json or not sys.stdout.isatty()))
    if args.json:
        print(json.dumps(result, ensure_ascii=False))
    return Exit.DONE


def _out(text: str) -> Path:
    from tasks import storage

    out = storage.place(text)
    if not storage.query(out / "runs", storage.is_folder):
        raise ConfigError(f"{out} is no OUT of a run: it holds no runs/")
    return out


def _dataset(text: str) -> Path:
    """A version's folder; OUT stands for its newest version."""
    from tasks import storage
    from tasks.dataset import versions

    return storage.query(storage.place(text), versions.named)
