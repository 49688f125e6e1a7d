"""Rules as data: limits on measured columns, so that applying them again is free.

A filter or text plug-in returns rules, not outcomes. They are applied to whole tables, which makes
`what-if` fast and lets the report draw the thresholds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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
    """Reject if `column` is below `min` or above `max`, but never for a null measure, nor if one of
    `unless` holds. Applies only to rows of `languages`, if given, and never to those of
    `other_than`. `place`: column with the position of the value in the clip, in s, for the detail
    of a rejection."""

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

    def concerns(self, language: str | None) -> bool:
        return (not self.languages or language in self.languages) and (
            language not in self.other_than
        )


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
    spared = rule.unless if isinstance(rule, Limit) else ()
    by_language = isinstance(rule, Limit) and (rule.languages or rule.other_than)
    return {
        rule.column,
        *(within.column for within in spared),
        *(["language"] if by_language else []),
    }


def judge(values: Values, rules: Iterable[Rule]) -> Rejection | None:
    """The rejection by the first rule that rejects a row; None if none does."""
    for rule in rules:
        value = values.get(rule.column)
        if isinstance(rule, Allowed):
            no = _not_allowed(value, rule)
        else:
            no = None if value is None else _beyond(value, rule, values)
        if no is not None:
            return no
    return None


def _not_allowed(value: str | None, rule: Allowed) -> Rejection | None:
    if (value is None and not rule.refuse_null) or value in rule.values:
        return None
    return Rejection(rule.reason, detail=f"{value}, allowed {', '.join(rule.values)}")


def _beyond(value: Any, rule: Limit, values: Values) -> Rejection | None:
    if rule.min is not None and value < rule.min:
        no = Rejection(rule.low, float(value), rule.min)
    elif rule.max is not None and value > rule.max:
        no = Rejection(rule.high, float(value), rule.max)
    else:
        return None
    spared = any(within.holds(values) for within in rule.unless)
    if spared or not rule.concerns(values.get("language")):
        return None
    place = values.get(rule.place)
    return replace(no, detail=rule.detail if place is None else f"at {place:.1f} s")
