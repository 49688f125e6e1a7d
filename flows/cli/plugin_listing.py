"""The JSON of `uttermill plugins`: each plug-in, and each of its settings with unit and default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from pydantic.fields import FieldInfo

from flows.cli import setting_listing
from tasks import plugins
from tasks.base import shelves
from tasks.base.errors import ConfigError
from tasks.base.json_types import JsonObject
from tasks.plugins.annotation_kinds import Annotations
from tasks.plugins.contracts import Measuring


def all_shelves() -> JsonObject:
    """Each kind's plug-ins with the names of their settings."""
    return {
        shelf: {name: _short(shelf, name) for name in shelves.names(shelf)}
        for shelf in shelves.SHELVES
    }


def named(which: str) -> JsonObject:
    """`KIND` or `KIND.NAME`: its plug-ins, with all facts on their settings and columns.

    ConfigError names the shelves, or what the shelf holds.
    """
    shelf, _, name = which.partition(".")
    if shelf not in shelves.SHELVES:
        kinds = [kind for kind in shelves.SHELVES if which in shelves.names(kind)]
        meant = " or ".join(f"{kind}.{which}" for kind in kinds) or "filters.silence"
        stage = f"; `uttermill settings {which}` prints the settings of a stage"
        raise ConfigError(
            f"no kind of plug-in {shelf!r}; known: {', '.join(shelves.SHELVES)}, and a plug-in "
            f"is named as in {meant}{stage if shelf in setting_listing.GROUPS else ''}"
        )
    names = [name] if name else shelves.names(shelf)
    return {shelf: {plugin: _whole(shelf, plugin) for plugin in names}}


def _short(shelf: str, name: str) -> JsonObject:
    text = (plugins.module(shelf, name).__doc__ or "").strip().splitlines()
    settings = sorted(plugins.load(shelf, name).Settings.model_fields)
    return {"about": text[0] if text else "", "settings": settings}


def _whole(shelf: str, name: str) -> JsonObject:
    module = plugins.load(shelf, name)
    columns: Mapping[str, tuple[str, str]] = {}
    declared: Annotations = {}
    if shelf in plugins.MEASURING:
        measuring: Measuring = "filters" if shelf == "filters" else "text"
        columns = plugins.columns(measuring, name)
        declared = plugins.annotated(measuring, name)
    fields = {key: f for key, f in module.Settings.model_fields.items() if key != "kind"}
    abilities = plugins.ASR.load(name).abilities(module.Settings()) if shelf == "asr" else None
    return {
        "about": _short(shelf, name)["about"],
        **({} if abilities is None else {"abilities": asdict(abilities)}),
        "settings": [
            setting_listing.entry(key, module.Settings, key, unit_of(name, key, field, columns))
            for key, field in fields.items()
        ],
        "columns": [
            {"column": column, "unit": unit, "meaning": text}
            for column, (unit, text) in columns.items()
        ],
        "annotations": [
            {
                "annotation": annotation,
                "kind": kind.name,
                "unit": kind.unit,
                "meaning": f"{kind.doc} ({kind.extent})",
            }
            for annotation, kind in declared.items()
        ],
    }


def unit_of(
    plugin: str, setting: str, field: FieldInfo, columns: Mapping[str, tuple[str, str]]
) -> str:
    """As its description says, as its name says, or of the column that it limits; else empty."""
    if unit := setting_listing.unit_of(setting, field):
        return unit
    side, _, part = setting.partition("_")
    column = f"{plugin}_{part}" if part else plugin
    unit = columns.get(column, columns.get(part, ("", "")))[0] if side in ("min", "max") else ""
    return "" if unit == "1" else unit
