"""`--set key.key=value`: changes one setting."""

from __future__ import annotations

from tasks.base.errors import ConfigError
from tasks.base.json_types import JsonObject, JsonValue
from tasks.recording import yaml_text

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
    place, last, _ = _parent(data, keys, assignment, defaults)
    if isinstance(place, list):
        place[_index(place, last, assignment)] = value
    else:
        place[last] = value


def _add(
    data: JsonObject, keys: list[str], value: JsonValue, assignment: str, defaults: JsonObject
) -> None:
    """Add to a list; one that `data` leaves out is the default one."""
    place, last, default = _parent(data, keys, assignment, defaults)
    usual = default.get(last) if isinstance(default, dict) else None
    held = place.get(last, usual) if isinstance(place, dict) else None
    if held is None and keys == ["sources"]:
        held = []
    if not isinstance(place, dict) or not isinstance(held, list):
        raise ConfigError(f"--set {assignment!r}: {'.'.join(keys)} is not a list; write = for +=")
    place[last] = [*held, *(value if isinstance(value, list) else [value])]


def _parent(
    data: JsonObject, keys: list[str], assignment: str, defaults: JsonObject
) -> tuple[Holder, str, JsonValue]:
    """The mapping or list that holds the last key, created if missing; that key; and the default of
    what holds it."""
    place: Holder = data
    default: JsonValue = defaults
    while True:
        key, keys = _first(place, keys)
        if not keys:
            return place, key, default
        default = default.get(key) if isinstance(default, dict) else None
        place = _step(place, key, assignment, default)


def _first(place: Holder, keys: list[str]) -> tuple[str, list[str]]:
    """The first key, and those after it. In a list, a plug-in outside the shelves is several: its
    name has dots."""
    for entry in place if isinstance(place, list) else ():
        names = (entry.get("use"), entry.get("name")) if isinstance(entry, dict) else (entry,)
        for name in names:
            if isinstance(name, str) and keys[: (parts := name.count(".") + 1)] == name.split("."):
                return name, keys[parts:]
    return keys[0], keys[1:]


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
