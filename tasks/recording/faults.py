"""Faults: damage that a decoder reported, and its place in the recording, in samples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Fault:
    """Samples `start` to `end` (native rate, as delivered) are damaged or were replaced by silence;
    if equal, something is missing between them. `shifts`: its length is unknown, so everything
    after it has the wrong time."""

    start: int
    end: int
    what: str
    shifts: bool = False

    def moved(self, base: int, scale: float) -> Fault:
        """The same fault in a longer stream in which its own starts at `base`; `scale` converts
        rates."""
        start, end = (base + round(edge * scale) for edge in (self.start, self.end))
        return replace(self, start=start, end=end)


def touching(faults: Iterable[Fault], start: int, end: int) -> int:
    """Number of faults within or next to samples `start` to `end`, and of earlier faults that
    shift."""
    return len(_near(faults, start, end))


def words(faults: Iterable[Fault], start: int, end: int, rate: int) -> str:
    """The faults that `touching` counts, as text: the first three with their times in the
    recording."""
    near = _near(faults, start, end)
    shown = [f"{f.what} ({f.start / rate:.2f} to {f.end / rate:.2f} s)" for f in near[:3]]
    more = [f"{len(near) - 3} more"] if len(near) > 3 else []
    return "; ".join([*shown, *more])


def _near(faults: Iterable[Fault], start: int, end: int) -> list[Fault]:
    return [f for f in faults if f.start <= end and (f.shifts or start <= f.end)]


def merged(faults: Iterable[Fault], gap: int = 0) -> list[Fault]:
    """The faults by start; those at most `gap` samples apart become one, so that counts do not
    depend on the decoder."""
    joined: list[Fault] = []
    for fault in sorted(faults, key=lambda f: (f.start, f.end)):
        if joined and fault.start <= joined[-1].end + gap:
            last = joined.pop()
            shifts, end = last.shifts or fault.shifts, max(last.end, fault.end)
            fault = Fault(last.start, end, last.what, shifts)
        joined.append(fault)
    return joined
