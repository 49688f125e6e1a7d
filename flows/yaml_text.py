"""YAML of settings files and `--set`: data only, of bounded size, with errors in one sentence.

The safe loader makes no objects. Aliases are allowed, but a few hundred bytes of them can stand for
billions of values: what they stand for is counted before anything walks through it.
"""

from __future__ import annotations

from typing import Any

import yaml

from tasks.errors import ConfigError

MOST_BYTES = 256 << 10
MOST_VALUES = 50_000
DEEPEST = 100


def load(text: str, what: str) -> Any:
    """The value of a text; ConfigError, which begins with `what`, if it cannot be used."""
    if len(text) > MOST_BYTES:
        raise ConfigError(f"{what} is longer than {MOST_BYTES >> 10} KiB; is it a settings file?")
    try:
        value = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ConfigError(f"{what} is no YAML: {error.problem or error.context}{place}") from None
    except RecursionError:
        raise ConfigError(f"{what} is nested too deeply") from None
    # PyYAML's constructors trip over a date of month 99, `!!timestamp` of nothing, and the like.
    except Exception as error:
        words = str(error).splitlines() or [type(error).__name__]
        raise ConfigError(f"{what} is no YAML: {words[0]}") from None
    if _size(value, {}, what, 0) > MOST_VALUES:
        raise ConfigError(f"{what} stands for more than {MOST_VALUES} values")
    return value


def _size(value: Any, known: dict[int, int], what: str, depth: int) -> int:
    """Values that one stands for when its aliases are written out; counted without doing so."""
    if not isinstance(value, dict | list):
        return 1
    if id(value) in known:
        if not known[id(value)]:
            raise ConfigError(f"{what} holds a list or mapping that holds itself")
        return known[id(value)]
    if depth > DEEPEST:
        raise ConfigError(f"{what} is nested too deeply")
    known[id(value)] = 0  # being counted
    inner = [*value, *value.values()] if isinstance(value, dict) else value
    known[id(value)] = 1 + sum(_size(each, known, what, depth + 1) for each in inner)
    return known[id(value)]
