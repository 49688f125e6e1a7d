"""A text that is said in more than 30 s: pieces of clip and text, each of which is aligned alone.

What Whisper hears says about where a word of the text is. A piece ends in the longest pause between
two words that were heard as the text has them. Where there is none, as in a text that nobody says,
it ends where it is quietest, and the text is shared out by time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import LCSseq

from tasks.asr import Transcript, Word, _pieces
from tasks.asr._given_words import words_of
from tasks.base.arrays import RATE, Float32s

SHORTEST, LONGEST = 14 * RATE, 29 * RATE  # samples of a piece before the last one


class Piece(NamedTuple):
    """Samples [start, end) of a clip, in which words [first, last) of its text are said."""

    start: int
    end: int
    first: int
    last: int


def pieces(words: Sequence[str], heard: Sequence[Word], samples: Float32s) -> list[Piece]:
    """Consecutive pieces of at most 29 s, which are the clip (float32 [n]) and its text."""
    same = _same(words, heard)
    pauses = [
        (after.start - before.end, round((before.end + after.start) / 2 * RATE), n)
        for (m, before), (n, after) in pairwise(same)
        if n == m + 1
    ]
    times = [0.0, *((word.start + word.end) / 2 for _, word in same), len(samples) / RATE]
    places = [0.0, *(n + 0.5 for n, _ in same), float(len(words))]
    cut: list[Piece] = []
    start = first = 0
    while len(samples) - start > LONGEST:
        near = [pause for pause in pauses if SHORTEST <= pause[1] - start <= LONGEST]
        if near:
            _, end, last = max(near)
        else:
            end = start + len(_pieces.cut(samples[start : start + LONGEST + 1], LONGEST)[0])
            last = round(float(np.interp(end / RATE, times, places)))
        last = max(first, last)
        cut.append(Piece(start, end, first, last))
        start, first = end, last
    return [*cut, Piece(start, len(samples), first, len(words))]


def _same(words: Sequence[str], heard: Sequence[Word]) -> list[tuple[int, Word]]:
    """Words of the text that were heard, in order: their places, and when."""
    single = [*_single(heard)]
    steps = LCSseq.opcodes([*map(_key, words)], [_key(word.word) for word in single])
    return [
        (step.src_start + n, single[step.dest_start + n])
        for step in steps
        if step.tag == "equal"
        for n in range(step.src_end - step.src_start)
    ]


def _single(heard: Sequence[Word]) -> Iterator[Word]:
    """Words as texts are divided into: a recogniser's may be several of scripts without spaces."""
    for word in heard:
        parts = words_of(word.word)
        edges = np.linspace(word.start, word.end, len(parts) + 1).tolist()
        for part, start, end in zip(parts, edges[:-1], edges[1:], strict=True):
            yield Word(part, start, end, word.probability)


def _key(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum())


def joined(
    text: str, words: Sequence[str], parts: Sequence[tuple[Piece, Transcript]]
) -> Transcript:
    """The transcript of a clip, by those of its pieces."""
    language = parts[0][1].language
    if error := next((part.error for _, part in parts if part.error), None):
        return Transcript(text, language, error=error)
    timed: list[Word] = []
    logprob = 0.0
    for piece, part in parts:
        begin, aligned = piece.start / RATE, part.words or ()
        logprob += (part.avg_logprob or 0.0) * len(aligned)
        for spelling, word in zip(words[piece.first : piece.last], aligned, strict=True):
            start, end = word.start + begin, word.end + begin
            timed.append(replace(word, word=spelling, start=start, end=end))
    mean = logprob / len(timed) if timed else None
    return Transcript(text, language, avg_logprob=mean, words=tuple(timed))
