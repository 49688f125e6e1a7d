"""The script of `uttermill completion`: the values of each argument, by its metavar.

Fixed words (formats, kinds of plug-ins, settings) are in the script. Splits and reasons come from
the version that the command line names, else from fixed lists.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import shtab

from ...tasks import plugins
from ...tasks.base import shelves
from ...tasks.base.errors import CODES
from ...tasks.models import registry
from . import setting_listing
from .command_line import parser

PATHS = ("SETTINGS.yaml", "OUT", "DATASET", "DIR", "FOLDER", "PATH", "FILE")
#: Shell functions by metavar.
FUNCTIONS = {
    "F": "formats",
    "S": "splits",
    "R": "reasons",
    "KIND[.NAME]": "kinds",
    "STAGE": "stages",
    "A.B=C": "sets",
    "NAME": "models",
}
SPLITS = ("train", "dev", "test")


def script(shell: str) -> str:
    whole = parser()
    vocabulary = words()
    for action in _actions(whole):
        if action.choices or action.metavar is None or "--fraction" in action.option_strings:
            continue
        if action.metavar in PATHS:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar in FUNCTIONS:
            name = FUNCTIONS[str(action.metavar)]
            listed = f"({' '.join(vocabulary[name])})"
            action.complete = {  # type: ignore[attr-defined]
                "bash": f"_uttermill_{name}",
                "zsh": listed,
                "tcsh": listed,
            }
    functions = [
        f"_uttermill_known_{name}='{' '.join(listed)}'\n"
        f'_uttermill_{name}() {{ compgen -W "$_uttermill_known_{name}" -- "$1"; }}'
        for name, listed in vocabulary.items()
    ]
    preamble: Any = {"bash": "\n".join(functions)}  # shtab types it as one text
    text: str = shtab.complete(whole, shell, preamble=preamble)
    in_bash = Path(__file__).with_name("completion.bash")
    return f"{text}\n{in_bash.read_text('utf-8')}" if shell == "bash" else text


def words() -> dict[str, list[str]]:
    every = list(chain.from_iterable(setting_listing.listing(None).values()))
    names = [entry["setting"] for entry in every]
    named = (f"{kind}.{name}" for kind in shelves.SHELVES for name in shelves.names(kind))
    return {
        "formats": shelves.names("formats"),
        "splits": list(SPLITS),
        "reasons": sorted(set(_reasons())),
        "kinds": [*shelves.SHELVES, *named],
        "stages": list(dict.fromkeys([*setting_listing.GROUPS, *names])),
        "sets": [f"{name}=" for name in dict.fromkeys(_assignable(every))],
        "models": [model.name for model in registry.MODELS],
    }


def _assignable(every: Iterable[dict[str, object]]) -> Iterator[str]:
    """Settings as `--set` takes them: sources by number, plug-ins by `use`; and those of plug-ins,
    in a list below the name of each."""
    for entry in every:
        name = str(entry["setting"]).replace("sources.", "sources.0.", 1)
        yield f"{name}.use" if f"{name}.use=" in str(entry["example"]) else name
        if kind := entry["plugins"]:
            several = isinstance(entry["default"], list)
            for plugin in shelves.names(str(kind)):
                place = f"{name}.{plugin}" if several else name
                settings = plugins.load(str(kind), plugin).Settings.model_fields
                yield from (f"{place}.{setting}" for setting in settings if setting != "use")


def _reasons() -> Iterator[str]:
    """Most reasons: those of rules on text are named as their plug-ins."""
    for name in shelves.names("filters"):
        for both in getattr(plugins.module("filters", name), "REASONS", {}).values():
            yield from (f"filter.{reason}" for reason in both)
    yield from (f"transcribe.{name}" for name in shelves.names("text"))
    for stage in ("shard", "filter", "transcribe"):
        yield from (f"{stage}.{code}" for code in CODES)


def _actions(command: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in command._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
