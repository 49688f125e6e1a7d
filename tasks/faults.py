"""Damage of a recording: what a decoder complained about, and where that is in its samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Fault:
    """Samples `start` to `end` (native rate, as delivered) are damaged or were filled with silence.

    `start == end`: something is missing between two samples. `shifts`: nobody knows how much, so
    all that follows has a wrong time.
    """

    start: int
    end: int
    what: str
    shifts: bool = False

    def moved(self, base: int, scale: float = 1.0) -> Fault:
        """The same in a stream in which this one starts at `base`, at another rate."""
        start, end = (base + round(at * scale) for at in (self.start, self.end))
        return replace(self, start=start, end=end)


def touching(faults: Iterable[Fault], start: int, end: int) -> int:
    """Faults that the span `start` to `end` touches, or comes after if they shift it."""
    return sum(f.start <= end and (f.shifts or start <= f.end) for f in faults)


def words(faults: Iterable[Fault], start: int, end: int, rate: int) -> str:
    """What is wrong with a span, and where in the recording, for people."""
    near = [f for f in faults if f.start <= end and (f.shifts or start <= f.end)]
    told = [f"{f.what} ({f.start / rate:.2f} to {f.end / rate:.2f} s)" for f in near[:3]]
    more = [f"{len(near) - 3} more"] if len(near) > 3 else []
    return "; ".join([*told, *more])


def merged(faults: Iterable[Fault]) -> list[Fault]:
    """By start; those that touch are one, so that no count depends on a decoder's wording."""
    return bridged(faults, 0)


def bridged(faults: Iterable[Fault], gap: int) -> list[Fault]:
    """By start; those that are up to `gap` samples apart are one."""
    joined: list[Fault] = []
    for fault in sorted(faults, key=lambda f: (f.start, f.end)):
        if joined and fault.start <= joined[-1].end + gap:
            last = joined.pop()
            shifts, end = last.shifts or fault.shifts, max(last.end, fault.end)
            fault = Fault(last.start, end, last.what, shifts)
        joined.append(fault)
    return joined
