"""Several utterances of one recording in one window: which ones share it, and which words are
whose.

A passage, consecutive utterances of a recording, is divided into windows, each of which is
transcribed with the end of the previous text as its prompt. Whisper base keeps to the words there
(a talk's terms, the phrase with which each command begins, how figures are written); without, it
mishears a word anew in each window. A passage ends after some windows, so that a batch has one
window of each of several passages, and a text depends on four minutes at most.

Words are assigned to utterances by their times. Doubtful utterances are transcribed once more by
themselves (`whole_clips.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np

from ...base.arrays import RATE, Float32s
from ...speech import Span
from .. import SharedWindow, SpeechClip, Transcript, Word
from .._words import LEAST_PROBABILITY
from .results import DOUBTFUL, SILENCE_LOGPROB, BeamResult, Context, Window
from .whole_clips import Hearing
from .windows import CERTAIN, LOOP_RATIO, SECONDS, ForcedClip

#: Most audio of a window of several utterances, s: 30 less the silence that follows it.
WINDOW_SECONDS = 29.0
PASSAGE_SECONDS = 8 * WINDOW_SECONDS
#: Most tokens of the text before a window, about those of one window: with twice as many, no fewer
#: words were wrong, and the search took a sixth longer. The engine searches prompts of one length
#: together.
TOKENS = 64

#: Least length of a doubtful utterance that is transcribed again by itself, in the language that it
#: tells: shorter ones, which gain most from neighbours, were worse alone. Of any length in a window
#: where another language is likely: a Mandarin word in English was "Zhongqiu", or translated.
DOUBTED_SECONDS = 2.0
FRAME = RATE // 50  # samples in which the level of an utterance is taken
FAINTEST = 3e-5  # RMS of the noise between utterances, at least: -90 dB of full scale
REACH = 0.3  # s that a phrase may reach into a neighbour of its utterance


@dataclass(frozen=True, slots=True)
class Request:
    """Audio of one window, or for Whisper's long form, and its clips by index.

    `window`: set if several utterances share it; the first is number `first` of their passage.
    `then`: the next window, which takes this one's text as its prompt.
    """

    asked: ForcedClip
    clips: dict[int, SpeechClip]
    window: SharedWindow | None = None
    first: int = 0
    then: Request | None = None

    @property
    def seconds(self) -> float:
        return len(self.asked[0].samples) / RATE

    @property
    def earliest(self) -> int:
        """The lowest index of a clip that waits for this window or for one after it."""
        later = [] if self.then is None else [self.then.earliest]
        return min([*self.clips, *later])


def requests_of(asked: dict[int, ForcedClip]) -> list[Request]:
    """A request for each clip, and the first of those for each passage in one language."""
    requests: list[Request] = []
    passages: dict[tuple[int, str | None], dict[int, SpeechClip]] = {}
    for index, (clip, language) in asked.items():
        if clip.window is None:
            requests.append(Request((clip, language), {index: clip}))
        else:
            passages.setdefault((id(clip.window), language), {})[index] = clip
    for (_, language), clips in passages.items():
        requests += _of_passage(clips, language)
    return requests


def _of_passage(clips: dict[int, SpeechClip], language: str | None) -> Iterator[Request]:
    """Requests for the windows of a passage, up to the last with one of `clips`: those of up to 30
    s in one chain, which longer utterances divide."""
    passage = next(iter(clips.values())).window
    assert passage is not None
    then: Request | None = None
    for places, window in reversed(divided(passage)):
        members = {index: clip for index, clip in clips.items() if clip.place in places}
        several = window if len(places) > 1 else None
        asked = SpeechClip(window.samples, language, several), language
        request = Request(asked, members, several, places.start, then)
        if is_long(request.asked[0]):
            if then is not None:
                yield then
            then = None
            if members:
                yield Request(request.asked, members)
        elif members or then is not None:
            then = request
    if then is not None:
        yield then


def divided(passage: SharedWindow) -> list[tuple[range, SharedWindow]]:
    """Windows of a passage in order, each with the places of its utterances: as many as fit. An
    utterance too long to share has its own."""
    bounds = passage.bounds
    divisions: list[range] = []
    for place, (_, end) in enumerate(bounds):
        if divisions and end - bounds[divisions[-1].start][0] <= WINDOW_SECONDS * RATE:
            divisions[-1] = range(divisions[-1].start, place + 1)
        else:
            divisions.append(range(place, place + 1))
    windows = []
    for places in divisions:
        first, last = bounds[places[0]][0], bounds[places[-1]][1]
        moved = tuple((bounds[n][0] - first, bounds[n][1] - first) for n in places)
        samples = _murmuring(passage.samples[first:last], moved)
        windows.append((places, SharedWindow(samples, moved)))
    return windows


def _murmuring(samples: Float32s, bounds: Sequence[tuple[int, int]]) -> Float32s:
    """The samples of a window with faint noise between its utterances, as loud as their quietest
    place: Whisper mishears more words beside digital silence, which no recording has."""
    levels = []  # RMS of the quietest twentieth of an utterance's frames
    for start, end in bounds:
        if count := (end - start) // FRAME:
            frames = samples[start : start + count * FRAME].reshape(-1, FRAME)
            levels.append(np.quantile(np.sqrt(np.square(frames).mean(axis=1)), 0.05))
    noise = np.random.default_rng(0).standard_normal(len(samples), np.float32)
    murmuring = noise * np.float32(max(min(levels, default=0.0), FAINTEST))
    for start, end in bounds:
        murmuring[start:end] = samples[start:end]
    return murmuring


def is_long(clip: SpeechClip) -> bool:
    return len(clip.samples) > SECONDS * RATE


def told_after(window: Window | Hearing | Transcript, before: Context | None) -> Context | None:
    """The next window's context; None if this one failed, was a long clip, or has a useless
    text."""
    if not isinstance(window, Window):
        return None
    heard = window.heard
    if heard.silent or heard.ratio > LOOP_RATIO or heard.avg_logprob < SILENCE_LOGPROB:
        return None
    language = window.language.code
    earlier = before.tokens if before and before.language == language else ()
    return Context(language, (*earlier, *heard.tokens)[-TOKENS:])


def apart(
    window: Window, clips: dict[int, SpeechClip], shared: SharedWindow, before: int = 0
) -> dict[int, Hearing]:
    """The hearing of each clip by its key; `clips`: some or all clips of the shared window;
    `before`: utterances of the passage before it."""
    words_of = _by_place(window, shared)
    mean = _mean([word for words in words_of for word in words])
    others = [one.probability or 0.0 for one in window.spoken if one.code != window.language.code]
    certain = max(others, default=0.0) >= CERTAIN
    hearings = {}
    for key, clip in clips.items():
        words = words_of[clip.place - before]
        text = "".join(word.word for word in words).strip()
        score = window.heard.avg_logprob
        if words:  # relative to the window, whose own mean is exact: a word may be several tokens
            score = min(score + _mean(words) - mean, 0.0)
        heard = BeamResult(text, score, window.heard.no_speech)
        usable = window.words is not None and window.heard.ratio <= LOOP_RATIO
        hearings[key] = hearing = Hearing(clip, window.language, [(heard, words)], usable)
        spoken = window.spoken[clip.place - before] if window.spoken else window.language
        if spoken.code != window.language.code and certain:
            hearing.language, hearing.foreign, hearing.again = spoken, True, True
            continue
        hearing.tells = bool(others) or hearing.seconds >= DOUBTED_SECONDS
        unsure = hearing.tells and heard.avg_logprob < DOUBTFUL
        hearing.again = not (usable and words and not unsure and not hearing.holes())
    return hearings


def _by_place(window: Window, shared: SharedWindow) -> list[tuple[Word, ...]]:
    """Words of each utterance, in seconds from its start.

    A phrase belongs to the utterance with which it overlaps most; if it reaches into another, it is
    split word by word. Words alone would mislead: the engine lets the first word after silence
    begin, and in Mandarin end, before that silence.
    """
    bounds = [(first / RATE, last / RATE) for first, last in shared.bounds]
    words_of: list[list[Word]] = [[] for _ in bounds]

    def common(start: float, end: float) -> list[float]:
        """Seconds that a span shares with each utterance; negative: how far away it is."""
        return [min(end, last) - max(start, first) for first, last in bounds]

    for span, words in _phrased(window):
        whole = common(*span)
        single = sorted(whole)[-2] <= REACH
        for word in words:
            place = int(np.argmax(whole if single else common(word.start, word.end)))
            first, last = bounds[place]
            begins, ends = (min(max(time, first), last) - first for time in (word.start, word.end))
            words_of[place].append(replace(word, start=begins, end=ends))
    return [tuple(listed) for listed in words_of]


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


def _mean(words: Sequence[Word]) -> float:
    """Mean logarithm of the words' probabilities; 0 for none."""
    sure = [log(max(word.probability or 0.0, LEAST_PROBABILITY)) for word in words]
    return sum(sure) / max(len(sure), 1)
