"""Rules as data: limits on measured columns, so that they can be taken again for free.

A filter or text plug-in gives rules, not outcomes. `view.py` applies them to whole tables, which
makes `what-if` fast and lets the report draw the thresholds in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

#: What a rule judges: values by column.
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Within:
    """Holds where `column` is known, at least `min` and at most `max`."""

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
    """Reject where `column` is below `min` or above `max`; a null measure is never rejected, nor a
    row in which one of `unless` holds. It applies only to rows of `languages`, if any are given,
    and to none of `other_than`. `place`: column with where in the clip the value was found, in s,
    for the detail of a rejection."""

    column: str
    min: float | None = None
    max: float | None = None
    low: str = ""  # reason when below min
    high: str = ""  # reason when above max
    unless: tuple[Within, ...] = ()
    languages: tuple[str, ...] = ()
    other_than: tuple[str, ...] = ()
    place: str = ""

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
    """All columns that a rule looks at."""
    spared = rule.unless if isinstance(rule, Limit) else ()
    by_language = isinstance(rule, Limit) and (rule.languages or rule.other_than)
    return {
        rule.column,
        *(within.column for within in spared),
        *(["language"] if by_language else []),
    }


def judge(values: Values, rules: Iterable[Rule]) -> Rejection | None:
    """The first rule that rejects a row of columns, or None."""
    for rule in rules:
        value = values.get(rule.column)
        if isinstance(rule, Allowed):
            if (value is None and rule.refuse_null) or (
                value is not None and value not in rule.values
            ):
                return Rejection(rule.reason, detail=f"{value}, allowed {', '.join(rule.values)}")
            continue
        if value is None:
            continue
        if rule.min is not None and value < rule.min:
            rejection = Rejection(rule.low, float(value), rule.min)
        elif rule.max is not None and value > rule.max:
            rejection = Rejection(rule.high, float(value), rule.max)
        else:
            continue
        if rule.concerns(values.get("language")) and not any(
            within.holds(values) for within in rule.unless
        ):
            place = values.get(rule.place)
            return rejection if place is None else replace(rejection, detail=f"at {place:.1f} s")
    return None
