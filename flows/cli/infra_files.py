"""`uttermill files`: what `infra/` holds, from the installed package: pages and messages name these
files, and an installation has no source tree."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable

from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.plugins import explaining

HOME = resources.files("uttermill") / "files"


def answer(args: argparse.Namespace) -> JsonObject:
    """`name` and `text` of one file, or all names."""
    files = dict(_files(HOME, ""))
    if args.name is None:
        return {"files": sorted(files)}
    if args.name not in files:
        raise ConfigError(
            f"no file {args.name!r}; {explaining.meant(args.name, sorted(files))}"
            "`uttermill files` lists all"
        )
    return {"name": args.name, "text": files[args.name].read_text(encoding="utf-8")}


def shown(answer: JsonObject) -> Iterator[str]:
    if "text" in answer:
        yield from answer["text"].splitlines()
        return
    yield from answer["files"]
    yield "Print one by its name: `uttermill files dask.yaml > dask.yaml`"


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _files(entry, f"{name}/")
        else:
            yield name, entry
