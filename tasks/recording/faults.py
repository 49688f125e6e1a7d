"""Faults: damage that a decoder reported, and where it is in the recording's samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Fault:
    """Samples `start` to `end` (native rate, as delivered) are damaged or were replaced by silence.

    `start == end`: something is missing between two samples. `shifts`: its length is unknown, so
    everything after it has a wrong time.
    """

    start: int
    end: int
    what: str
    shifts: bool = False

    def moved(self, base: int, scale: float) -> Fault:
        """This fault in a longer stream where its own starts at `base`; `scale` converts rates."""
        start, end = (base + round(edge * scale) for edge in (self.start, self.end))
        return replace(self, start=start, end=end)


def touching(faults: Iterable[Fault], start: int, end: int) -> int:
    """Number of faults that the samples `start` to `end` touch, or follow if the fault shifts."""
    return len(_near(faults, start, end))


def words(faults: Iterable[Fault], start: int, end: int, rate: int) -> str:
    """The same faults as text for people, the first three with their times in the recording."""
    near = _near(faults, start, end)
    shown = [f"{f.what} ({f.start / rate:.2f} to {f.end / rate:.2f} s)" for f in near[:3]]
    more = [f"{len(near) - 3} more"] if len(near) > 3 else []
    return "; ".join([*shown, *more])


def _near(faults: Iterable[Fault], start: int, end: int) -> list[Fault]:
    return [f for f in faults if f.start <= end and (f.shifts or start <= f.end)]


def merged(faults: Iterable[Fault], gap: int = 0) -> list[Fault]:
    """Sorted by start; faults that are at most `gap` samples apart are joined, so that counts do
    not depend on the decoder."""
    joined: list[Fault] = []
    for fault in sorted(faults, key=lambda f: (f.start, f.end)):
        if joined and fault.start <= joined[-1].end + gap:
            last = joined.pop()
            shifts, end = last.shifts or fault.shifts, max(last.end, fault.end)
            fault = Fault(last.start, end, last.what, shifts)
        joined.append(fault)
    return joined
