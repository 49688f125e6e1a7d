"""Formats numbers for people."""

from __future__ import annotations

NO_ROOM = "left out, so that this file stays below its size"
HOUR, MINUTE = 3600.0, 60.0


def length(seconds: float) -> str:
    """A duration: 12,345 h, 12.3 h, 1.23 h, 12.3 min, 4.5 s; three digits, or all before the
    point."""
    for unit, size in (("h", HOUR), ("min", MINUTE)):
        if seconds >= size:
            return f"{figures(seconds / size)} {unit}"
    return f"{figures(seconds)} s"


def figures(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """87.9 %, 0.05 %, 0 %, < 0.01 %."""
    value = 100 * share
    if 0 < value < 0.01:
        return "< 0.01 %"
    return f"{value:.1f} %" if value >= 1 else f"{value:.2f}".rstrip("0").rstrip(".") + " %"


def number(value: float | None) -> str:
    """Four digits; no exponent for everyday sizes."""
    if value is None:
        return "–"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def when(run: str) -> str:
    """The time in a run's name: r000012-20261121T172700.123456Z as 2026-11-21 17:27 UTC."""
    time = run.rpartition("-")[2]
    return f"{time[:4]}-{time[4:6]}-{time[6:8]} {time[9:11]}:{time[11:13]} UTC"
