"""Everything wrong with settings at once: with their own keys, and those of every plug-in in
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from .. import settings
from ..base.errors import ConfigError
from ..base.json_types import JsonValue
from ..settings.base import Shelf
from . import explaining
from .loading import checked, load, place_in_list, resolve_source
from .trusted import PLACES


def complaints(data: Mapping[str, JsonValue], model: type[BaseModel]) -> list[str]:
    """A phrase for each fault; empty if the settings can be used."""
    phrases: list[str] = []
    try:
        model.model_validate(data)
    except ValidationError as error:
        phrases += explaining.faults(error, model, "", data)
    return [*dict.fromkeys([*phrases, *_of_sources(data), *_of_plugins(data)])]


def _of_sources(data: Mapping[str, JsonValue]) -> Iterator[str]:
    kind = settings.Source.model_fields["kind"].default
    for entry, place in _mappings(data.get("sources"), "sources", "kind", kind):
        try:
            resolve_source(settings.Source.model_validate(entry), place)
        except ValidationError:  # reported with the settings' own keys
            continue
        except ConfigError as error:
            yield str(error)


def _of_plugins(data: Mapping[str, JsonValue]) -> Iterator[str]:
    for place, shelf in PLACES.items():
        given: object = data
        for key in place.split("."):
            given = given.get(key) if isinstance(given, Mapping) else None
        yield from _of_shelf(shelf, given, place)


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
        for name, field in fields.items():
            for inner in field.metadata:
                if isinstance(inner, Shelf):
                    yield from _of_shelf(inner.name, options.get(name), f"{place}.{name}")


def _mappings(
    value: object, where: str, key: str, default: str | None = None
) -> Iterator[tuple[Mapping[str, JsonValue], str]]:
    """The mapping, or each mapping of a list, with its place in the settings; `key` holds the
    plug-in's name."""
    entries = value if isinstance(value, list | tuple) else [value]
    uses = [entry.get(key, default) if isinstance(entry, Mapping) else None for entry in entries]
    for number, entry in enumerate(entries):
        if isinstance(entry, Mapping) and all(isinstance(name, str) for name in entry):
            yield entry, place_in_list(where, uses, number) if entries is value else where
