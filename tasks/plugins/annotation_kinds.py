"""Annotations: what a filter or a plug-in on text reports about a clip besides single numbers.

A plug-in declares them in `ANNOTATIONS`, by name, and its `measure` returns their values beside its
columns: a text for a `Label`, float32 values for a `Vector` or an `Array`, a sequence of `Event`
for `Events`; None for nothing. They are stored by recipe, like its numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import pyarrow as pa

from ..base.errors import ConfigError, RunError
from ..base.schema import ADDED
from ..recording.turns import merged
from .rules import Allowed, Limit, Rule

#: Columns that settings add to `utterances.parquet`, and those of facts and outcomes.
TAKEN = frozenset(
    (
        *ADDED.names,
        *("speaker_embedding", "place", "seconds", "outcome", "stage", "reason", "heard", "spared"),
        *("text_stored", "text_chars", "wer", "cer", "annotations"),
    )
)
EVENT = {"start": pa.float64(), "end": pa.float64(), "label": pa.string(), "score": pa.float64()}
ROUNDING = 0.02  # s by which an event may end beyond its clip; it is cut off


class Event(NamedTuple):
    """Something from `start` to `end`, in s of the clip; `score`: its certainty, for example."""

    start: float
    end: float
    label: str
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """One text; `values`: the allowed ones; None: any."""

    doc: str
    values: tuple[str, ...] | None = None
    name: ClassVar[str] = "label"
    large: ClassVar[bool] = False
    type: ClassVar[pa.DataType] = pa.string()
    unit: ClassVar[str] = ""

    def checked(self, value: Any, seconds: float) -> str:
        """The value; ValueError says what is wrong with it."""
        if not isinstance(value, str) or not value:
            raise ValueError("it must be a text")
        if self.values is not None and value not in self.values:
            raise ValueError(f"it must be one of {', '.join(self.values)}")
        return value

    def encoded(self, value: str) -> bytes:
        return value.encode()

    def decoded(self, data: bytes) -> str:
        return data.decode()

    @property
    def extent(self) -> str:
        return "any text" if self.values is None else ", ".join(self.values)


class Text(Label):
    """A text that hardly two clips share: no label to choose or count clips by."""

    name: ClassVar[str] = "text"


class _Floats:
    """Values stored as float32, little-endian."""

    __slots__ = ()
    large: ClassVar[bool] = True
    type: ClassVar[pa.DataType] = pa.list_(pa.float32())

    def encoded(self, value: np.ndarray) -> bytes:
        return value.astype("<f4").tobytes()

    def decoded(self, data: bytes) -> np.ndarray:
        return np.frombuffer(data, "<f4")


def _finite(value: Any) -> np.ndarray:
    """float32 [n]; ValueError if the value is anything else, or not finite."""
    try:
        with np.errstate(over="ignore"):
            values = np.asarray(value, np.float32)
    except (TypeError, ValueError):
        raise ValueError("it must be numbers") from None
    if values.ndim != 1:
        raise ValueError(f"it must have one dimension, not {values.ndim}")
    if not np.isfinite(values).all():
        raise ValueError("it holds a number that is not finite")
    return values


@dataclass(frozen=True, slots=True)
class Vector(_Floats):
    """`length` numbers, such as an embedding."""

    doc: str
    length: int
    unit: str = ""
    name: ClassVar[str] = "vector"

    def checked(self, value: Any, seconds: float) -> np.ndarray:
        """float32 [length]; ValueError says what is wrong."""
        values = _finite(value)
        if len(values) != self.length:
            raise ValueError(f"it has {len(values)} numbers, not {self.length}")
        return values

    @property
    def extent(self) -> str:
        return f"{self.length} numbers"


@dataclass(frozen=True, slots=True)
class Array(_Floats):
    """A contour: `rate` numbers a second, from the start of the clip."""

    doc: str
    rate: float
    unit: str = ""
    name: ClassVar[str] = "array"

    def checked(self, value: Any, seconds: float) -> np.ndarray:
        """float32 [n]; ValueError says what is wrong. Edges may lack or add a second's worth."""
        values = _finite(value)
        wanted = self.rate * seconds
        if abs(len(values) - wanted) > max(self.rate, 2.0):
            raise ValueError(
                f"it has {len(values)} numbers; {self.rate:g} a second of {seconds:.2f} s are "
                f"{wanted:.0f}"
            )
        return values

    @property
    def extent(self) -> str:
        return f"{self.rate:g} numbers a second"


