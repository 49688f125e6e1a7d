"""`--set key.key=value`: changes one setting."""

from __future__ import annotations

from flows import yaml_text
from tasks.errors import ConfigError
from tasks.json_types import JsonObject, JsonValue

#: What holds a setting: a mapping, or a list of plug-ins.
Holder = dict[str, JsonValue] | list[JsonValue]


def assign(data: JsonObject, assignment: str, defaults: JsonObject) -> None:
    """Apply `a.b=value` (YAML); setting `use` replaces the whole mapping of a plug-in, and
    `a.b+=value` adds an entry, or those of a list, to a list.

    A plug-in or a list that `data` leaves out is taken from `defaults`, so that one setting of
    theirs can be changed alone. ConfigError for what cannot be assigned.
    """
    dotted, equals, text = assignment.partition("=")
    adds = dotted.rstrip().endswith("+")
    keys = dotted.strip().removesuffix("+").rstrip().split(".")
    if not equals or not all(keys):
        raise ConfigError(
            f"--set {assignment!r}: write it as key.key=value, or key.list+=value to add to a list"
        )
    value = yaml_text.load(text, f"--set {assignment!r}: the value")
    if adds:
        _add(data, keys, value, assignment, defaults)
        return
    if keys[-1] == "use" and len(keys) > 1:
        keys, value = keys[:-1], {"use": value}
    place, _ = _parent(data, keys, assignment, defaults)
    if isinstance(place, list):
        place[_index(place, keys[-1], assignment)] = value
    else:
        place[keys[-1]] = value


def _add(
    data: JsonObject, keys: list[str], value: JsonValue, assignment: str, defaults: JsonObject
) -> None:
    """Add to a list; one that `data` leaves out is the default one."""
    place, default = _parent(data, keys, assignment, defaults)
    usual = default.get(keys[-1]) if isinstance(default, dict) else None
    there = place.get(keys[-1], usual) if isinstance(place, dict) else None
    if there is None and keys == ["sources"]:
        there = []
    if not isinstance(place, dict) or not isinstance(there, list):
        raise ConfigError(f"--set {assignment!r}: {'.'.join(keys)} is not a list; write = for +=")
    place[keys[-1]] = [*there, *(value if isinstance(value, list) else [value])]


def _parent(
    data: JsonObject, keys: list[str], assignment: str, defaults: JsonObject
) -> tuple[Holder, JsonValue]:
    """The mapping that holds the last key, created if missing; and its default."""
    place: Holder = data
    default: JsonValue = defaults
    for key in keys[:-1]:
        default = default.get(key) if isinstance(default, dict) else None
        place = _step(place, key, assignment, default)
    return place, default


def _step(place: Holder, key: str, assignment: str, default: JsonValue) -> Holder:
    if isinstance(place, list):
        index = _index(place, key, assignment)
        if isinstance(place[index], str):  # a format given by its name only
            place[index] = {"use": place[index]}
        found = place[index]
    else:
        # What is missing is the default, where that is a list or a plug-in, else an empty mapping.
        whole = isinstance(default, list) or (isinstance(default, dict) and "use" in default)
        found = place.setdefault(key, default if whole else {})
    if not isinstance(found, dict | list):
        raise ConfigError(f"--set {assignment!r}: {key} is not a mapping")
    return found


def _index(place: list[JsonValue], key: str, assignment: str) -> int:
    """Index of a list's entry, by its number or by the `use` of a plug-in."""
    for index, entry in enumerate(place):
        if isinstance(entry, dict) and key in (entry.get("use"), entry.get("name")):
            return index
        if entry == key:
            return index
    if key.isdecimal() and int(key) < len(place):
        return int(key)
    raise ConfigError(f"--set {assignment!r}: the list has no entry {key}")
