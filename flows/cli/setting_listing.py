"""The JSON of `uttermill settings`: every setting of a run with unit, default, meaning and an
example. Those of plug-ins are listed by `uttermill plugins`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from ...tasks import plugins
from ...tasks.base import shelves
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.plugins import trusted
from ...tasks.plugins.annotation_kinds import Annotations
from ...tasks.plugins.contracts import Measuring
from ...tasks.recording import yaml_text
from ...tasks.settings import Source, SourceSettings, StageSettings, roles
from ...tasks.settings.base import Plugin, Shelf
from ..settings import PrepareSettings

#: Arguments of `uttermill settings`: stages, and settings beside them.
GROUPS = tuple(PrepareSettings.model_fields)

#: Examples, as `--set` takes them, that follow neither from a setting's default nor its choices.
EXAMPLES: dict[str, str] = json.loads(
    Path(__file__).with_name("examples.json").read_text(encoding="utf-8")
)
#: Models of settings that are off by default; an example of a part is that of the whole.
OFF = {"transcribe.llm_text", "cluster.tls"}
#: What a setting's example needs beside it.
_CLASS = "--set cluster.kind=class --set cluster.class_name=dask_jobqueue.SLURMCluster"
BESIDE = {
    "cluster.kind": "--set cluster.address=tcp://scheduler:8786",
    "cluster.workers.min": f"--set cluster.workers.max=8 {_CLASS}",
    "cluster.workers.max": _CLASS,
}
#: An entry is added to these lists, which have others by default.
ADDED = {"filter.filters", "resample.levels", "transcribe.verdicts"}

#: A unit in a description: after a comma, at the end of a sentence or before a remark.
_UNITS = r"ms|s|Hz|dB|dBFS|LUFS|MOS|samples|nats per token|nats|0 to 1|of full scale|bytes"
_UNIT = re.compile(rf", (?P<unit>{_UNITS})(?=[.;:,]|$)")
#: A unit by a word of a setting's name, or by the beginning of its description.
_WORDS = {"ms": "ms", "seconds": "s", "hz": "Hz", "db": "dB", "hours": "h", "gb": "GB"}
_WORDS |= {"fraction": "0 to 1"}
_BEGINNINGS = {"Seconds ": "s", "Share ": "0 to 1"}


def listing(which: str | None) -> JsonObject:
    """By stage, every setting; or those of `which`, a stage or a setting such as
    `package.splits`."""
    every = {group: [*_settings(PrepareSettings, group, group)] for group in GROUPS}
    if which is None:
        return every
    group = which.partition(".")[0]
    if group not in every:
        raise ConfigError(f"no stage and no setting {which!r}; known: {', '.join(GROUPS)}")
    kept = [e for e in every[group] if f"{e['setting']}.".startswith(f"{which}.")]
    if not kept:
        names = ", ".join(entry["setting"] for entry in every[group])
        raise ConfigError(f"no setting {which!r}; {group} has {names}")
    return {group: kept}


def _settings(model: type[BaseModel], key: str, name: str) -> Iterator[JsonObject]:
    """A setting, and those inside if it is a model of settings itself."""
    field = model.model_fields[key]
    inside = [
        part
        for part in _alternatives(field.annotation)
        if isinstance(part, type) and issubclass(part, StageSettings)
    ]
    if not isinstance(field.default, StageSettings):
        kind = next(_kinds(field.annotation, field.metadata), None)
        about = entry(name, model, key, unit_of(key, field))
        yield {**about, "example": example(name, field), "plugins": kind}
    models: Sequence[type[BaseModel]] = [Source, SourceSettings] if name == "sources" else inside
    owners = {inner: part for part in reversed(models) for inner in part.model_fields}
    for inner, part in owners.items():
        yield from _settings(part, inner, f"{name}.{inner}")


def entry(name: str, model: type[BaseModel], key: str, unit: str) -> JsonObject:
    field = model.model_fields[key]
    default = None if field.default is PydanticUndefined else to_jsonable_python(field.default)
    return {
        "setting": name,
        "unit": unit,
        "default": default,
        "required": field.is_required(),
        "kind": roles(model)[key] or "recipe",
        "meaning": field.description or "",
    }


def unit_of(setting: str, field: FieldInfo) -> str:
    """The unit by the field's description, else by its name; empty if neither has one."""
    about = field.description or ""
    if match := _UNIT.search(about):
        return match["unit"]
    named = (_WORDS[word] for word in reversed(setting.split("_")) if word in _WORDS)
    begun = (unit for start, unit in _BEGINNINGS.items() if about.startswith(start))
    return [*named, *begun, ""][0]


