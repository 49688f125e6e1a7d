"""The shelves: a file's name is its registration, a dotted name imports your own module.

No decorators and no import-time registry, so that a freshly spawned worker knows exactly the
plug-ins that its parent knows.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, get_args

from pydantic import ValidationError

from tasks.errors import ConfigError
from tasks.settings import Plugin, Source, SourceSettings, StageSettings
from tasks.shelves import SHELVES, names

MOST_FAULTS = 8  # that one message tells
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")


@cache  # looking at the shelf's folder takes a fifth of a millisecond
def load(shelf: str, use: str) -> ModuleType:
    """Import a plug-in; ConfigError names what stands on the shelf when it is not there."""
    if shelf not in SHELVES:
        raise ConfigError(f"there is no shelf {shelf!r}; shelves are {', '.join(SHELVES)}")
    dotted = "." in use
    if dotted and not _DOTTED.fullmatch(use):
        raise ConfigError(f"{shelf}: {use!r} is no dotted name of a module")
    if not dotted and use not in names(shelf):
        raise ConfigError(f"no {use!r} on the shelf {shelf}; it holds {', '.join(names(shelf))}")
    try:
        return import_module(use if dotted else f"tasks.{shelf}.{use}")
    except ImportError as error:
        raise ConfigError(f"{shelf}: {use!r} cannot be imported: {error}") from error


def module_of(stage: str) -> ModuleType:
    """The module of filter, resample or transcribe; or of `probe`, which is shaped like them."""
    return import_module("tasks.stages.probe" if stage == "probe" else f"tasks.{stage}")


def resolve(shelf: str, plugin: Plugin) -> tuple[ModuleType, Any]:
    """A plug-in's module and its checked settings."""
    module = load(shelf, plugin.use)
    if not hasattr(module, "Settings"):
        raise ConfigError(f"{shelf}: the module {plugin.use!r} is no plug-in; it has no Settings")
    return module, checked(module.Settings, plugin.options, f"{shelf}.{plugin.use}")


def resolve_source(source: Source) -> tuple[ModuleType, Any]:
    """A source's module and its checked settings."""
    module = load("sources", source.kind)
    if not hasattr(module, "recordings"):
        raise ConfigError(f"sources: the module {source.kind!r} is no source")
    data = {"kind": source.kind, "path": source.path, **source.options}
    settings: SourceSettings = checked(module.Settings, data, f"sources.{source.kind}")
    return module, settings


def checked(model: type[StageSettings], data: dict[str, Any], where: str) -> Any:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(explain(error, model, where)) from None


def explain(error: ValidationError, model: type[Any], where: str) -> str:
    """One sentence for the first faults; an unknown key is named with its neighbours."""
    parts = []
    faults = error.errors(include_url=False, include_input=False)
    for fault in faults[:MOST_FAULTS]:
        place = ".".join([where, *(str(p) for p in fault["loc"])]).strip(".")
        if fault["type"] == "extra_forbidden":
            owner: Any = model
            for step in fault["loc"][:-1]:
                owner = _child(owner, step)
            known = ", ".join(getattr(owner, "model_fields", {})) or "none"
            parts.append(f"{place}: no such setting; here there are: {known}")
        else:
            parts.append(f"{place}: {fault['msg'].removeprefix('Value error, ')}")
    if len(faults) > MOST_FAULTS:
        parts.append(f"and {len(faults) - MOST_FAULTS} more")
    return "; ".join(parts)


def _child(model: Any, step: Any) -> Any:
    field = getattr(model, "model_fields", {}).get(step)
    if field is None:
        return model
    for candidate in (field.annotation, *get_args(field.annotation)):
        if hasattr(candidate, "model_fields"):
            return candidate
    return model
