"""JSON data: types of open objects and of the shapes that several modules read; and its parser."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypeAlias, TypedDict

#: An object from a file or an answer whose keys are open, such as settings of plug-ins. Where the
#: keys are known, use a TypedDict.
JsonObject: TypeAlias = dict[str, Any]


#: Any JSON value, to read.
JsonValue: TypeAlias = "str | int | float | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


class PublishedEntry(TypedDict):
    """A file of a version, in dataset.json."""

    bytes: int
    sha256: NotRequired[str]  # of all but dataset.json itself


def parsed(text: str | bytes) -> Any:
    """JSON as Python has it; ValueError if it is none, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
