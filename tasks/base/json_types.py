"""Types of JSON data that several modules read, and the parser."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypeAlias, TypedDict

#: An object whose keys are open, such as settings of plug-ins. Where the keys are fixed, use a
#: TypedDict.
JsonObject: TypeAlias = dict[str, Any]


#: Any JSON value, to read.
JsonValue: TypeAlias = "str | int | float | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


class Reason(TypedDict):
    """Items and seconds that one reason removed."""

    items: int
    seconds: float


class Summary(TypedDict):
    """Totals over all recordings; each by outcome, `reasons` by `<stage>.<reason>`."""

    recordings: dict[str, int]
    utterances: dict[str, int]
    seconds: dict[str, float]
    reasons: dict[str, Reason]


class Arrived(TypedDict):
    """Recordings that the previous version does not have: numbers of recordings, of packaged and
    dropped utterances, and of failed recordings."""

    recordings: int
    packaged: int
    dropped: int
    failed: int


class PublishedEntry(TypedDict):
    """A file of a version, in dataset.json."""

    bytes: int
    sha256: NotRequired[str]  # of all but dataset.json itself


class HoursBy(TypedDict):
    """Items and hours of one combination of the requested columns."""

    outcome: NotRequired[str]
    stage: NotRequired[str]
    reason: NotRequired[str]
    dataset: NotRequired[str | None]  # None for speakers linked over all recordings
    language: NotRequired[str | None]
    split: NotRequired[str]
    speaker: NotRequired[str]
    label: NotRequired[str]
    value: NotRequired[str]
    items: int
    hours: float


class PackagedHours(TypedDict):
    """Clips of a split, dataset and language."""

    split: str
    dataset: str | None
    language: str | None
    hours: float
    utterances: int


DurationBin = TypedDict("DurationBin", {"from": float, "to": float | None, "utterances": int})


class Durations(TypedDict):
    """Durations of clips, s; None without any."""

    min: float | None
    median: float | None
    max: float | None
    mean: float | None
    histogram: list[DurationBin]


class SpeakerHours(TypedDict):
    speaker: str
    dataset: str | None
    hours: float
    utterances: int


#: Quantiles of times, s.
TimeSpread = TypedDict("TimeSpread", {"5 %": float, "median": float, "95 %": float})


class WindowsBySpeakers(TypedDict):
    speakers: int
    windows: int


class Dialogues(TypedDict):
    """Clips that hold turns. `turns` excludes backchannels; an offset is the time from one person's
    turn to the next person's, negative in overlap; `shares` of the time, where measured."""

    windows: int
    turns: int
    backchannels: int
    turn_seconds: TimeSpread | None
    floor_transfers: int
    offset_seconds: TimeSpread | None
    transfers_in_overlap: int
    shares: dict[str, float | None]
    speakers: list[WindowsBySpeakers]


class LabelHours(TypedDict):
    label: str
    value: str
    hours: float
    utterances: int


class Speakers(TypedDict):
    count: int
    hours_known: float
    hours_unknown: float
    largest: NotRequired[list[SpeakerHours]]  # of a version, not of a split


class SplitFacts(TypedDict):
    utterances: int
    hours: float
    durations: Durations
    speakers: Speakers


class Composition(TypedDict):
    """The clips of a version."""

    splits: dict[str, SplitFacts]
    packaged: list[PackagedHours]
    durations: Durations
    speakers: Speakers


class Balance(TypedDict):
    """How evenly the tars spread over the trainer's readers."""

    readers: int
    tars: int
    worst_reader_extra_hours: float
    worst_reader_extra_fraction: float


class ListDescription(TypedDict):
    """The list that defines a split."""

    sha256: str
    names: int
    unmatched: int  # names that match no packaged clip
    unmatched_first: list[str]


class HeldOutSet(TypedDict):
    """A test set of others that no clip may meet."""

    name: str
    texts: int
    sounds: int
    voices: int
    speakers: int
    sha256: str
    clips: int  # that were dropped for it


class ModelLicence(TypedDict):
    """A model other than a recogniser that the version depends on."""

    name: str
    licence: str
    source: str
    commercial: bool


class Reviews(TypedDict):
    """Decisions by people: how many of each kind, and a hash of what they change."""

    keep: int
    drop: int
    retext: int
    recut: NotRequired[int]
    sha256: str


class DatasetJson(Summary, Composition):
    """dataset.json of a version: its facts and, once all are written, its files."""

    format: int
    version: int
    fingerprint: str
    hours: dict[str, list[HoursBy]]
    tables: dict[str, str]
    balance: Balance
    frozen: JsonObject  # by plug-in
    split_lists: dict[str, ListDescription]
    formats: dict[str, int | str]  # versions, with the hash of a model that one computes with
    features: NotRequired[JsonObject]  # what each format computes
    meanings: dict[str, str]  # of `reasons`, by name
    licences: dict[str, str | None]  # of the datasets
    citations: dict[str, str | None]  # of the datasets
    weights_licences: dict[str, str | None]
    models: NotRequired[list[ModelLicence]]
    settings: JsonObject
    recipes: JsonObject
    leaks: NotRequired[dict[str, dict[str, int | None]]]  # of splits into train; None: unknown
    pii: NotRequired[dict[str, int]]  # clips and places by kind
    labels: NotRequired[list[LabelHours]]  # the values with the most hours of each label
    dialogues: NotRequired[Dialogues]
    annotations: NotRequired[dict[str, JsonObject]]  # by column: kind, meaning, hours by label
    second_texts: NotRequired[dict[str, int]]  # clips that have one, by its language
    text_marks: NotRequired[dict[str, int]]  # by label, how often its mark stands in texts
    reviews: NotRequired[Reviews]
    test_sets: NotRequired[list[HeldOutSet]]  # of package.exclude
    forgotten: NotRequired[int]  # recordings that were removed on request
    libraries: dict[str, str]
    mixed: NotRequired[list[str]]  # what differed between workers
    files: NotRequired[dict[str, PublishedEntry]]
    sealed: NotRequired[str]


def parsed(text: str | bytes) -> Any:
    """The parsed JSON; ValueError if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
