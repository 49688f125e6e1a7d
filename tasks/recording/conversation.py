"""Conversations: turns from stretches of speech, statistics of turns, and the texts and labels that
the source's segments with speakers give for a span of a recording.

A diarizer's stretches of one person with pauses of up to JOIN_S are one turn. A turn of up to
BACKCHANNEL_S inside another person's is a backchannel ("yeah"). All others take the floor: the
offset of a floor transfer is the time from the end of one person's turn to the start of the next
person's, negative in overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .locator import SECOND, Segment
from .turns import Turn, merged, overlap, voices_in

JOIN_S = 1.0
BACKCHANNEL_S = 1.0
#: How far a segment may end beyond the recording, s: times are rounded.
MOST_BEYOND = 0.15
LEAST_S = 0.25  # s of speech in a clip, to count as one of its speakers


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """A turn of the voice number `speaker`, from sample `start` to `end`."""

    start: int
    end: int
    speaker: int
    backchannel: bool = False


def spoken_turns(turns: Sequence[Turn], rate: int) -> tuple[SpokenTurn, ...]:
    """The turns of a conversation, by start; input and output in samples at `rate`."""
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
    """Whether a longer turn of another person contains this one."""
    start, end, speaker = joined[number]
    return any(
        other != speaker and low <= start and end <= high and high - low > end - start
        for low, high, other in joined
    )


@dataclass(frozen=True, slots=True)
class Counts:
    """Statistics of the turns of a clip. Lengths of turns and offsets of floor transfers in
    samples, without backchannels; `spoken`: samples of each speaker."""

    lengths: tuple[int, ...]
    offsets: tuple[int, ...]
    backchannels: int
    speakers: int
    overlap: int
    silence: int
    spoken: tuple[int, ...]


def counts(turns: Sequence[Turn], samples: int, rate: int) -> Counts:
    """Statistics of a clip of `samples`; its turns count from its first sample (`turns.within`)."""
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


# Texts and labels of segments.


def texts_in_span(
    segments: Sequence[Segment], start: int, end: int, rate: int
) -> list[tuple[int, int, str]] | None:
    """(start, end, text) of the segments in samples `start` to `end`, by time, in samples from
    `start` on; None if there is none, one reaches beyond, or one has no text."""
    texts = []
    for segment, low, high in _touching(segments, start, end, rate):
        if low < start or high > end + MOST_BEYOND * rate or not segment.text:
            return None
        texts.append((low - start, min(high, end) - start, segment.text))
    return texts or None


def labels_in_span(
    segments: Sequence[Segment], start: int, end: int, rate: int
) -> list[tuple[int, int, dict[str, str]]]:
    """(start, end, labels) of the segments in samples `start` to `end`, clipped to the span and in
    samples from `start` on."""
    return [
        (
            max(low, start) - start,
            min(high, end) - start,
            {name: value for name, value in segment.labels if name not in SECOND},
        )
        for segment, low, high in _touching(segments, start, end, rate)
    ]


def _touching(
    segments: Sequence[Segment], start: int, end: int, rate: int
) -> Iterator[tuple[Segment, int, int]]:
    for segment in sorted(segments, key=lambda one: one.start):
        if segment.speaker is None or segment.end is None:
            continue
        low, high = (int(seconds * rate + 0.5) for seconds in (segment.start, segment.end))
        if low < high and high > start and low < end:
            yield segment, low, high
