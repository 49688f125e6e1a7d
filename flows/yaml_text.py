"""YAML of settings files and `--set`: data only, of bounded size, with errors in one sentence."""

from __future__ import annotations

import json
from datetime import date
from math import isfinite
from typing import Any

import yaml

from tasks.errors import ConfigError
from tasks.recording.names import display_text, is_utf8

MOST_BYTES = 256 << 10


def load(text: str, what: str) -> Any:
    """The value of a text; ConfigError, which begins with `what`, if it cannot be used."""
    if len(text) > MOST_BYTES:
        raise ConfigError(f"{what} is longer than {MOST_BYTES >> 10} KiB; is it a settings file?")
    try:
        value = _UniqueKeys(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ConfigError(f"{what} is not YAML: {error.problem or error.context}{place}") from None
    except RecursionError:
        raise ConfigError(f"{what} is nested too deeply") from None
    # PyYAML's constructors trip over a date of month 99, `!!timestamp` of nothing, and the like.
    except Exception as error:
        words = str(error).splitlines() or [type(error).__name__]
        raise ConfigError(f"{what} is not YAML: {words[0]}") from None
    try:
        json.dumps(value, default=str, skipkeys=True)
    except (ValueError, RecursionError):
        raise ConfigError(f"{what} is nested too deeply, or holds itself by an alias") from None
    return value


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that stands twice in a mapping: PyYAML takes the last one and tells nobody."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in getattr(node, "value", ()):
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"the key {key.value} is given twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def refuse_what_json_cannot_hold(value: object, place: str) -> None:
    """Settings are stored as JSON, here and in Prefect: refuse values that JSON would change.

    Paths of folders may be any bytes; `check` says which folder has to be renamed.
    """
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str) or not is_utf8(key):
                shown = display_text(repr(key))
                raise ConfigError(f"{place}: the name of a setting must be text, not {shown}")
            if key not in ("path", "out") or not isinstance(inner, str):
                refuse_what_json_cannot_hold(inner, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            refuse_what_json_cannot_hold(inner, f"{place}.{index}")
    elif isinstance(value, str) and not is_utf8(value):
        raise ConfigError(f"{place}: {display_text(value)[:100]} is not valid Unicode")
    elif isinstance(value, bytes | set | date) or (
        isinstance(value, float) and not isfinite(value)
    ):
        raise ConfigError(f"{place}: {value!r} is not a text, finite number, list or mapping")
