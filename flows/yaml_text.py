"""YAML of settings files and `--set`: data only, of bounded size, with errors in one sentence."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tasks.errors import ConfigError

MOST_BYTES = 256 << 10


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
    try:
        json.dumps(value, default=str, skipkeys=True)
    except (ValueError, RecursionError):
        raise ConfigError(f"{what} is nested too deeply, or holds itself by an alias") from None
    return value
