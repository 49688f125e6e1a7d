"""What a form shows of plug-ins: JSON schemas with each plug-in's settings and their descriptions.

Prefect's form takes the first alternative whose names of settings match most of a value's, does not
look at `use`, and sends the defaults of all that it shows. So whatever settings a value has, the
first alternative that has all of them must have none that the value's plug-in lacks: there is one
for each set of settings that several plug-ins have in common, beside one for all of each, smaller
ones come first, and each offers every plug-in that has all of its settings. Before them stands one
for a plug-in with its defaults, and last one for a module of your own.
"""

from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError

from uttermill.tasks.base import shelves
from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.plugins.loading import load
from uttermill.tasks.settings import Source
from uttermill.tasks.settings.base import Plugin

DOTTED = r"\."  # in the name of a module of one's own
#: What a value may be; limits stay out, because a plug-in's own check says more.
_TYPES = ("type", "enum", "const", "items", "anyOf", "properties", "additionalProperties")

Fields = dict[str, JsonObject]


def every() -> dict[str, list[JsonObject]]:
    """The alternatives of each shelf."""
    return {shelf: alternatives(shelf) for shelf in shelves.SHELVES}


def alternatives(shelf: str) -> list[JsonObject]:
    """Schemas of objects with `use`, or `kind` of a source."""
    key = "kind" if shelf == "sources" else "use"
    plugins = {name: _fields(shelf, name, key) for name in shelves.names(shelf)}
    shared: set[frozenset[str]] = set()
    for fields in plugins.values():
        own = frozenset(fields)
        shared |= {own, *(own & others for others in shared)}
    found = [] if shelf == "sources" else [_alternative(key, "with its defaults", list(plugins))]
    for settings in sorted(shared - {frozenset()}, key=lambda names: (len(names), sorted(names))):
        able = {name: fields for name, fields in plugins.items() if settings <= fields.keys()}
        names = sorted(able, key=lambda name: (len(able[name]) > len(settings), name != "folder"))
        fields = {
            each: _shared({name: able[name][each] for name in names})
            for each in able[names[0]]
            if each in settings
        }
        exact = [name for name in names if len(able[name]) == len(settings)]
        found.append(_alternative(key, ", ".join(exact or names), names, fields))
    return [*found, _alternative(key, "of your own", None)]


def _alternative(
    key: str, title: str, names: list[str] | None, fields: Fields | None = None
) -> JsonObject:
    """`names`: the plug-ins that it offers; None: modules of one's own."""
    model = Source if key == "kind" else Plugin
    offered: JsonObject = {"pattern": DOTTED} if names is None else {"enum": names}
    choice = {
        "title": key.title(),
        "description": model.model_fields[key].description or "",
        "type": "string",
        **offered,
    }
    if names and fields:  # chosen with the alternative
        choice["default"] = names[0]
    needed = [name for name, field in model.model_fields.items() if field.is_required()]
    return {
        "title": title,
        "type": "object",
        "properties": {key: choice, **(fields or {})},
        "required": needed,
    }


def _fields(shelf: str, name: str, key: str) -> Fields:
    """Schema of each setting of a plug-in."""
    model = load(shelf, name).Settings
    whole = model.model_json_schema()
    own: Fields = whole.get("properties", {})
    known: Fields = whole.get("$defs", {})
    fields = {n: _resolved(own[n], known) for n in own if n != key}
    for n in _without_one_default(model):
        fields[n].pop("default", None)
    return fields


def _without_one_default(model: type[BaseModel]) -> set[str]:
    """Settings whose default depends on another's: a form that sent it would state it."""
    needed = {name: "x" for name, field in model.model_fields.items() if field.is_required()}
    found: set[str] = set()
    for name, field in model.model_fields.items():
        for choice in get_args(field.annotation) if get_origin(field.annotation) is Literal else ():
            try:
                chosen = model.model_validate({**needed, name: choice})
            except ValidationError:  # says nothing without other settings
                continue
            found |= {
                other
                for other, about in model.model_fields.items()
                if other not in (name, *needed) and getattr(chosen, other) != about.default
            }
    return found


def _resolved(found: Any, known: Fields) -> Any:
    """A schema without references, marks and titles of classes."""
    if isinstance(found, list):
        return [_resolved(each, known) for each in found]
    if not isinstance(found, dict):
        return found
    if "$ref" in found:
        return _resolved(known[found["$ref"].rpartition("/")[2]], known)
    return {
        name: _resolved(value, known)
        for name, value in found.items()
        if name not in ("role", "form")
    }


def _shared(schemas: Fields) -> JsonObject:
    """One schema for a setting of several plug-ins: it takes what any of them takes."""
    first, *others = schemas.values()
    if all(each == first for each in others):
        return first
    told: dict[str, list[str]] = {}
    for name, each in schemas.items():
        told.setdefault(each.get("description", ""), []).append(name)
    about = " ".join(f"{', '.join(names)}: {text}" for text, names in told.items() if text)
    kinds: list[JsonObject] = []
    for each in schemas.values():
        for kind in each.get("anyOf", [each]):
            bare = {name: value for name, value in kind.items() if name in _TYPES}
            if bare not in kinds:
                kinds.append(bare)
    mappings = [kind for kind in kinds if "properties" in kind]
    if len(mappings) > 1:
        kinds = [kind for kind in kinds if kind not in mappings] + [_common(mappings)]
    taken = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return {"title": first.get("title", ""), "description": about, **taken}


def _common(mappings: list[JsonObject]) -> JsonObject:
    """One schema for mappings: what all of them have."""
    first, *others = (mapping["properties"] for mapping in mappings)
    shared = [name for name in first if all(name in other for other in others)]
    properties = {
        name: _shared({str(n): each["properties"][name] for n, each in enumerate(mappings)})
        for name in shared
    }
    return {"type": "object", "properties": properties}
