"""The text of a part of a segment whose words have times."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Sequence

from .locator import Segment, TimedWord

SLACK = 0.01  # s; bounds of parts are whole samples
_SOUND = re.compile(r"&=\S+")  # a mark of one: no word
OPENING = "\"'“‘«„¿¡([{「『《"


def spelled(segment: Segment) -> tuple[TimedWord, ...]:
    """The segment's words in the spelling of its text: each with the punctuation and spaces up to
    the next word, so that all of them joined are the text.

    Alignments often lack case and punctuation. If the text does not contain the words in their
    order, they stay unchanged, with spaces between them.
    """
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
    """Texts of parts of the segments of one recording."""

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
        starts.append(place - _opening(plain, position, place))
        position = place + len(sought)
    return None if any(map(str.isalnum, _SOUND.sub("", plain[position:]))) else starts


def _opening(text: str, low: int, high: int) -> int:
    """Number of quotes and brackets directly before `high` that open the next word."""
    return (high - low) - len(text[low:high].rstrip(OPENING))