@dataclass(frozen=True, slots=True)
class Events:
    """Events with times; `labels`: the allowed labels; None: any. For each of `labels`, the column
    `<name>_<label>` holds the share of the clip in which it happens; `measure` may give that column
    itself, as None, where a label cannot be heard."""

    doc: str
    labels: tuple[str, ...] | None = None
    name: ClassVar[str] = "events"
    large: ClassVar[bool] = True
    type: ClassVar[pa.DataType] = pa.list_(pa.struct([*EVENT.items()]))
    unit: ClassVar[str] = "s"

    def checked(self, value: Any, seconds: float) -> list[Event]:
        """The events in order of time; ValueError says what is wrong with one."""
        events = []
        for entry in value:
            try:
                start, end, label, score = Event(*entry)
                start, end = float(start), float(end)
                score = None if score is None else float(score)
            except (TypeError, ValueError):
                raise ValueError(f"{entry!r} is no Event(start, end, label, score)") from None
            if not isinstance(label, str) or not label:
                raise ValueError("the label of an event must be a text")
            if self.labels is not None and label not in self.labels:
                raise ValueError(f"the label {label!r} must be one of {', '.join(self.labels)}")
            if score is not None and not math.isfinite(score):
                raise ValueError(f"the score of {label!r} is not finite")
            if not 0 <= start <= end <= seconds + ROUNDING:
                raise ValueError(f"{label!r} from {start:g} to {end:g} s is not in {seconds:.2f} s")
            events.append(Event(round(start, 6), round(min(end, seconds), 6), label, score))
        return sorted(events, key=lambda event: event[:3])

    def encoded(self, value: list[Event]) -> bytes:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def decoded(self, data: bytes) -> list[dict[str, object]]:
        return [Event(*entry)._asdict() for entry in json.loads(data)]

    @property
    def extent(self) -> str:
        return "any texts" if self.labels is None else ", ".join(self.labels)


Annotation = Label | Vector | Array | Events
Annotations = Mapping[str, Annotation]


def key(use: str, name: str) -> str:
    """The key of a filter's stored annotation; `use`: the filter's fingerprint."""
    return f"{use}/{name}"


def part(label: str) -> str:
    """A label as part of a column's name: `Crowd noise` is `crowd_noise`."""
    return re.sub(r"\W+", "_", label.lower()).strip("_")


def shares(declared: Annotations) -> dict[str, tuple[str, str]]:
    """(name of the events, label) for each column that holds a label's share of the clip."""
    return {
        f"{name}_{part(label)}": (name, label)
        for name, kind in declared.items()
        if isinstance(kind, Events)
        for label in kind.labels or ()
    }


def limits(plugin: str, declared: Annotations) -> dict[str, tuple[str, ...]]:
    """The settings that limit each annotation of a plug-in, as the contract names them."""
    stem = plugin.rpartition(".")[2]
    named: dict[str, tuple[str, ...]] = {}
    for name, kind in declared.items():
        suffix = "" if name == stem or len(declared) == 1 else f"_{name}"
        if name.startswith(f"{stem}_"):
            suffix = name.removeprefix(stem)
        if isinstance(kind, Label):
            named[name] = (f"allowed{suffix}",)
        elif isinstance(kind, Events):
            named[name] = (f"min{suffix}_share", f"max{suffix}_share")
    return named


def rules(
    plugin: str,
    declared: Annotations,
    reasons: Mapping[str, tuple[str, str]],
    values: Mapping[str, Any],
) -> list[Rule]:
    """The rules that a filter's settings, `values`, apply to its annotations."""
    asked: list[Rule] = []
    for name, settings in limits(plugin, declared).items():
        kind = declared[name]
        if isinstance(kind, Label):
            if (allowed := values.get(settings[0])) is not None:
                asked.append(Allowed(name, tuple(allowed), f"wrong_{name}"))
            continue
        least, most = (values.get(setting) or {} for setting in settings)
        unknown = {*least, *most}
        for column, (_, label) in shares({name: kind}).items():
            if label in unknown:
                words = reasons.get(column, (f"low_{column}", f"high_{column}"))
                asked.append(Limit(column, least.get(label), most.get(label), *words))
                unknown.remove(label)
        if unknown:
            labels = kind.labels if isinstance(kind, Events) else None
            raise ConfigError(
                f"{plugin}: the events {name} have no label {min(unknown)!r} with a share; "
                f"{', '.join(labels or ()) or 'a share needs a closed set of labels'}"
            )
    return asked


class Taken(NamedTuple):
    """The checked result of `measure`: numbers, with shares of events; labels; large values."""

    numbers: dict[str, float | None]
    labels: dict[str, str | None]
    large: dict[str, object]


def take(who: str, declared: Annotations, given: Mapping[str, Any], seconds: float) -> Taken:
    """A plug-in's checked values for a clip; RunError if one is not of its kind. `who`: the
    plug-in, in words."""
    numbers = {name: value for name, value in given.items() if name not in declared}
    labels: dict[str, str | None] = {}
    large: dict[str, object] = {}
    for name, kind in declared.items():
        if name not in given:
            raise RunError(f"{who} gives no annotation {name}, which it declares; None says none")
        value = given[name]
        try:
            checked: Any = None if value is None else kind.checked(value, seconds)
        except ValueError as error:
            shown = f" {value!r}" if isinstance(value, str) else ""
            raise RunError(f"{who} gives a wrong {kind.name} {name}{shown}: {error}") from None
        if isinstance(kind, Label):
            labels[name] = checked
        else:
            large[name] = checked
    for column, (name, label) in shares(declared).items():
        events = cast(list[Event] | None, large[name])
        if column not in numbers:
            numbers[column] = None
            if events is not None and seconds:
                spans = merged((event.start, event.end) for event in events if event.label == label)
                numbers[column] = min(sum(end - start for start, end in spans) / seconds, 1.0)
    return Taken(numbers, labels, large)
