"""Long segments whose words have times, cut between words: at sentence ends if there are any.

In: the words of one segment, in seconds of the recording. Out: seconds at which to cut. A cut lies
in the middle of the pause between two words. Cuts are chosen from the left, each at the best place
between half the target and the longest length:

1. the sentence end nearest to the target,
2. else the end of a clause nearest to it,
3. else the longest pause between two words.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from ..recording import TimedWord
from ..recording.part_texts import OPENING

SENTENCE_ENDS = ".!?…。！？｡।۔؟։።"
CLAUSE_ENDS = ",;:，；：、،؛"
CLOSING = " \t\"'”’»)]}」』》"
#: Words whose full stop does not end a sentence, such as titles; nor does a single letter's.
_ENGLISH = "mr mrs ms dr prof st no vs etc fig"
_OTHERS = "sr sra srta d dña hr fr nr bzw ca evtl ggf usw"
ABBREVIATIONS = frozenset(f"{_ENGLISH} {_OTHERS}".split(" "))


def cuts(
    words: Sequence[TimedWord], start: float, end: float, target: float, longest: float
) -> list[float]:
    """Seconds at which to cut the span from `start` to `end`, in order; none if it is not longer
    than `longest`. No piece is longer than that, unless a single word is."""
    places = [
        ((one.end + other.start) / 2, rank(one.word, other.word), other.start - one.end)
        for one, other in pairwise(words)
    ]
    chosen: list[float] = []
    begin = start
    while end - begin > longest:
        fair = [p for p in places if begin + target / 2 <= p[0] <= begin + longest]
        late = [p for p in fair if end - p[0] >= target / 2]  # leaves no scrap at the end
        if not (late or fair):
            after = [p for p in places if p[0] > begin]
            if not after:
                break
            best = after[0]
        else:
            wanted = begin + target
            best = min(late or fair, key=lambda p: (p[1], _cost(p, wanted)))
        chosen.append(best[0])
        begin = best[0]
    return chosen


def _cost(place: tuple[float, int, float], wanted: float) -> float:
    """Distance from the wanted length at an end of a sentence or clause; elsewhere the shortness of
    the pause."""
    where, rank, pause = place
    return abs(where - wanted) if rank < 2 else -pause


def rank(word: str, following: str) -> int:
    """0 if a sentence ends after the word, 1 if a clause does, else 2."""
    core = word.rstrip(CLOSING)
    last = core[-1:]
    if last and last in SENTENCE_ENDS:
        stem = core.rstrip(SENTENCE_ENDS).lstrip(OPENING).lower()
        short = stem in ABBREVIATIONS or (len(stem) == 1 and "a" <= stem <= "z")
        goes_on = following.strip()[:1].islower()
        return 2 if goes_on or (last == "." and short) else 0
    return 1 if last and last in CLAUSE_ENDS else 2
