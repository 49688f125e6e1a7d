"""Clips with less than 0.7 s of speech: a word, which Whisper likes to say twice ("six six").

Beam search compares texts by the mean over their tokens. That favours a word that is said again,
since the second is easily foretold, and makes the ways to write one word ("Six.", "6", "six")
compete with each other. So the probabilities of texts that say the same are added up, and the words
that are likeliest as a whole win. Whisper still finds doubled words likelier than they are: of 137
digits and commands with silence before them, the same word twice was up to 1.6 times as likely as
once; where it was said twice, 3.5 times ("yeah yeah"), or once was not among the texts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from math import exp

from tasks import speech
from tasks.asr import SpeechClip
from tasks.asr._whisper.results import BeamResult
from tasks.base.arrays import RATE
from tasks.plugins.contracts.text import words
from tasks.scoring import said

SECONDS = 0.7  # of a clip
DETECTED = 0.8  # of speech in a longer one: the detector rounds up
UNDETECTED = 1.2  # of a clip in which it may have missed a word
RARELY_TWICE = 3.0  # times as likely as once: else a word was said once


def is_short(clip: SpeechClip) -> bool:
    """Whether a clip that shares no window has so little speech."""
    seconds = len(clip.samples) / RATE
    if clip.window is not None or seconds < SECONDS:
        return clip.window is None
    spoken = speech.within(clip.speech, 0.0, seconds)
    return spoken < DETECTED if spoken else seconds < UNDETECTED


def likeliest(hypotheses: Sequence[BeamResult], language: str) -> BeamResult:
    """The best text, by the engine's order, of those that say the likeliest words, or none."""
    texts_of: dict[tuple[str, ...], list[BeamResult]] = defaultdict(list)
    for heard in hypotheses:
        texts_of[tuple(words(said(heard.text, language)))].append(heard)
    return texts_of[max(texts_of, key=lambda spoken: _weight(spoken, texts_of[spoken]))][0]


def _weight(spoken: Sequence[str], texts: Sequence[BeamResult]) -> float:
    """The probability that one of the texts was said, whose words are `spoken`."""
    # The mean of each counts the end of the text as a token.
    likely = sum(exp(heard.avg_logprob * (len(heard.tokens) + 1)) for heard in texts)
    return likely / RARELY_TWICE if any(one == other for one, other in pairwise(spoken)) else likely
