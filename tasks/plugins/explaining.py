"""Faults of settings in words: the setting's dotted name and what it must be, never a type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

MOST_FAULTS = 8  # listed in one message
MUST = " must be "  # alternatives are joined: `must be a number or a mapping of settings`

#: What a text must be, by the pattern of its setting.
PATTERNS = {
    r"^[A-Za-z0-9_-]{0,40}$": "be at most 40 characters: letters A to Z, digits, _ and -",
    r"^[A-Za-z0-9_-]+$": "be letters A to Z, digits, _ and - only",
    r"^[0-9]+(\.[0-9]+)? ?(MB|MiB|GB|GiB)$": "be a size, such as 500MB or 4GB",
    r"^[0-9a-f]{64}$": "be 64 hexadecimal digits in small letters",
}
#: How to write words that YAML reads as false or true.
_READ_AS = {
    False: '"no", say, since YAML reads a bare no, off or false as false',
    True: '"yes", say, since YAML reads a bare yes, on or true as true',
}
#: Correct forms for models of which a person may have written a short form, by class.
_EXAMPLES = {"Source": "{{kind: folder, path: {}}}", "Plugin": "{{use: {}}}"}
LONGEST_EXAMPLE = 100  # characters
_PARSED = ("float_parsing", "int_parsing")
_HAS_UNIT = re.compile(r"[0-9.,]+ ?[A-Za-z%µ]+")
#: What a value must be, by the type of fault; the fault's context is filled in.
_WORDS = {
    "missing": "is required",
    "int": "must be a whole number",
    **dict.fromkeys(("float", "decimal"), "must be a number"),
    "finite_number": "must be a finite number",
    "bool": "must be true or false",
    "string_too_short": "must not be empty",
    "string": "must be text",
    **dict.fromkeys(("literal_error", "enum"), "must be {expected}"),
    "greater_than_equal": "must be at least {ge:g}",
    "greater_than": "must be above {gt:g}",
    "less_than_equal": "must be at most {le:g}",
    "less_than": "must be below {lt:g}",
    "too_short": "needs at least {min_length} entry",
    "too_long": "takes at most {max_length} entries",
    **dict.fromkeys(("list", "tuple", "set"), "must be a list"),
    **dict.fromkeys(("dict", "model", "dataclass"), "must be a mapping of settings"),
    "none_required": "must be null",
}


def explain(error: ValidationError, model: type[BaseModel], where: str, data: Any) -> str:
    """One sentence for the first faults of `data`; for an unknown key it lists the known ones."""
    return joined(faults(error, model, where, data))


def joined(phrases: Sequence[str]) -> str:
    more = [f"and {len(phrases) - MOST_FAULTS} more"] if len(phrases) > MOST_FAULTS else []
    return "; ".join([*phrases[:MOST_FAULTS], *more])


def faults(error: ValidationError, model: type[BaseModel], where: str, data: Any) -> list[str]:
    """A phrase for each fault; a single one for a value that may be of several kinds."""
    phrases: dict[str, list[str]] = {}
    hints: dict[str, str] = {}
    for fault in error.errors(include_url=False, include_input=False):
        steps, owner, given = _followed(fault, model, data)
        place = ".".join([where, *map(str, steps)]).strip(".")
        if fault["type"] == "too_short" and given:  # its entries are at fault, and reported
            continue
        hints.setdefault(place, _hint(fault, place, given))
        if fault["type"] == "extra_forbidden":
            words = ": " + unknown(str(steps[-1]), list(owner.model_fields))
        else:
            words = _words(fault)
            if fault["type"] in _PARSED and isinstance(given, str) and _HAS_UNIT.fullmatch(given):
                words += " without a unit"
        listed = phrases.setdefault(place, [])
        if words not in listed:
            listed.append(words)
    sentences = []
    for place, listed in phrases.items():
        kinds = [words.removeprefix(MUST) for words in listed if words.startswith(MUST)]
        whole = MUST + " or ".join(kinds) if len(kinds) == len(listed) else "; ".join(listed)
        sentences.append(f"{place or 'settings'}{whole}{hints[place]}")
    return sentences


def _hint(fault: ErrorDetails, place: str, given: Any) -> str:
    """What to write instead of a value that YAML reads as another type, or of too short a form.
    Does not repeat numbers: they may be passwords."""
    if fault["type"].startswith("string_type"):
        if isinstance(given, bool):
            return f" (put it in quotes: {_READ_AS[given]})"
        return " (put it in quotes)" if isinstance(given, int | float) else ""
    if not isinstance(given, str) or len(given) > LONGEST_EXAMPLE:
        return ""
    example = _EXAMPLES.get(str(fault.get("ctx", {}).get("class_name")))
    if fault["type"].startswith("model") and example:
        return f", such as {example.format(given)}"
    if place == "sources":
        return f", such as [{_EXAMPLES['Source'].format(given)}]"
    return ""


def unknown(name: str, names: Sequence[str]) -> str:
    """The message about an unknown key."""
    return f"no such setting; {meant(name, names)}here there are: {', '.join(names) or 'none'}"


def meant(name: str, names: Sequence[str]) -> str:
    """A question that suggests a similar name, with a space after it; empty if none is similar."""
    near = get_close_matches(name, names, 1)
    return f"did you mean {near[0]}? " if near else ""


def _followed(
    fault: ErrorDetails, model: type[BaseModel], data: Any
) -> tuple[list[int | str], type[BaseModel], Any]:
    """The fault's place without the type names that Pydantic inserts; the model whose field its
    last step is; and the value there, None if there is none."""
    steps: list[int | str] = []
    owner = inner = model
    named_only = fault["type"] in ("missing", "extra_forbidden")
    for depth, step in enumerate(fault["loc"], 1):
        if isinstance(data, BaseModel):
            data = {**dict(data), **(data.model_extra or {})}
        in_list = isinstance(data, list | tuple) and isinstance(step, int) and step < len(data)
        if in_list or (isinstance(data, Mapping) and step in data):
            data = data[step]
        elif named_only and depth == len(fault["loc"]):
            data = None
        else:
            continue
        steps.append(step)
        owner, inner = inner, _child(inner, step)
    return steps, owner, data


def _words(fault: ErrorDetails) -> str:
    if fault["type"] in ("value_error", "assertion_error"):
        return f": {fault['msg'].removeprefix('Value error, ').removeprefix('Assertion failed, ')}"
    if fault["type"] == "string_pattern_mismatch":
        pattern = str(fault.get("ctx", {}).get("pattern"))
        return f" must {PATTERNS.get(pattern, f'match {pattern}')}"
    for kind, words in _WORDS.items():
        if fault["type"].startswith(kind):
            return f" {words.format(**fault.get('ctx', {}))}"
    return f": {fault['msg']}"


def _child(model: type[BaseModel], step: int | str) -> type[BaseModel]:
    """The model of a field, even among several types; otherwise `model` itself."""
    field = model.model_fields.get(str(step))
    if field is not None:
        for candidate in (field.annotation, *get_args(field.annotation)):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                return candidate
    return model
