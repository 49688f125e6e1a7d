"""Turns: who speaks when in a recording, where turns of two may overlap; and the turns of a
conversation, with their statistics.

A diarizer's stretches of one person with pauses of up to JOIN_S are one turn. A turn of up to
BACKCHANNEL_S inside another person's is a backchannel ("yeah"). All others take the floor: the
offset of a floor transfer is the time from the end of one person's turn to the start of the next
person's, negative in overlap.
"""

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

from .locator import SECOND, Segment, TimedWord

JOIN_S = 1.0
BACKCHANNEL_S = 1.0
LEAST_S = 0.25  # s of speech in a clip, to count as one of its speakers


@dataclass(frozen=True, slots=True)
class Turn:
    """Samples `start` to `end` of a recording, at its native rate, in which one person speaks.
    `speaker`: number of the voice in the recording, from 0 by first words; `name`: the source's
    name for it. `confidence`: cosine of the turn's embedding and the mean of its speaker's; None if
    the turn is too short. `voice`: the embedding, float16 [192]. `both`: the probability that a
    second voice speaks too, uint8 of 255, in equal parts of the turn; empty if unknown. `channel`:
    of the decoded recording, where each person has one."""

    start: int
    end: int
    speaker: int
    name: str | None = None
    confidence: float | None = None
    voice: bytes = b""
    both: bytes = b""
    channel: int | None = None


@dataclass(frozen=True, slots=True)
class Voices:
    """The turns of a recording, and how the job cuts at them; times in samples, native rate.
    `shortest`: least length of a stretch of one person; `mixed`: clips may hold several voices;
    `edge`: margin next to another speaker; `second`: the largest probability of a second voice in a
    clip."""

    turns: tuple[Turn, ...]
    shortest: int = 0
    mixed: bool = False
    edge: int = 0
    second: float = 1.0


Range = tuple[int, int]
Time = TypeVar("Time", int, float)  # in samples, or s


def merged(ranges: Iterable[tuple[Time, Time]], gap: float = 0) -> list[tuple[Time, Time]]:
    """The union of ranges, in order; ranges at most `gap` apart become one."""
    union: list[tuple[Time, Time]] = []
    for start, end in sorted(ranges):
        if union and start <= union[-1][1] + gap:
            union[-1] = union[-1][0], max(end, union[-1][1])
        else:
            union.append((start, end))
    return union


def within(turns: Sequence[Turn], start: int, end: int) -> tuple[Turn, ...]:
    """The parts of turns in [start, end), relative to `start`."""
    return tuple(
        replace(
            turn,
            start=max(turn.start, start) - start,
            end=min(turn.end, end) - start,
            both=bytes(part for low, high, part in _parts(turn) if low < end and high > start),
        )
        for turn in turns
        if turn.start < end and turn.end > start
    )


def _parts(turn: Turn) -> Iterator[tuple[float, float, int]]:
    """Start, end and probability of each part of `both`."""
    size = (turn.end - turn.start) / max(len(turn.both), 1)
    for number, probability in enumerate(turn.both):
        yield turn.start + number * size, turn.start + (number + 1) * size, probability


def name_of(turns: Sequence[Turn], speaker: int, recording: str) -> str:
    """The source's name for a voice, else `recording#number`."""
    name = next((turn.name for turn in turns if turn.speaker == speaker), None)
    return name or f"{recording}#{speaker + 1}"


def doubtful(turns: Sequence[Turn], most: float) -> list[Range]:
    """Where a second voice speaks with a probability above `most`, in order."""
    return merged(
        (int(low), int(high))
        for turn in turns
        for low, high, probability in _parts(turn)
        if probability > 255 * most
    )


def voices_in(turns: Sequence[Turn], start: int, end: int) -> dict[int, int]:
    """Samples of each speaker's speech in [start, end)."""
    ranges: dict[int, list[Range]] = {}
    for turn in turns:
        low, high = max(turn.start, start), min(turn.end, end)
        if low < high:
            ranges.setdefault(turn.speaker, []).append((low, high))
    return {
        speaker: sum(high - low for low, high in merged(spans)) for speaker, spans in ranges.items()
    }


