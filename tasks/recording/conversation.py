"""A conversation: stretches of speech as turns, and what is counted of them.

A diarizer's stretches of one person with up to JOIN_S of pause between them are one turn. A turn of
up to BACKCHANNEL_S inside another's is a backchannel ("yeah"). All others take the floor: the
offset of a floor transfer is the time from the end of one person's turn to the start of the next
one's, below 0 where they overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tasks.recording.turns import Turn, merged, overlap, voices_in

JOIN_S = 1.0
BACKCHANNEL_S = 1.0
LEAST_S = 0.25  # of a clip, to be one who speaks in it


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """Samples `start` to `end` in which `speaker`, the number of a voice, has its turn."""

    start: int
    end: int
    speaker: int
    backchannel: bool = False


def spoken_turns(turns: Sequence[Turn], rate: int) -> tuple[SpokenTurn, ...]:
    """The turns of a conversation, in order of their starts; in and out in samples at `rate`."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for turn in turns:
        ranges.setdefault(turn.speaker, []).append((turn.start, turn.end))
    joined = sorted(
        (start, end, speaker)
        for speaker, spans in ranges.items()
        for start, end in merged(spans, JOIN_S * rate)
    )
    return tuple(
        SpokenTurn(start, end, speaker, end - start <= BACKCHANNEL_S * rate and _inside(n, joined))
        for n, (start, end, speaker) in enumerate(joined)
    )


def _inside(number: int, joined: Sequence[tuple[int, int, int]]) -> bool:
    """Whether another person's turn is longer than this one, and holds it."""
    start, end, speaker = joined[number]
    return any(
        other != speaker and low <= start and end <= high and high - low > end - start
        for low, high, other in joined
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the turns of a clip. Lengths of turns and offsets of floor transfers in samples, without
    backchannels; `spoken`: of each speaker."""

    lengths: tuple[int, ...]
    offsets: tuple[int, ...]
    backchannels: int
    speakers: int
    overlap: int
    silence: int
    spoken: tuple[int, ...]


def counts(turns: Sequence[Turn], samples: int, rate: int) -> Counts:
    """Of a clip of `samples`, whose turns begin at its first one (`turns.within`)."""
    floor = [turn for turn in spoken_turns(turns, rate) if not turn.backchannel]
    spoken = voices_in(turns, 0, samples)
    return Counts(
        tuple(turn.end - turn.start for turn in floor),
        tuple(b.start - a.end for a, b in pairwise(floor) if a.speaker != b.speaker),
        len(spoken_turns(turns, rate)) - len(floor),
        sum(length >= LEAST_S * rate for length in spoken.values()),
        sum(end - start for start, end in overlap(turns)),
        samples - sum(end - start for start, end in merged((t.start, t.end) for t in turns)),
        tuple(spoken.values()),
    )