def example(name: str, field: FieldInfo) -> str:
    """`--set package.keep=60`, which changes the setting; empty without an example."""
    home = name.rpartition(".")[0]
    place = home if home in OFF else name
    value = EXAMPLES.get(place) or _other(field)
    if not value:
        return ""
    if Plugin in _alternatives(field.annotation) and not value.startswith(("[", "{")):
        place += ".use"
    adds = "+" if name in ADDED else ""
    place = place.replace("sources.", "sources.0.", 1)
    sets = f"--set {shlex.quote(f'{place}{adds}={value}')}"
    return f"{sets} {BESIDE[name]}" if name in BESIDE else sets


def _other(field: FieldInfo) -> str:
    default = field.default
    choices = [
        choice
        for part in _alternatives(field.annotation)
        if get_origin(part) is Literal
        for choice in get_args(part)
    ]
    if isinstance(default, bool):
        choices.append(not default)
    elif isinstance(default, int | float):
        choices += [2 * default, default / 2, type(default)(1)]
    limited: Any = Annotated[(field.annotation, *field.metadata, None)]
    valid: TypeAdapter[Any] = TypeAdapter(limited)
    for choice in choices:
        with suppress(ValidationError):
            if choice != default and type(choice) in (str, type(default)):
                return yaml_text.on_one_line(valid.validate_python(choice))
    return ""


def _alternatives(annotation: Any) -> list[Any]:
    """The types of a field: the members of a union, without their marks."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [part for member in get_args(annotation) for part in _alternatives(member)]
    return [annotation]


def _kinds(annotation: Any, marks: Iterable[Any] = ()) -> Iterator[str]:
    for mark in marks:
        if isinstance(mark, Shelf):
            yield mark.name
        elif isinstance(mark, BeforeValidator):
            yield from _kinds(mark.json_schema_input_type)
    if get_origin(annotation) is Annotated:
        yield from _kinds(get_args(annotation)[0], get_args(annotation)[1:])
    elif get_origin(annotation) in (Union, UnionType, tuple):
        for part in get_args(annotation):
            yield from _kinds(part)


# The JSON of `uttermill plugins`: each plug-in, and each of its settings with unit and default.


def all_shelves() -> JsonObject:
    return {
        shelf: {name: _short(shelf, name) for name in shelves.names(shelf)}
        for shelf in shelves.SHELVES
    }


def plugins_named(which: str) -> JsonObject:
    """`KIND` or `KIND.NAME`: its plug-ins, with all facts on their settings and columns."""
    shelf, _, name = which.partition(".")
    if shelf not in shelves.SHELVES:
        kinds = [kind for kind in shelves.SHELVES if which in shelves.names(kind)]
        meant = " or ".join(f"{kind}.{which}" for kind in kinds) or "filters.silence"
        stage = f"; `uttermill settings {which}` prints the settings of a stage"
        raise ConfigError(
            f"no kind of plug-in {shelf!r}; known: {', '.join(shelves.SHELVES)}, and a plug-in "
            f"is named as in {meant}{stage if shelf in GROUPS else ''}"
        )
    names = [name] if name else shelves.names(shelf)
    trusted.trust(name)  # a person typed it
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
        declared = plugins.MEASURING[measuring].load(name).ANNOTATIONS
    fields = {key: f for key, f in module.Settings.model_fields.items() if key != "kind"}
    abilities = plugins.ASR.load(name).abilities(module.Settings()) if shelf == "asr" else None
    return {
        "about": _short(shelf, name)["about"],
        **({} if abilities is None else {"abilities": asdict(abilities)}),
        "settings": [
            entry(key, module.Settings, key, unit_of_plugin(name, key, field, columns))
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


def unit_of_plugin(
    plugin: str, setting: str, field: FieldInfo, columns: Mapping[str, tuple[str, str]]
) -> str:
    """The unit by its description, its name, or the column that it limits; else empty."""
    if unit := unit_of(setting, field):
        return unit
    side, _, part = setting.partition("_")
    column = f"{plugin}_{part}" if part else plugin
    unit = columns.get(column, columns.get(part, ("", "")))[0] if side in ("min", "max") else ""
    return "" if unit == "1" else unit
