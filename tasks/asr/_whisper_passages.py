"""A passage: consecutive utterances of a recording, in windows that Whisper hears in turn.

Each window is heard after the end of the text before it. Whisper base keeps to words that it knows
from there (a talk's terms, the phrase with which each command begins, how figures are written);
without, it mishears one word anew in each window. A passage ends after some windows, so that a
batch has one window of each of several passages, and a text depends on four minutes at most.
"""

from __future__ import annotations

from tasks.asr import SharedWindow, Transcript
from tasks.asr._whisper_results import SILENCE_LOGPROB, Context, Window
from tasks.asr._whisper_windows import LOOP_RATIO
from tasks.speech_rate import RATE

#: Most audio of a window of several utterances, s: 30 less the silence that follows it.
WINDOW_SECONDS = 29.0
PASSAGE_SECONDS = 8 * WINDOW_SECONDS
#: Most tokens of the text before a window. The engine searches prompts of one length together.
TOKENS = 128


def divided(passage: SharedWindow) -> list[tuple[range, SharedWindow]]:
    """Windows of a passage in order, each with the places of its utterances: as many as fit. One
    that does not fit is alone."""
    longest = WINDOW_SECONDS * RATE
    found: list[range] = []
    for place, (_, end) in enumerate(passage.bounds):
        if found and end - passage.bounds[found[-1].start][0] <= longest:
            found[-1] = range(found[-1].start, place + 1)
        else:
            found.append(range(place, place + 1))
    return [(places, _window(passage, places)) for places in found]


def _window(passage: SharedWindow, places: range) -> SharedWindow:
    bounds = passage.bounds[places.start : places.stop]
    first, last = bounds[0][0], bounds[-1][1]
    moved = tuple((start - first, end - first) for start, end in bounds)
    return SharedWindow(passage.samples[first:last], moved)


def said(window: Window | Transcript, before: Context | None) -> Context | None:
    """What the window after this one is told; None where this one failed or its text is of no
    use."""
    if isinstance(window, Transcript):
        return None
    heard = window.heard
    if heard.silent or heard.ratio > LOOP_RATIO or heard.avg_logprob < SILENCE_LOGPROB:
        return None
    language = window.language.code
    earlier = before.tokens if before and before.language == language else ()
    return Context(language, (*earlier, *heard.tokens)[-TOKENS:])
