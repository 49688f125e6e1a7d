"""From tokens to words: engines that emit tokens give the start of each, some its probability, too.

A word begins with a token that begins with a space; of scripts without spaces, each token is one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ..scoring import UNSPACED_CHARACTER
from . import Word


def words(
    text: str,
    tokens: Sequence[str],
    starts: Sequence[float],
    logprobs: Sequence[float] | None,
    step: float,
    seconds: float,
) -> tuple[Word, ...] | None:
    """The words of a text by its tokens; None if they do not make up the text.

    `starts`: where each token begins, s, within `seconds`. No engine gives their ends: a word ends
    one `step` after its last token begins, and before the next word begins. Its probability is the
    geometric mean of its tokens'.
    """
    if len(tokens) != len(starts) or (logprobs is not None and len(logprobs) != len(tokens)):
        return None
    groups: list[list[int]] = []
    for number, token in enumerate(tokens):
        if not groups or token[:1].isspace() or UNSPACED_CHARACTER.match(token):
            groups.append([])
        groups[-1].append(number)
    timed: list[Word] = []
    for place, group in enumerate(groups):
        start = min(max(starts[group[0]], 0.0), seconds)
        after = groups[place + 1][0] if place + 1 < len(groups) else None
        latest = seconds if after is None else min(starts[after], seconds)
        end = max(min(starts[group[-1]] + step, latest), start)
        sure = None
        if logprobs is not None:
            sure = min(math.exp(sum(logprobs[i] for i in group) / len(group)), 1.0)
        timed.append(Word("".join(tokens[i] for i in group), start, end, sure))
    return aligned(text, timed)


def aligned(text: str, timed: Sequence[Word]) -> tuple[Word, ...] | None:
    """The words as written in `text`: each with the characters after the word before it, and the
    punctuation that touches it. None if the words differ."""
    places: list[tuple[int, int]] = []
    position = 0
    folded = text.casefold()
    if len(folded) != len(text):  # a letter that folds into two: positions would be wrong
        folded = text
    for word in timed:
        bare = word.word.strip().casefold()
        first = folded.find(bare, position) if bare else position
        if first < 0 or (text[position:first].strip() and _letters(text[position:first])):
            return None
        places.append((first, first + len(bare)))
        position = first + len(bare)
    if _letters(text[position:]):
        return None
    written = []
    begin = 0
    for number, (word, (_, end)) in enumerate(zip(timed, places, strict=True)):
        stop = places[number + 1][0] if number + 1 < len(places) else len(text)
        tail = re.match(r"\S*", text[end:stop])
        last = end + (len(tail[0]) if tail else 0)
        if number + 1 == len(timed):
            last = len(text)
        written.append(Word(text[begin:last], word.start, word.end, word.probability))
        begin = last
    return tuple(written)


def _letters(text: str) -> bool:
    return any(character.isalnum() for character in text)


def mean(logprobs: Sequence[float] | None) -> float | None:
    """Mean log-probability of tokens; None if there is none, or a number that is not the
    logarithm of a probability (some exported graphs give plain scores instead)."""
    if not logprobs or any(not math.isfinite(value) or value > 1e-3 for value in logprobs):
        return None
    return sum(min(value, 0.0) for value in logprobs) / len(logprobs)
