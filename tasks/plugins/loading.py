"""Loads plug-ins: a file's name is its registration, a dotted name imports your own module.

No decorators and no import-time registry, so that a freshly spawned worker has exactly the plug-ins
of its parent. Members that a module omits are filled in here, and nowhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import chain, count
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Generic, NamedTuple, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from .. import settings
from ..base.errors import ConfigError
from ..base.json_types import JsonValue
from ..base.schema import UTTERANCES
from ..base.shelves import names
from ..settings import Plugin, SourceSettings, StageSettings
from ..settings.base import Shelf as ShelfMark
from ..settings.job import Job
from . import annotation_kinds, contracts, explaining, trusted
from .trusted import PLACES

Model = TypeVar("Model", bound=BaseModel)
Kind = TypeVar("Kind", bound=contracts.LoadedPlugin, covariant=True)

#: Checked settings, which are asked for with each utterance: checking costs as much as a short
#: measure.
_checked: dict[tuple[str, str, str], StageSettings] = {}
MOST_CHECKED = 256


@dataclass(frozen=True, slots=True)
class Shelf(Generic[Kind]):
    """A kind of plug-in, and the type of its loaded plug-ins."""

    name: str

    @cache  # noqa: B019 - kinds are few; listing their folder takes a fifth of a millisecond
    def load(self, use: str) -> Kind:
        """A plug-in, with defaults for the members that its module omits. ConfigError if it is
        unknown, cannot be imported, or lacks a member of its kind's contract."""
        code = module(self.name, use)
        noun, contract = contracts.CONTRACTS[self.name]
        if missing := contracts.lacking(code, contract):
            raise ConfigError(
                f"{self.name}: the module {use!r} is not a {noun}: it lacks {'; '.join(missing)} "
                f"({contract.__module__.replace('.', '/')}.py says what each of them is)"
            )
        plugin = contracts.filled(code, contract)
        if self.name in MEASURING:
            _refuse_bad_names(self.name, use, plugin)
            if not hasattr(code, "verdict") and not hasattr(code, "reject"):
                _refuse_idle_limits(self.name, use, plugin)
        return cast(Kind, plugin)

    def resolve(self, plugin: Plugin) -> tuple[Kind, StageSettings]:
        """A plug-in and its checked settings; ConfigError as by `load` and `checked`."""
        loaded = self.load(plugin.use)
        # By what is written: as values, `1`, `1.0` and `true` are equal.
        key = self.name, plugin.use, json.dumps(plugin.model_extra, default=repr)
        if (options := _checked.get(key)) is None:
            options = checked(loaded.Settings, plugin.options, f"{self.name}.{plugin.use}")
            if len(_checked) >= MOST_CHECKED:
                _checked.clear()
            _checked[key] = options
        return loaded, options


SOURCES: Shelf[contracts.Source] = Shelf("sources")
DIARIZERS: Shelf[contracts.DiarizerPlugin] = Shelf("diarizers")
SEGMENTERS: Shelf[contracts.SegmenterPlugin] = Shelf("segmenters")
FILTERS: Shelf[contracts.Filter] = Shelf("filters")
ENHANCE: Shelf[contracts.EnhancerPlugin] = Shelf("enhance")
RESAMPLERS: Shelf[contracts.Resampler] = Shelf("resamplers")
LEVELS: Shelf[contracts.Level] = Shelf("levels")
ASR: Shelf[contracts.Recogniser] = Shelf("asr")
TEXT: Shelf[contracts.TextVerdict] = Shelf("text")
FORMATS: Shelf[contracts.Format] = Shelf("formats")


#: The kinds whose plug-ins have columns and rules.
MEASURING: dict[contracts.Measuring, Shelf[contracts.Filter | contracts.TextVerdict]] = {
    "filters": FILTERS,
    "text": TEXT,
}


def resolve(shelf: str, plugin: Plugin) -> tuple[contracts.LoadedPlugin, StageSettings]:
    """`Shelf.resolve` for a kind whose name is data."""
    named: Shelf[contracts.LoadedPlugin] = Shelf(shelf)
    return named.resolve(plugin)


def load(shelf: str, use: str) -> contracts.LoadedPlugin:
    """`Shelf.load` for such a kind."""
    named: Shelf[contracts.LoadedPlugin] = Shelf(shelf)
    return named.load(use)


def _refuse_bad_names(shelf: str, use: str, plugin: contracts.Filter) -> None:
    """ConfigError for annotations that cannot be columns of the published table."""
    declared = plugin.ANNOTATIONS
    others = [*plugin.COLUMNS, *annotation_kinds.shares(declared), *UTTERANCES.names]
    taken = {*others, *annotation_kinds.TAKEN}
    if wrong := [name for name in declared if not name.isidentifier() or name in taken]:
        raise ConfigError(
            f"{shelf}: {use!r} calls an annotation {wrong[0]!r}, which is no name of a column, or "
            "another column's"
        )


