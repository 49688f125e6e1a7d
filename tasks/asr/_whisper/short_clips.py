"""Clips with less than 0.7 s of speech: a word, which Whisper tends to write twice ("six six").

Beam search compares texts by the mean over their tokens. That favours a word that is said again,
since the second is easy to predict, and makes the ways to write one word ("Six.", "6", "six")
compete with each other. So the probabilities of texts that say the same are added up, and the
words that are likeliest as a whole win. Whisper still finds doubled words likelier than they are:
of 137 digits and commands with silence before them, the same word twice was up to 1.6 times as
likely as once; where it was said twice, 3.5 times ("yeah yeah"), or once was not among the texts.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp

from ... import speech
from ...base.arrays import RATE
from ...plugins.contracts.text import words
from ...scoring import said
from .. import SpeechClip
from .results import BeamResult

SHORT_SECONDS = 0.7  # of a clip
DETECTED = 0.8  # of speech in a longer one: the detector rounds up
UNDETECTED = 1.2  # of a clip in which it may have missed a word
RARELY_TWICE = 3.0  # times as likely as once: else a word was said once
#: Such a clip is heard once more, slower and in another window: what was misheard is rarely heard
#: again, whatever its scores. The window of a clip that has room in it, both in s.
SLOWER, BRIEF = 1.15, (5, 4.0)


def is_short(clip: SpeechClip) -> bool:
    """Whether a clip that shares no window has so little speech."""
    seconds = len(clip.samples) / RATE
    if clip.window is not None or seconds < SHORT_SECONDS:
        return clip.window is None
    spoken = speech.within(clip.speech, 0.0, seconds)
    return spoken < DETECTED if spoken else seconds < UNDETECTED


def likeliest(hypotheses: Sequence[BeamResult], language: str) -> BeamResult:
    """The best text, by the engine's order, of those that say the likeliest words, or none."""
    texts_of: dict[tuple[str, ...], list[BeamResult]] = defaultdict(list)
    for heard in hypotheses:
        texts_of[tuple(words(said(heard.text, language)))].append(heard)

    def likely(spoken: tuple[str, ...]) -> float:
        whole = sum(map(_whole, texts_of[spoken]))
        return whole / (RARELY_TWICE if any(a == b for a, b in pairwise(spoken)) else 1.0)

    best = texts_of[max(texts_of, key=likely)][0]
    of_words = word_probabilities(hypotheses, language)[spoken_once(best, language)]
    return replace(best, probability=of_words)


def word_probabilities(
    hypotheses: Sequence[BeamResult], language: str
) -> dict[tuple[str, ...], float]:
    """The probability that one of the texts with the same words was said, by these words."""
    sums: dict[tuple[str, ...], float] = defaultdict(float)
    for heard in hypotheses:
        sums[spoken_once(heard, language)] += _whole(heard)
    return sums


def spoken_once(heard: BeamResult, language: str) -> tuple[str, ...]:
    """The words of a text; once, if it is nothing but repetitions of them."""
    spoken = tuple(words(said(heard.text, language)))
    count = len(spoken)
    ways = (n for n in range(1, count) if spoken == spoken[:n] * (count // n))
    return spoken[: next(ways, count)]


def _whole(heard: BeamResult) -> float:
    """The probability of a text: the mean of its tokens counts its end as one more."""
    return exp(heard.avg_logprob * (len(heard.tokens) + 1))
