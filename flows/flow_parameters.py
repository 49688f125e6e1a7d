"""The parameters of a flow run, and which values are allowed when they come from a form or an API.

Prefect takes a flow's parameters, and the form in its UI, from the signature and the docstring of
its function: `takes` writes both from the fields of models such as `PrepareSettings`.

A settings file is trusted: it may name modules to import, files, servers, clusters. Parameters come
from whoever reaches Prefect's API. So they may set numbers and choices, and words
(`tasks/settings/base.py` describes the marks of fields); any other text must be the settings
file's, in the same setting and together with the texts beside it, or the default. Sources are read
and results written below the folders of the settings file alone, and below those that the user
allowed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel

from ..tasks import plugins
from ..tasks.base.errors import ConfigError
from ..tasks.plugins.trusted import PLACES
from ..tasks.recording.names import display_text
from ..tasks.settings import Plugin, StageSettings
from ..tasks.settings.base import Shelf, form
from ..tasks.storage import urls
from .settings import PrepareSettings

Function = TypeVar("Function", bound=Callable[..., object])
Settings = TypeVar("Settings", bound=BaseModel)
REMEDY = (
    "the settings file decides that: a form or an API may not, unless serve has --trust-parameters"
)
#: What could lead out of a place in a URL, or add another one to it.
_LEADS_OUT = ("::", "%", "?", "#", "\\")
#: Called with (place, kind, name) of a plug-in before it is imported.
Seen = Callable[[str, str, str], object]


def takes(*models: type[BaseModel], **about: str) -> Callable[[Function], Function]:
    """Makes the fields of the models the parameters of a function of `**parameters`. `about`:
    descriptions in place of the fields' own."""

    def with_parameters(function: Function) -> Function:
        lines, parameters = [inspect.cleandoc(function.__doc__ or ""), "", "Args:"], []
        for model in models:
            hints = get_type_hints(model, include_extras=True)
            for name, field in model.model_fields.items():
                lines.append(f"    {name}: {about.get(name, field.description)}")
                default = inspect.Parameter.empty if field.is_required() else field.default
                kind = inspect.Parameter.KEYWORD_ONLY
                parameters.append(
                    inspect.Parameter(name, kind, default=default, annotation=hints[name])
                )
        function.__doc__ = "\n".join(lines)
        function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return function

    return with_parameters


def values(*settings: BaseModel) -> dict[str, Any]:
    """Settings as the parameters of a flow that takes their models."""
    return {name: getattr(model, name) for model in settings for name in type(model).model_fields}


def among(model: type[Settings], parameters: Mapping[str, object]) -> Settings:
    """The settings of one model among a flow's parameters."""
    return model.model_validate({name: parameters[name] for name in model.model_fields})


class Model(NamedTuple):
    """A model of settings at a `place` in those of a run; `kind`: that place with plug-ins' names
    in place of numbers."""

    place: str
    kind: str
    settings: BaseModel


@dataclass(frozen=True)
class Policy:
    """What a deployment's parameters may set.

    `modules`: (shelf, dotted name) of plug-ins; `texts`: (kind, {field: value}) of the settings
    that hold texts; `read` and `write`: places without links. Picklable: it goes to the processes
    of flow runs with the flow itself, which no API can change.
    """

    modules: frozenset[tuple[str, str]]
    texts: tuple[tuple[str, Mapping[str, object]], ...]
    read: tuple[str, ...]
    write: tuple[str, ...]

    def check(self, settings: PrepareSettings) -> None:
        """Raises ConfigError for the first value that the parameters may not set; imports no
        plug-in that the settings file does not name."""
        for model in _models(settings, self._refuse_module):
            self._check_places(model)
            texts = _texts(model)
            of_kind = [allowed for kind, allowed in self.texts if kind == model.kind]
            if texts and not any(texts.items() <= allowed.items() for allowed in of_kind):
                names = [n for n in texts if all(n not in k or k[n] != texts[n] for k in of_kind)]
                field = f"{model.place}.{(names or [*texts])[0]}".lstrip(".")
                raise ConfigError(f"{field} differs from the settings file; {REMEDY}")

    def _refuse_module(self, place: str, shelf: str, use: str) -> None:
        if "." in use and (shelf, use) not in self.modules:
            raise ConfigError(f"{place} names the module {use!r}; {REMEDY}")

    def _check_places(self, model: Model) -> None:
        for field in type(model.settings).model_fields:
            allowed = {"read": self.read, "write": self.write}.get(
                form(type(model.settings), field) or ""
            )
            value = getattr(model.settings, field)
            if allowed is not None and value and not _is_below(value, allowed):
                name = f"{model.place}.{field}".lstrip(".")
                raise ConfigError(
                    f"{name}: {display_text(value)} is not below what the settings file names; add "
                    "it there, or start serve with --allow FOLDER"
                )


