"""The pauses of a recording and the words heard in it: where a sentence may be cut."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from ...recording import TimedWord

LONG_PAUSE = 60.0  # s; stands for the endless one after the last word
PAD = 0.1  # s of a pause kept on each side, at most half of it
FAR = 0.7  # s; a longer pause counts as long: beyond it, words must resemble those of the text
REACH = 40  # words on each side of a sentence that may be its own


class Pauses:
    """The pauses between spans of speech, and the words that were heard. `word_of`: which word each
    token is of."""

    def __init__(
        self,
        words: Sequence[TimedWord],
        speech: Sequence[tuple[float, float]],
        word_of: Sequence[int] = (),
    ) -> None:
        self._words, self._word_of = words, word_of
        edges = [0.0, *(edge for span in speech for edge in span), float("inf")]
        self._pauses = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]
        self._ends = [end for _, end in self._pauses]

    def around(self, first: int, last: int) -> tuple[float, float]:
        """The span of words `first` to `last`, s."""
        return self._bound(first)[1], self._bound(last + 1)[0]

    def at(self, token: int) -> bool:
        """Whether there is a pause, or no word, before a token."""
        if not 0 < token < len(self._word_of):
            return True
        before, word = self._word_of[token - 1], self._word_of[token]
        return before != word and self._best(word) is not None

    def near(self, first: int, last: int) -> tuple[int, int]:
        """The range of tokens around `first` to `last` up to the next long pauses, at most `REACH`
        more on either side."""
        low, high = first, last + 1
        least, most = max(first - REACH, 0), min(high + REACH, len(self._word_of))
        while low > least and not self.parts(low):
            low -= 1
        while high < most and not self.parts(high):
            high += 1
        return low, high

    def parts(self, token: int) -> bool:
        """Whether a long pause lies between a token and the one before it."""
        both = (self._words[self._word_of[n]] for n in (token - 1, token))
        low, high = ((word.start + word.end) / 2 for word in both)
        return any(end - start > FAR for start, end in self._within(low, high))

    def torn(self, token: int) -> bool:
        """Whether a long pause lies within a token's word, before most of it."""
        word = self._words[self._word_of[token]]
        return any(
            start > word.start and end - start > FAR
            for start, end in self._within(word.start, (word.start + word.end) / 2)
        )

    def _bound(self, index: int) -> tuple[float, float]:
        """Between two words: where the one before ends and where word `index` begins, in s."""
        words = self._words
        before = words[index - 1] if index else None
        after = words[index] if index < len(words) else None
        best = self._best(index)
        if best is None:
            low = (before.start + before.end) / 2 if before else 0.0
            border = ((before.end if before else 0.0) + (after.start if after else low)) / 2
            if after is None:
                border = before.end if before else 0.0
            return border, border
        middle = (best[0] + best[1]) / 2
        return min(best[0] + PAD, middle), max(best[1] - PAD, middle)

    def _best(self, index: int) -> tuple[float, float] | None:
        """The longest pause between word `index` and the one before it."""
        words = self._words
        low = (words[index - 1].start + words[index - 1].end) / 2 if index else 0.0
        high = words[index].end if index < len(words) else float("inf")  # it may hold the pause
        return max(self._within(low, high), key=lambda p: min(p[1], 1e9) - p[0], default=None)

    def _within(self, low: float, high: float) -> Iterator[tuple[float, float]]:
        for number in range(bisect_left(self._ends, low), len(self._pauses)):
            start, end = self._pauses[number]
            if start >= high:
                return
            if low < (start + min(end, start + LONG_PAUSE)) / 2 < high:
                yield start, end