def _refuse_idle_limits(shelf: str, use: str, plugin: contracts.Filter) -> None:
    """ConfigError for a limit without a column: it would be accepted and never applied."""
    named = {
        **contracts.limits(plugin.__name__, plugin.COLUMNS),
        **annotation_kinds.limits(plugin.__name__, plugin.ANNOTATIONS),
    }
    fields = plugin.Settings.model_fields
    marked = [name for name in fields if settings.roles(plugin.Settings)[name] == "threshold"]
    used = {*chain(*named.values()), "unless_wer"}  # of Exemption
    if idle := [name for name in marked if name not in used]:
        name = use.rpartition(".")[2]
        if plugin.ANNOTATIONS:
            fitting = "; ".join(f"{of}: {' and '.join(by)}" for of, by in named.items() if by)
            remedy = f" and annotations; rename it to a limit of theirs ({fitting})"
        else:
            remedy = (
                f" ({', '.join(plugin.COLUMNS)}): call a column {name} for min and max, or "
                f"{name}_PART for min_PART and max_PART"
            )
        what = f"{shelf}: the setting {', '.join(idle)} of {use!r} limits none of its columns"
        raise ConfigError(f"{what}{remedy}, or write verdict(settings)")


def doubts(shelf: str, use: str) -> list[str]:
    """A sentence for each name in a module of your own that may be a misspelt member."""
    if "." not in use:
        return []
    noun, contract = contracts.CONTRACTS[shelf]
    return [
        f"{shelf}: {name} in the module {use!r} is not a member of a {noun}, so nothing calls it "
        f"unless the module does; did you mean {member}?"
        for name, member in contracts.misspelt(module(shelf, use), contract)
    ]


@cache
def module(shelf: str, use: str) -> ModuleType:
    """The module of a plug-in itself, for its file and its documentation."""
    dotted = "." in use
    if dotted and not trusted.DOTTED.fullmatch(use):
        raise ConfigError(f"{shelf}: {use!r} is not a dotted name of a module")
    trusted.check([use], f"{shelf}: this OUT")
    if not dotted and use not in names(shelf):
        raise ConfigError(
            f"no {contracts.CONTRACTS[shelf].noun} {use!r}; "
            f"{explaining.meant(use, names(shelf))}known: {', '.join(names(shelf))}"
        )
    try:
        return import_module(use if dotted else f"uttermill.tasks.{shelf}.{use}")
    except ImportError as error:
        raise ConfigError(f"{shelf}: {use!r} cannot be imported: {error}") from error


def columns(shelf: contracts.Measuring, use: str) -> contracts.Columns:
    """(unit, meaning) of each column of numbers, including the shares of its events' labels."""
    plugin = MEASURING[shelf].load(use)
    if not plugin.ANNOTATIONS:
        return plugin.COLUMNS
    shares = annotation_kinds.shares(plugin.ANNOTATIONS).items()
    return plugin.COLUMNS | {
        column: ("1", f"share of the clip in which {label} happens, by {name}")
        for column, (name, label) in shares
    }


def resolve_source(
    source: settings.Source, where: str | None = None
) -> tuple[contracts.Source, SourceSettings]:
    """A source's plug-in and its checked settings. `where`: its place in the settings, for
    messages."""
    loaded = SOURCES.load(source.kind)
    data = {"kind": source.kind, "path": source.path, **source.options}
    return loaded, checked(loaded.Settings, data, where or f"sources.{source.kind}")


def place_in_list(where: str, uses: Sequence[object], number: int) -> str:
    """The dotted name of entry `number` of a list of plug-ins: by its own name, or by the number if
    the list has that name several times."""
    return f"{where}.{uses[number] if uses.count(uses[number]) == 1 else number}"


class Dataset(NamedTuple):
    """One source; its recordings' ids contain `name`."""

    name: str
    source: contracts.Source
    settings: SourceSettings


def datasets(sources: Sequence[settings.Source]) -> list[Dataset]:
    """All sources in order, named by their settings, else after their path. ConfigError for a name
    that is taken."""
    listed: list[Dataset] = []
    taken = set[str]()
    kinds = [entry.kind for entry in sources]
    for number, entry in enumerate(sources):
        source, chosen = resolve_source(entry, place_in_list("sources", kinds, number))
        name = chosen.name
        if not name:
            stem = Path(chosen.path).name.split(".")[0] or "source"
            base = re.sub(r"[^A-Za-z0-9_-]", "_", stem)[:30]
            name, more = base, count(2)
            while name in taken:
                name = f"{base}-{next(more)}"
        if name in taken:
            raise ConfigError(f"two sources are named {name!r}; give each source a name of its own")
        taken.add(name)
        listed.append(Dataset(name, source, chosen))
    return listed


