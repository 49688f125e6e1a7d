"""Rules as data: limits on measured columns. A filter or text plug-in returns them, not outcomes;
they are applied to whole tables, which makes `what-if` fast and lets the report draw the limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: The input of a rule: values by column.
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Within:
    """Holds if `column` is known, at least `min` and at most `max`."""

    column: str
    min: float | None = None
    max: float | None = None

    def holds(self, values: Values) -> bool:
        value = values.get(self.column)
        return (
            value is not None
            and (self.min is None or value >= self.min)
            and (self.max is None or value <= self.max)
        )


@dataclass(frozen=True, slots=True)
class Limit:
    """Reject if `column` is below `min` or above `max`, but never for null, nor if one of `unless`
    holds; only rows of `languages`, if given, and none of `other_than`. `place`: column with the
    position of the value in the clip, in s, for the detail."""

    column: str
    min: float | None = None
    max: float | None = None
    low: str = ""  # reason when below min
    high: str = ""  # reason when above max
    unless: tuple[Within, ...] = ()
    languages: tuple[str, ...] = ()
    other_than: tuple[str, ...] = ()
    place: str = ""
    detail: str = ""  # of a rejection, where a reason has several columns


@dataclass(frozen=True, slots=True)
class Allowed:
    """Reject if a text column is not in `values`; null passes unless `refuse_null`."""

    column: str
    values: tuple[str, ...]
    reason: str
    refuse_null: bool = False


Rule = Limit | Allowed


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a rule rejects a clip: stable reason, value that decided, limit that it broke."""

    reason: str
    value: float | None = None
    threshold: float | None = None
    detail: str = ""


def columns(rule: Rule) -> set[str]:
    """All columns that a rule reads."""
    if isinstance(rule, Allowed):
        return {rule.column}
    by_language = {"language"} if rule.languages or rule.other_than else set()
    return {rule.column, *(within.column for within in rule.unless), *by_language}


def judge(values: Values, rules: Iterable[Rule]) -> Rejection | None:
    """The rejection by the first rule that rejects a row; None if none does."""
    for rule in rules:
        value = values.get(rule.column)
        if isinstance(rule, Allowed):
            if value not in rule.values and (value is not None or rule.refuse_null):
                return Rejection(rule.reason, detail=f"{value}, allowed {', '.join(rule.values)}")
            continue
        if value is None:
            continue
        if rule.min is not None and value < rule.min:
            reason, limit = rule.low, rule.min
        elif rule.max is not None and value > rule.max:
            reason, limit = rule.high, rule.max
        else:
            continue
        language = values.get("language")
        concerned = not rule.languages or language in rule.languages
        spared = any(within.holds(values) for within in rule.unless)
        if concerned and language not in rule.other_than and not spared:
            place = values.get(rule.place)
            detail = rule.detail if place is None else f"at {place:.1f} s"
            return Rejection(reason, float(value), limit, detail)
    return None