def policy(settings: PrepareSettings, allow: Sequence[str] = ()) -> Policy:
    """The policy of a deployment; `allow`: further folders or URLs for sources and results."""
    modules: set[tuple[str, str]] = set()
    models = [*_models(settings, lambda _, shelf, use: modules.add((shelf, use)))]
    places: dict[str, list[str]] = {"read": [*allow], "write": [*allow]}
    for model in models:
        for field in type(model.settings).model_fields:
            kind = form(type(model.settings), field)
            if kind in places and (value := getattr(model.settings, field)):
                places[kind].append(value)
    return Policy(
        frozenset(modules),
        tuple((model.kind, _texts(model)) for model in models),
        tuple(map(urls.real, places["read"])),
        tuple(map(urls.real, places["write"])),
    )


def _is_below(text: str, places: Sequence[str]) -> bool:
    try:
        real = urls.real(text)
    except (ConfigError, ValueError):  # a malformed URL, or a path with a NUL
        return False
    for place in places:
        if real == place:
            return True
        rest = real.removeprefix(place.rstrip("/") + "/")
        if rest != real and not (urls.is_url(text) and any(way in rest for way in _LEADS_OUT)):
            return True
    return False


# All settings in those of a run


def _models(settings: PrepareSettings, module: Seen) -> Iterator[Model]:
    """All models in the settings, with those of plug-ins; `module` may raise, to prevent the import
    of a plug-in."""
    yield from _within(Model("", "", settings))
    for index, source in enumerate(settings.sources):
        place = f"sources.{index}"
        module(place, "sources", source.kind)
        plugin_settings = plugins.resolve_source(source, place)[1]
        yield from _within(Model(place, f"sources.{source.kind}", plugin_settings))
    for place, shelf in PLACES.items():
        yield from _of_plugins(place, shelf, attrgetter(place)(settings), module)


def _of_plugins(place: str, shelf: str, given: object, module: Seen) -> Iterator[Model]:
    """Also of plug-ins in the settings of plug-ins."""
    for plugin in given if isinstance(given, tuple) else (given,):
        if not isinstance(plugin, Plugin):
            continue
        module(place, shelf, plugin.use)
        plugin_settings = plugins.resolve(shelf, plugin)[1]
        yield from _within(Model(place, f"{shelf}.{plugin.use}", plugin_settings))
        for name, field in type(plugin_settings).model_fields.items():
            for inner in field.metadata:
                if isinstance(inner, Shelf):
                    value = getattr(plugin_settings, name)
                    yield from _of_plugins(f"{place}.{name}", inner.name, value, module)


def _within(model: Model) -> Iterator[Model]:
    yield model
    for name in type(model.settings).model_fields:
        for inner in _inner(getattr(model.settings, name)):
            kind = f"{model.kind}.{name}"
            yield from _within(Model(f"{model.place}.{name}".lstrip("."), kind, inner))


def _inner(value: object) -> Iterator[StageSettings]:
    if isinstance(value, StageSettings):
        yield value
    elif isinstance(value, Mapping | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _inner(part)


def _texts(model: Model) -> dict[str, object]:
    """The fields that only a settings file may set: those that may hold any text and are not
    marked, unless they have their default; those marked as fixed; and switches that are on."""
    kind = type(model.settings)
    texts: dict[str, object] = dict(model.settings.model_extra or {})
    for name, field in kind.model_fields.items():
        mark, value = form(kind, name), getattr(model.settings, name)
        apart = f"{model.place}.{name}".lstrip(".") in PLACES  # plug-ins, checked by themselves
        free = mark is None and not apart and takes_text(field.annotation, field.metadata)
        changed = free and value != field.get_default(call_default_factory=True)
        if mark == "fixed" or changed or (mark == "switch" and value):
            texts[name] = value
    return texts


def takes_text(annotation: Any, metadata: Sequence[object] = ()) -> bool:
    """Whether a value of this type may hold any text; true for unknown types. Models and plug-ins
    are checked by themselves."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return takes_text(inner[0], inner[1:])
    if origin is Literal or any(isinstance(mark, Shelf) for mark in metadata):
        return False
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return True  # its keys are
    if inner:
        return any(map(takes_text, inner))
    if isinstance(annotation, type) and issubclass(annotation, StageSettings | int | float):
        return False
    return annotation not in (None, type(None), Ellipsis)
