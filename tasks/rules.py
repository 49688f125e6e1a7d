"""Verdicts as data: limits on measured columns, so that they can be taken again for free.

A filter or text plug-in gives rules, not decisions. `view.py` applies them to whole tables, which
makes `what-if` fast and lets the report draw the thresholds in.
"""

from __future__ import annotations

from dataclasses import dataclass


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
