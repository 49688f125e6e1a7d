"""Commands that show what runs left in OUT, or remove it."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from itertools import chain
from pathlib import Path

from ...tasks import storage
from ...tasks.base.counting import counted
from ...tasks.base.errors import ConfigError, RunError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.masking import json_line
from ...tasks.insight import comparing
from ...tasks.insight.estimating.what_if import explained
from ...tasks.publish.published import load
from ...tasks.publish.upkeep import checkpoints
from ...tasks.publish.upkeep import verify as verifying
from ...tasks.storage import containment, versions
from .. import checks
from ..run import ledger_items
from ..run import report as reports
from . import queries, reviews
from .printing import Exit, print_answer, print_lines, readable, tell
from .show import results


def status(args: argparse.Namespace) -> Exit:
    return print_answer(args, queries.status(_out(args.out)), results.status)


def ledger(args: argparse.Namespace) -> Exit:
    if not (args.items or args.csv or args.reason or args.dataset):
        return print_answer(args, queries.ledger(_out(args.out)), results.ledger)
    if args.csv and args.json:
        raise ConfigError("give --csv or --json, not both")
    rows = queries.item_rows(_out(args.out), args.reason, args.dataset, texts=args.csv)
    first = next(rows, None)
    if first is None:
        tell(_none_because(args, _out(args.out)))
    rows = chain(() if first is None else (first,), rows)
    if args.csv:
        further = (name for name in reviews.COLUMNS if name not in ledger_items.COLUMNS)
        columns = (*ledger_items.COLUMNS, *further)
        ledger_items.write_csv(rows, sys.stdout, readable(), columns)
        return Exit.DONE
    items = [{name: row[name] for name in ledger_items.COLUMNS} for row in rows]
    return print_answer(args, {"items": items}, results.items)


def _none_because(args: argparse.Namespace, out: Path) -> str:
    datasets, reasons = queries.known(out)
    if args.dataset and args.dataset not in datasets:
        names = ", ".join(datasets) or "none yet"
        return f"No item is of the dataset {args.dataset!r}; the datasets here are {names}."
    if not args.reason:
        return "There are no items yet."
    where = f" in the dataset {args.dataset}" if args.dataset else ""
    named = ", ".join(reasons) or "none yet"
    return f"No item{where} has the reason {args.reason!r}; the reasons here are {named}."


def report(args: argparse.Namespace) -> Exit:
    return print_answer(args, reports.newest(_out(args.out)), results.report)


def explore(args: argparse.Namespace) -> Exit:
    from ..explore import app as exploring

    answered = False

    def ready(served: exploring.Served) -> None:
        nonlocal answered
        print_answer(args, asdict(served), results.explore)
        sys.stdout.flush()  # the command goes on for long
        answered = True

    try:
        exploring.explore(_explored(args), args.version, args.against, args.port, ready)
    except KeyboardInterrupt:
        if not answered:
            raise
        return Exit.INTERRUPTED  # there is nothing to resume, and --json has printed its object
    return Exit.DONE


def _explored(args: argparse.Namespace) -> Path:
    """The OUT, or a dataset outside of one; a version inside its OUT gives both."""
    from ..explore.looking import alone

    place = _place(args.out)
    is_version = storage.query(place, versions.is_version)
    if is_version and storage.query(place.parent.parent / "runs", storage.is_folder):
        args.version = args.version or versions.number(place.resolve())
        return _out(str(place.resolve().parent.parent))
    if not alone(place):
        return _out(args.out)
    containment.check(place)
    return place


def review(args: argparse.Namespace) -> Exit:
    out, file = reviews.places(args.action, args.paths, args.out)
    if file is not None:
        return print_answer(args, reviews.import_file(_out(out), file), results.imported)
    if args.csv:
        if args.json:
            raise ConfigError("give --csv or --json, not both")
        rows = reviews.table(_out(out))
        ledger_items.write_csv(rows, sys.stdout, readable(), reviews.COLUMNS)
        return Exit.DONE
    decisions = reviews.decisions(_out(out), args.all)
    if not decisions:
        tell(f"There are no decisions by people in {out}.")
    return print_lines(args, {"decisions": decisions}, map(json_line, decisions))


def what_if(args: argparse.Namespace) -> Exit:
    with versions.steady(out := _out(args.out)):
        if args.explain:
            lines = explained(queries.asked_of(out, args.sets)[1].job())
            return print_lines(args, {"query": lines}, lines)
        result = queries.what_if(out, args.sets)
    return print_answer(args, result, results.what_if)


def compare(args: argparse.Namespace) -> Exit:
    if args.csv and args.json:
        raise ConfigError("give --csv or --json, not both")
    old, new = map(load, _compared(args.old, args.others))
    result = comparing.compare(old, new)
    if args.svg:
        storage.write_atomic(Path(args.svg), comparing.picture(result).encode())
    if args.csv:
        columns = ("section", "name", "old", "new")
        rows = (dict(zip(columns, row, strict=True)) for row in comparing.rows(result))
        ledger_items.write_csv(rows, sys.stdout, readable(), columns)
        return Exit.DONE
    return print_answer(args, result, results.compare)


def _compared(first: str, others: list[str]) -> tuple[Path, Path]:
    if len(others) == 2 and all(other.isdecimal() for other in others):
        out = _place(first)
        if lacks := storage.query(out, _lacks_folder):
            raise ConfigError(f"{out} is not the OUT of a run: {lacks}")
        wanted = [versions.numbered(out, int(number)) for number in others]
        for number, version in zip(others, wanted, strict=True):
            if not storage.query(version, versions.is_version):
                numbers = ", ".join(str(versions.number(one)) for one in versions.all_of(out))
                raise ConfigError(
                    f"{out} has no version {number}; versions there: {numbers or 'none'}"
                )
        old, new = (_dataset(str(version)) for version in wanted)
        return old, new
    if len(others) != 1 or others[0].isdecimal():
        raise ConfigError("give an OUT and two numbers of versions, or two versions or OUTs")
    return _dataset(first), _dataset(others[0])


def verify(args: argparse.Namespace) -> Exit:
    dataset = _dataset(args.dataset)
    out = checkpoints.out_of(dataset) if args.deep else None
    faults = verifying.verify(dataset)
    if faults and not versions.is_version(dataset):
        raise RunError(f"{dataset} was removed while it was verified")
    result: JsonObject = {"ok": not faults, "faults": faults}
    if out is not None:
        report = checkpoints.verify(out)
        faults += report.faults
        read = {"parts": report.parts, "blobs": report.blobs, "bytes": report.bytes}
        result = {"ok": not faults, "faults": faults, "checkpoints": read}
        if remedy := checkpoints.remedy(report, out):
            result["remedy"] = remedy
    if not faults and (beside := verifying.side_files(dataset)):
        result["side_files"] = beside
    print_answer(args, result, results.verify)
    return Exit.FAULT if faults else Exit.DONE


def prune(args: argparse.Namespace) -> Exit:
    result = queries.prune(_out(args.out), args.keep, args.runs, args.keep_recipes, args.yes)
    return print_answer(args, result, results.prune)


def forget(args: argparse.Namespace) -> Exit:
    if (args.recording is None) == (args.speaker is None):
        raise ConfigError("give --recording R or --speaker S")
    result = queries.forget(_out(args.out), args.recording, args.speaker)
    return print_answer(args, result, results.forget)


def list_clips(args: argparse.Namespace) -> Exit:
    dataset, asked = _dataset(args.dataset), (args.prefix, args.format, args.split)
    if args.since is None:
        listing = queries.data_list(dataset, *asked)
    else:
        listing = queries.list_since(dataset, args.since, *asked)
    if not args.json and any("\n" in path or "\r" in path for path in listing["paths"]):
        raise ConfigError(
            "a path here holds a line break, and a list has one path a line; use --json, or "
            "--prefix for a folder without one"
        )
    print_lines(args, listing, listing["paths"])
    if args.since is not None:
        tell(_since(listing))
    if args.split is None and listing["others"]:
        left_out = " and ".join(listing["others"])
        tell(f"Only the split train of {listing['format'] or dataset.name}; --split for {left_out}")
    return Exit.DONE


def _since(listing: JsonObject) -> str:
    new, changed, removed = (len(listing[name]) for name in ("new", "changed", "removed"))
    counts = f"Since {listing['since']}: {counted(new, 'new clip')}, {changed} changed"
    if not removed:
        return f"{counts}, none removed."
    ids = listing["removed"][:5]
    more = f" and {removed - 5} more (--json names all)" if removed > 5 else ""
    return f"{counts}, {removed} removed: {', '.join(ids)}{more}."


def _out(text: str) -> Path:
    out = _place(text)
    containment.check(out)
    if not storage.query(out / "runs", storage.is_folder):
        lacks = storage.query(out, _lacks_folder) or "it holds no runs/"
        if storage.query(out, versions.is_version):
            lacks = f"it is one of its versions; give {out.parent.parent}"
        raise ConfigError(f"{out} is not the OUT of a run: {lacks}")
    storage.query(out, versions.refuse_other_layout)
    return out


def _dataset(text: str) -> Path:
    """A version's folder; OUT stands for its newest version."""
    place = _place(text)
    containment.check(place.parent.parent if place.parent.name == "datasets" else place)
    version = storage.query(place, versions.named)  # in a bucket `latest` is a file
    if lacks := storage.query(version, _lacks_folder):
        raise ConfigError(f"{version} is not a dataset: {lacks}")
    is_out = version == place and storage.is_folder(place / "runs")
    if is_out and not storage.query(version, versions.is_version):
        raise ConfigError(versions.none_yet(place))
    return version


def _place(text: str) -> Path:
    if not text:  # an unset variable of a shell, which would be the current folder
        raise ConfigError("the folder's name is empty; for the current one, give .")
    place = storage.place(text)
    checks.check_text(str(place))
    return place


def _lacks_folder(place: Path) -> str | None:
    if storage.is_folder(place):
        return None
    return "it is a file, not a folder" if storage.exists(place) else "there is no such folder"
