"""Verdicts as data: limits on measured columns, so that they can be taken again for free.

A filter or text plug-in gives rules, not decisions. `view.py` applies them to whole tables, which
makes `what-if` fast and lets the report draw the thresholds in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Limit:
    """Reject where `column` is below `min` or above `max`; a null measure is never rejected."""

    column: str
    min: float | None = None
    max: float | None = None
    low: str = ""  # reason when below min
    high: str = ""  # reason when above max


@dataclass(frozen=True, slots=True)
class Allowed:
    """Reject where a text column is none of `values`; null passes unless `refuse_null`."""

    column: str
    values: tuple[str, ...]
    reason: str
    refuse_null: bool = False


Rule = Limit | Allowed


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a rule rejects: stable reason, the value that decided, the limit that it broke."""

    reason: str
    value: float | None = None
    threshold: float | None = None
    detail: str = ""


def judge(values: Mapping[str, Any], rules: Iterable[Rule]) -> Rejection | None:
    """The first rule that rejects a row of columns, or None."""
    for rule in rules:
        value = values.get(rule.column)
        if isinstance(rule, Allowed):
            if (value is None and rule.refuse_null) or (
                value is not None and value not in rule.values
            ):
                return Rejection(rule.reason, detail=f"{value}, allowed {', '.join(rule.values)}")
        elif value is None:
            continue
        elif rule.min is not None and value < rule.min:
            return Rejection(rule.low, float(value), rule.min)
        elif rule.max is not None and value > rule.max:
            return Rejection(rule.high, float(value), rule.max)
    return None
