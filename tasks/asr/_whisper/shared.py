"""Several utterances of one recording in one window: the words' times tell which is whose.

Whisper understands a short utterance better beside its neighbours. Doubtful ones are transcribed
once more by themselves (`whole_clips.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import log

import numpy as np

from tasks.asr import SharedWindow, SpeechClip, Word
from tasks.asr._whisper.results import BeamResult, Window
from tasks.asr._whisper.whole_clips import Hearing
from tasks.asr._whisper.windows import LOOP_RATIO
from tasks.base.speech_rate import RATE
from tasks.speech import Span

#: Mean log-probability below which an utterance is transcribed again by itself.
DOUBTFUL = -0.6
LEAST_PROBABILITY = 1e-6
REACH = 0.3  # s that a phrase may reach into a neighbour of its utterance


def apart(
    window: Window, clips: dict[int, SpeechClip], shared: SharedWindow, before: int = 0
) -> dict[int, Hearing]:
    """The hearing of each clip by its key; `clips` are some or all of the shared window, `before`
    is how many utterances their passage has before it."""
    words_of = _by_place(window, shared)
    mean = _mean([word for words in words_of for word in words])
    hearings = {}
    for key, clip in clips.items():
        words = words_of[clip.place - before]
        text = "".join(word.word for word in words).strip()
        # Relative to the window, whose own mean is exact: a word may be several tokens.
        score = min(window.heard.avg_logprob + _mean(words) - mean, 0.0) if words else None
        heard = BeamResult(
            text, window.heard.avg_logprob if score is None else score, window.heard.no_speech
        )
        usable = window.words is not None and window.heard.ratio <= LOOP_RATIO
        hearings[key] = hearing = Hearing(clip, window.language, [(heard, words)], usable)
        spoken = window.spoken[clip.place - before] if window.spoken else window.language
        if spoken.code != window.language.code:
            hearing.language, hearing.foreign, hearing.again = spoken, True, True
            continue
        sure = bool(words) and heard.avg_logprob >= DOUBTFUL
        complete = not hearing.uncovered() and not hearing.drawn_out()
        hearing.again = not (usable and sure and complete)
    return hearings


def _by_place(window: Window, shared: SharedWindow) -> list[tuple[Word, ...]]:
    """Words of each utterance, in seconds from its start.

    A phrase belongs to the utterance with which it overlaps most; if it reaches into another, it is
    split word by word. Words alone would mislead: the engine lets the first word after silence
    begin, and in Mandarin end, before that silence.
    """
    bounds = [(first / RATE, last / RATE) for first, last in shared.bounds]
    words_of: list[list[Word]] = [[] for _ in bounds]
    for (start, end), words in _phrased(window):
        common = _common(start, end, bounds)
        single = sorted(common)[-2] <= REACH
        for word in words:
            place = int(np.argmax(common if single else _common(word.start, word.end, bounds)))
            first, last = bounds[place]
            begins, ends = (min(max(time, first), last) - first for time in (word.start, word.end))
            words_of[place].append(replace(word, start=begins, end=ends))
    return [tuple(listed) for listed in words_of]


def _common(start: float, end: float, bounds: list[Span]) -> list[float]:
    """Seconds that a span shares with each of `bounds`; negative: how far away it is."""
    return [min(end, last) - max(start, first) for first, last in bounds]


def _phrased(window: Window) -> Iterator[tuple[Span, list[Word]]]:
    """Phrases with their words; single words if there are no phrases."""
    words = list(window.words or ())
    if not window.phrases:
        yield from (((word.start, word.end), [word]) for word in words)
        return
    phrase_end = position = 0
    for start, end, characters in window.phrases:
        phrase_end += characters
        inside = []
        while words and position + len(words[0].word) // 2 < phrase_end:
            position += len(words[0].word)
            inside.append(words.pop(0))
        yield (start, end), inside
    if words:
        yield (words[0].start, words[-1].end), words


def _mean(words: tuple[Word, ...] | list[Word]) -> float:
    """Mean logarithm of the words' probabilities; 0 for none."""
    if not words:
        return 0.0
    return sum(log(max(word.probability or 0.0, LEAST_PROBABILITY)) for word in words) / len(words)
