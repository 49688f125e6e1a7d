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


class Reason(TypedDict):
    """What a reason has taken."""

    items: int
    seconds: float


class Summary(TypedDict):
    """What became of all recordings; each by outcome, `reasons` by `<stage>.<reason>`."""

    recordings: dict[str, int]
    utterances: dict[str, int]
    seconds: dict[str, float]
    reasons: dict[str, Reason]


class Arrived(TypedDict):
    """Recordings that the version before does not have: how many, how many of them failed, and
    utterances of them by outcome."""

    recordings: int
    packaged: int
    dropped: int
    failed: int


class PublishedEntry(TypedDict):
    """A file of a version, in dataset.json."""

    bytes: int
    sha256: NotRequired[str]  # of all but dataset.json itself


class Composition(TypedDict):
    """What a version's clips are."""

    splits: dict[str, JsonObject]
    packaged: list[JsonObject]  # utterances and hours by split, dataset and language
    durations: JsonObject
    speakers: JsonObject


class DatasetJson(Summary, Composition):
    """dataset.json of a version: its facts, and its files once they are all written."""

    format: int
    version: int
    fingerprint: str
    hours: dict[str, list[JsonObject]]
    tables: JsonObject
    balance: JsonObject
    frozen: JsonObject  # by plug-in
    split_lists: JsonObject
    formats: dict[str, int]  # their versions
    licences: dict[str, str | None]  # of the datasets
    weights_licences: dict[str, str | None]
    models: NotRequired[list[JsonObject]]
    settings: JsonObject
    recipes: JsonObject
    leaks: NotRequired[JsonObject]  # of splits into train
    reviews: NotRequired[JsonObject]
    libraries: dict[str, str]
    files: NotRequired[dict[str, PublishedEntry]]
    sealed: NotRequired[str]


def parsed(text: str | bytes) -> Any:
    """JSON as Python has it; ValueError if it is none, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
