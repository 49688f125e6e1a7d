"""What each command does. Every function takes the parsed arguments and returns the exit code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tasks.errors import ConfigError

DONE, FAILED, FAULT = 0, 1, 3


def run(args: Any) -> int:
    from flows.cli import show
    from flows.run import local

    result = local.run(_chosen(args))
    return _tell(args, result, show.run)


def estimate(args: Any) -> int:
    from flows.cli import show
    from flows.run import local

    result = local.run(_chosen(args), "estimate", fraction=args.fraction, least=args.least)
    return _tell(args, result, show.estimate)


def _chosen(args: Any) -> Any:
    """Settings of a file, or of `--source` and `--out`."""
    from flows import settings

    if args.settings is None and not args.sources:
        raise ConfigError("give SETTINGS.yaml, or --source PATH and --out DIR")
    if args.settings is not None and args.sources:
        raise ConfigError("give SETTINGS.yaml or --source, not both")
    if args.settings is None and args.out is None:
        raise ConfigError("--source needs --out DIR, where the dataset goes")
    return settings.read(args.settings, args.sources, args.out, args.sets)


def demo(args: Any) -> int:
    from flows import settings
    from flows.cli import show
    from flows.demo.corpus import DEMO_SETTINGS, make_corpus
    from flows.run import local

    if "://" in args.out:
        raise ConfigError("the demo makes its corpus beside its results; give --out a folder")
    home = Path(args.out).absolute()
    data = {**DEMO_SETTINGS, "sources": make_corpus(home / "corpus"), "out": str(home)}
    for assignment in args.sets:
        settings.assign(data, assignment)
    result = local.run(settings.parse(data))
    return _tell(args, result, show.run)


def serve(args: Any) -> int:
    from flows import serve as serving
    from flows import settings
    from flows.cli import show

    def ready(served: serving.Served) -> None:
        _tell(args, vars(served), show.serve)
        sys.stdout.flush()  # it goes on for long

    chosen = settings.read(args.settings, [], None, args.sets)
    name = Path(args.settings).stem if args.name is None else args.name
    serving.serve(chosen, name, args.cron, args.timezone, ready)
    return DONE


def status(args: Any) -> int:
    from flows.cli import answers as looks
    from flows.cli import show

    return _tell(args, looks.status(_out(args.out)), show.status)


def ledger(args: Any) -> int:
    from flows.cli import answers as looks
    from flows.cli import items, show

    if not (args.items or args.csv or args.reason or args.dataset):
        return _tell(args, looks.ledger(_out(args.out)), show.ledger)
    if args.csv and args.json:
        raise ConfigError("give --csv or --json, not both")
    rows = looks.items(_out(args.out), args.reason, args.dataset)
    if args.csv:
        items.write_csv(rows, sys.stdout)
        return DONE
    return _tell(args, {"items": [*rows]}, show.items)


def report(args: Any) -> int:
    from flows.cli import show
    from flows.run import report as making

    return _tell(args, making.newest(_out(args.out)), show.report)


def what_if(args: Any) -> int:
    from flows.cli import answers as looks
    from flows.cli import show

    return _tell(args, looks.what_if(_out(args.out), args.sets), show.what_if)


def verify(args: Any) -> int:
    from flows.cli import show
    from tasks.upkeep import checkpoints
    from tasks.upkeep.verify import verify as faults_of

    dataset = _dataset(args.dataset)
    out = checkpoints.out_of(dataset) if args.deep else None
    faults = faults_of(dataset)
    result: dict[str, Any] = {"ok": not faults, "faults": faults}
    if out is not None:
        found = checkpoints.verify(out)
        faults += found.faults
        read = {"parts": found.parts, "blobs": found.blobs, "bytes": found.bytes}
        result = {"ok": not faults, "faults": faults, "checkpoints": read}
    _tell(args, result, show.verify)
    return FAULT if faults else DONE


def prune(args: Any) -> int:
    from flows.cli import pruning, show

    result = pruning.prune(_out(args.out), args.keep, args.runs, args.keep_recipes, args.yes)
    return _tell(args, result, show.prune)


def list(args: Any) -> int:
    from flows.cli import answers as looks

    lines = looks.data_list(_dataset(args.dataset), args.prefix, args.split)
    if args.json:
        print(json.dumps({"paths": lines}))
    else:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return DONE


def doctor(args: Any) -> int:
    from flows.cli.doctor import chosen
    from flows.cli.doctor import doctor as examine

    return examine(args.json, *chosen(args.settings, args.sets))


def plugins(args: Any) -> int:
    from flows.cli import answers as looks
    from flows.cli import show

    return _tell(args, looks.on_shelves(), show.shelves)


def schema(args: Any) -> int:
    from flows.cli import answers as looks
    from flows.cli import show

    return _tell(args, looks.columns(), show.columns)


def _tell(args: Any, result: dict[str, Any], show: Any) -> int:
    """People's words on the terminal, or on stderr; with --json one object on stdout."""
    from rich.console import Console

    show(result, Console(stderr=args.json or not sys.stdout.isatty()))
    if args.json:
        print(json.dumps(result, ensure_ascii=False))
    return DONE


def _out(text: str) -> Path:
    from tasks import storage

    out = storage.place(text)
    if not storage.reach(out / "runs", storage.is_folder):
        raise ConfigError(f"{out} is no OUT of a run: it holds no runs/")
    return out


def _dataset(text: str) -> Path:
    """A version's folder; OUT itself stands for its newest version."""
    from tasks import storage
    from tasks.dataset import versions

    return storage.reach(storage.place(text), versions.named)