def overlap(turns: Sequence[Turn]) -> list[Range]:
    """Where two or more speakers speak at once, in order."""
    of_speakers: dict[int, list[Range]] = {}
    for turn in turns:
        of_speakers.setdefault(turn.speaker, []).append((turn.start, turn.end))
    edges: list[tuple[int, int]] = []
    for spans in of_speakers.values():
        for start, end in merged(spans):
            edges += [(start, 1), (end, -1)]
    shared: list[Range] = []
    speaking = 0
    for position, step in sorted(edges):  # ends come before starts
        if speaking >= 2 and shared[-1][1] < position:
            shared[-1] = shared[-1][0], position
        speaking += step
        if speaking >= 2 and step > 0 and (not shared or shared[-1][1] < position):
            shared.append((position, position))
    return [(start, end) for start, end in shared if start < end]


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
    spoken = []
    for start, end, speaker in joined:
        backchannel = end - start <= BACKCHANNEL_S * rate and any(
            other != speaker and low <= start and end <= high and high - low > end - start
            for low, high, other in joined
        )
        spoken.append(SpokenTurn(start, end, speaker, backchannel))
    return tuple(spoken)


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


# The texts of a span of a recording, or of a part of a segment, and its labels, by the source's
# segments.


SLACK = 0.01  # s; bounds of parts are whole samples
#: How far a segment may end beyond the recording, s: times are rounded.
MOST_BEYOND = 0.15
_SOUND = re.compile(r"&=\S+")  # a mark of one: no word
OPENING = "\"'“‘«„¿¡([{「『《"


def spelled(segment: Segment) -> tuple[TimedWord, ...]:
    """The segment's words in the spelling of its text: each with the punctuation and spaces up to
    the next word. If the text does not contain the words in their order, they stay unchanged, with
    spaces between them."""
    words = segment.words or ()
    starts = _found(segment.text or "", words)
    if starts is None:
        return tuple(TimedWord(f"{w.word} ", w.start, w.end) for w in words)
    text = segment.text or ""
    bounds = [0, *starts[1:], len(text)]
    return tuple(
        TimedWord(text[first:last], word.start, word.end)
        for word, first, last in zip(words, bounds, bounds[1:], strict=False)
    )


class PartTexts:
    def __init__(self, segments: Sequence[Segment]) -> None:
        self._segments = segments
        self._spelled: dict[int, tuple[list[float], tuple[TimedWord, ...]]] = {}

    def between(self, index: int, start: float, end: float) -> str | None:
        """Text of the words of a segment whose middle lies in `start` to `end`, in seconds of the
        recording; None if the words have no times or the part reaches beyond the segment."""
        segment = self._segments[index]
        last = math.inf if segment.end is None else segment.end
        slack = math.inf if segment.rough else SLACK
        if not segment.words or start < segment.start - slack or end > last + slack:
            return None
        if index not in self._spelled:
            words = spelled(segment)
            self._spelled[index] = [(word.start + word.end) / 2 for word in words], words
        middles, words = self._spelled[index]
        first, behind = bisect_left(middles, start), bisect_left(middles, end)
        return "".join(word.word for word in words[first:behind]).strip() or None


def _found(text: str, words: tuple[TimedWord, ...]) -> list[int] | None:
    """The start of each word in the text; None if one is missing, or if anything but punctuation
    and spaces lies between two words."""
    plain = text.lower()
    if not words or len(plain) != len(text):  # a few capitals have longer lower-case forms
        return None
    starts: list[int] = []
    position = 0
    for word in words:
        sought = word.word.strip().lower()
        place = plain.find(sought, position)
        between = _SOUND.sub("", plain[position:place])
        if not sought or place < 0 or any(map(str.isalnum, between)):
            return None
        # Quotes and brackets directly before a word open it.
        starts.append(position + len(plain[position:place].rstrip(OPENING)))
        position = place + len(sought)
    return None if any(map(str.isalnum, _SOUND.sub("", plain[position:]))) else starts


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