def checked(model: type[Model], data: Mapping[str, object], where: str) -> Model:
    """An instance of a model; else ConfigError says what is wrong, at `where`, in one sentence."""
    try:
        instance = model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(explaining.explain(error, model, where, data)) from None
    given, crossed = dict(instance), []
    for low, least in given.items():  # limits, `min_x` and `max_x`, that no value can satisfy
        high = f"max{low.removeprefix('min')}"
        most = given.get(high)
        if low == "min" or low.startswith("min_"):
            numbers = type(least) in (int, float) and type(most) in (int, float)
            if numbers and least > most:
                what = f"{low} ({least:g}) is above {high} ({most:g})"
                crossed.append(f"{where}: {what}, so nothing can pass")
    if crossed:
        raise ConfigError(explaining.joined(crossed))
    return instance


def complaints(data: Mapping[str, JsonValue], model: type[BaseModel]) -> list[str]:
    """A phrase for each fault; empty if the settings can be used."""
    phrases: list[str] = []
    try:
        model.model_validate(data)
    except ValidationError as error:
        phrases += explaining.faults(error, model, "", data)
    kind = settings.Source.model_fields["kind"].default
    for entry, place in _mappings(data.get("sources"), "sources", "kind", kind):
        try:
            resolve_source(settings.Source.model_validate(entry), place)
        except ValidationError:  # reported with the settings' own keys
            continue
        except ConfigError as error:
            phrases.append(str(error))
    for place, shelf in PLACES.items():
        given: object = data
        for key in place.split("."):
            given = given.get(key) if isinstance(given, Mapping) else None
        phrases += _of_shelf(shelf, given, place)
    return [*dict.fromkeys(phrases)]


def _of_shelf(shelf: str, given: object, where: str) -> Iterator[str]:
    """The faults of a plug-in or a list of them, and of plug-ins in their settings."""
    for entry, place in _mappings(given, where, "use"):
        use = entry.get("use")
        if not isinstance(use, str):
            continue
        options = {key: value for key, value in entry.items() if key != "use"}
        fields: Mapping[str, FieldInfo] = {}
        try:
            model = load(shelf, use).Settings
            fields = model.model_fields
            checked(model, options, place)
        except ConfigError as error:
            yield str(error)
        for name, about in fields.items():
            for inner in about.metadata:
                if isinstance(inner, ShelfMark):
                    yield from _of_shelf(inner.name, options.get(name), f"{place}.{name}")


def _mappings(
    value: object, where: str, key: str, default: str | None = None
) -> Iterator[tuple[Mapping[str, JsonValue], str]]:
    """The mapping, or each mapping of a list, with its place; `key` holds the plug-in's name."""
    entries = value if isinstance(value, list | tuple) else [value]
    uses = [entry.get(key, default) if isinstance(entry, Mapping) else None for entry in entries]
    for number, entry in enumerate(entries):
        if isinstance(entry, Mapping) and all(isinstance(name, str) for name in entry):
            yield entry, place_in_list(where, uses, number) if entries is value else where


def chosen_plugins(job: Job) -> list[tuple[str, Plugin]]:
    """(kind, plug-in) of all plug-ins that a stage of the job uses, each once."""
    chosen: list[tuple[str, Plugin]] = []
    for place, shelf in PLACES.items():
        named = attrgetter(place)(job)
        for plugin in named if isinstance(named, tuple) else (named,):
            chosen.append((shelf, plugin))
    return [*dict.fromkeys(chosen)]  # the first of `backends` is `backend`


def modules_of(job: Job) -> dict[str, str]:
    """Modules that the job's stages need, each with an attribute whose reading loads it."""
    engines: dict[str, str] = {}
    for shelf, plugin in chosen_plugins(job):
        engines |= load(shelf, plugin.use).ENGINES
        if "." not in plugin.use:  # a user's module reports missing libraries itself
            engines[module(shelf, plugin.use).__name__] = "Settings"
    if any(plugin.use != "none" for plugin in job.transcribe.recognisers):
        engines["uttermill.tasks.scoring.readings"] = "agreed"  # compares with references
    if any(source.options.get("channels") == "auto" for source in job.sources):
        engines["onnxruntime"] = "InferenceSession"
    return engines
