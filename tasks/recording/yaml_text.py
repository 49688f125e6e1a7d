"""YAML of settings files and `--set`: data only, of bounded size, with errors in one sentence."""

from datetime import date
from itertools import chain
from math import isfinite
from typing import Any

import yaml

from ..base.errors import ConfigError
from ..base.json_types import JsonValue
from .names import display_text, is_utf8

MOST_BYTES = 256 << 10
#: Keys and values, counted again at each alias: ten aliases of ten are a thousand.
MOST_NODES = 100_000
MOST_DEPTH = 100
MOST_DIGITS = 400  # of a number; no float has more before its point
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
#: Errors that PyYAML's constructors raise: for a date of month 99, `!!timestamp` of nothing,
#: `!!bool` of another word, `!!int` without a digit, a number of 200 parts to the base of 60.
_STUMBLES = (ValueError, AttributeError, LookupError, OverflowError)


def load(text: str, what: str) -> Any:
    """The parsed value of a text. ConfigError that begins with `what` if it cannot be used."""
    if len(text) > MOST_BYTES:
        raise ConfigError(f"{what} is longer than {MOST_BYTES >> 10} KiB; is it a settings file?")
    try:
        loader = _UniqueKeys(text)
        node = loader.get_single_node()
        too_much = node is not None and _nodes(node, {}) > MOST_NODES
        value = None if node is None or too_much else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise ConfigError(f"{what} is not YAML: {error.problem or error.context}{place}") from None
    except RecursionError:
        raise ConfigError(f"{what} is nested too deeply") from None
    except (yaml.YAMLError, *_STUMBLES) as error:  # the former for a character that YAML forbids
        problem = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(f"{what} is not YAML: {problem}") from None
    if too_much:
        raise ConfigError(
            f"{what} has more than {MOST_NODES:,} values, is nested more than {MOST_DEPTH} deep, "
            "or holds itself by an alias"
        )
    return value


def on_one_line(value: JsonValue) -> str:
    """A JSON value in the form that `--set` takes: `[a, {b: 1}]`."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _nodes(node: yaml.Node, counts: dict[int, int], depth: int = 0) -> int:
    """Number of nodes of a tree with every alias written out; more than MOST_NODES if it is too
    deep or endless. `counts`: results so far, by the nodes' identity."""
    if id(node) in counts:
        return counts[id(node)]
    counts[id(node)] = MOST_NODES + 1  # until it is counted: catches an alias of itself
    if depth > MOST_DEPTH:
        return MOST_NODES + 1
    if node.tag in _NUMBERS and len(node.value) > MOST_DIGITS:
        problem = f"a number of more than {MOST_DIGITS} digits"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    inner = node.value if isinstance(node, yaml.CollectionNode) else ()
    parts = chain.from_iterable(inner) if isinstance(node, yaml.MappingNode) else inner
    counts[id(node)] = 1 + sum(_nodes(part, counts, depth + 1) for part in parts)
    return counts[id(node)]


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a repeated key in a mapping: PyYAML silently takes the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    problem = f"the key {key.value} is given twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def refuse_what_json_cannot_hold(value: object, place: str, depth: int = 0) -> None:
    """Refuse values that JSON, in which settings are stored, would change, and deep nesting. Paths
    of folders may be any bytes; `check` names the folder to rename."""
    if depth > MOST_DEPTH:
        raise ConfigError(f"{place[:100]}… is nested more than {MOST_DEPTH} deep")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str) or not is_utf8(key):
                shown = display_text(repr(key))
                raise ConfigError(f"{place}: a setting's name must be a string, not {shown}")
            if key not in ("path", "out") or not isinstance(inner, str):
                refuse_what_json_cannot_hold(inner, f"{place}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            refuse_what_json_cannot_hold(inner, f"{place}.{index}", depth + 1)
    elif isinstance(value, str) and not is_utf8(value):
        raise ConfigError(f"{place}: {display_text(value)[:100]} is not valid Unicode")
    elif isinstance(value, bytes | set | date) or (
        isinstance(value, float) and not isfinite(value)
    ):
        raise ConfigError(f"{place}: {value!r} is not a text, finite number, list or mapping")
