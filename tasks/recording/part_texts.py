"""The texts of a span of a recording, or of a part of a segment, and its labels, by the source's
segments."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from .locator import SECOND, Segment, TimedWord

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
