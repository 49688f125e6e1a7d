"""All that is wrong with settings at once: their own keys and those of every plug-in in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from tasks import settings
from tasks.errors import ConfigError
from tasks.json_types import JsonValue
from tasks.plugins import explaining
from tasks.plugins.loading import checked, load, resolve_source
from tasks.settings.base import Shelf

#: Where plug-ins stand in settings, and their shelf.
PLACES = {
    "speakers": "diarizers",
    "filter.segmenter": "segmenters",
    "filter.filters": "filters",
    "enhance": "enhance",
    "resample.resampler": "resamplers",
    "resample.levels": "levels",
    "transcribe.backend": "asr",
    "transcribe.backends": "asr",
    "transcribe.verdicts": "text",
    "package.formats": "formats",
}


def complaints(data: Mapping[str, JsonValue], model: type[BaseModel]) -> list[str]:
    """A phrase for each fault; empty if the settings can be used."""
    found: list[str] = []
    try:
        model.model_validate(data)
    except ValidationError as error:
        found += explaining.faults(error, model, "", data)
    return [*dict.fromkeys([*found, *_of_sources(data), *_of_plugins(data)])]


def _of_sources(data: Mapping[str, JsonValue]) -> Iterator[str]:
    for entry in _mappings(data.get("sources")):
        try:
            resolve_source(settings.Source.model_validate(entry))
        except ValidationError:  # told with the settings' own keys
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
    """The faults of one plug-in or of a list of them, and of plug-ins in their settings."""
    for entry in _mappings(given):
        use = entry.get("use")
        if not isinstance(use, str):
            continue
        place = f"{where}.{use}" if isinstance(given, list | tuple) else where
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


def _mappings(value: object) -> Iterator[Mapping[str, JsonValue]]:
    """A mapping, or those in a list."""
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, Mapping) and all(isinstance(key, str) for key in each):
            yield each
