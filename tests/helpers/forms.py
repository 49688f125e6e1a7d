"""What a form shows of plug-ins: JSON schemas with each plug-in's settings and their descriptions.

Prefect's form takes the first alternative whose names of settings match most of a value's, and does
not look at `use`. So plug-ins whose settings have the same names share one alternative, smaller
ones come first, and each offers every plug-in that has all of its settings. Before them stands one
for a plug-in with its defaults, and last one for a module of your own.
"""

from __future__ import annotations

from typing import Any

from tasks.base import shelves
from tasks.base.json_types import JsonObject
from tasks.plugins.loading import load
from tasks.settings import Source
from tasks.settings.base import Plugin

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
    groups: dict[frozenset[str], list[str]] = {}
    for name, fields in plugins.items():
        groups.setdefault(frozenset(fields), []).append(name)
    if shelf == "sources":  # what all kinds have, so that a value without more fits each of them
        common = frozenset[str].intersection(*groups)
        if "folder" not in groups.setdefault(common, []):
            groups[common].append("folder")
    found = [] if shelf == "sources" else [_alternative(key, "with its defaults", list(plugins))]
    for settings, names in sorted(groups.items(), key=lambda group: len(group[0])):
        if settings:
            wider = [n for n in plugins if n not in names and {*settings} <= plugins[n].keys()]
            order = plugins[names[0]]
            fields = {
                each: _shared({n: plugins[n][each] for n in names})
                for each in order
                if each in settings
            }
            found.append(_alternative(key, ", ".join(names), [*names, *wider], fields))
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
    whole = load(shelf, name).Settings.model_json_schema()
    own: Fields = whole.get("properties", {})
    known: Fields = whole.get("$defs", {})
    return {n: _resolved(own[n], known) for n in own if n != key}


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
    taken = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return {"title": first.get("title", ""), "description": about, **taken}
