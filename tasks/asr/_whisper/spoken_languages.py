"""Which language is spoken: in a window, and in each utterance of a window that several share.

Whisper writes what is said in another language than a window's as a translation, or misspelt. The
decoder names the language of whatever part of the encoder output it is given, for a fiftieth of
what the encoder cost. So an utterance in another language is known, and heard again by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tasks.asr import SharedWindow
from tasks.asr._whisper.results import Language
from tasks.base.arrays import RATE

if TYPE_CHECKING:
    from ctranslate2 import StorageView
    from faster_whisper import WhisperModel

FRAMES = 50  # of encoder output in a second
SECONDS = 1.0  # a shorter utterance is taken to be in the language of its window
#: An utterance this certain of another language than its window's is in it. Where there is one, the
#: others of the window, too, are in the languages that they seem to be in.
CERTAIN, LIKELY = 0.9, 0.5


def of_windows(
    model: WhisperModel, encoded: StorageView, forced: Sequence[str | None], detect: bool = True
) -> list[Language]:
    """Language of each window; a forced one has no probability."""
    if not model.model.is_multilingual or (all(forced) and not detect):
        return [Language(code or "en") for code in forced]
    languages = []
    for code, best in zip(forced, model.model.detect_language(encoded), strict=True):
        detected, probability = _best(best)
        sure = None if code else probability
        languages.append(Language(code or detected, sure, detected, probability))
    return languages


def of_utterances(
    model: WhisperModel, encoded: StorageView, shared: SharedWindow, language: Language
) -> tuple[Language, ...]:
    """Language of each utterance of a window whose encoder output is (1, frames, width). A forced
    `language` is that of all."""
    if language.probability is None:
        return (language,) * len(shared.bounds)
    seem = _seem(model, encoded, shared, language)
    others = [one.detected_probability or 0.0 for one in seem if one.code != language.code]
    least = LIKELY if max(others, default=0.0) >= CERTAIN else CERTAIN
    return tuple(one if (one.detected_probability or 0.0) >= least else language for one in seem)


def _seem(
    model: WhisperModel, encoded: StorageView, shared: SharedWindow, language: Language
) -> list[Language]:
    """The language of each utterance by itself; `language` where that is the same."""
    import ctranslate2

    host = np.array(encoded.to_device(ctranslate2.Device.cpu))
    languages = []
    for start, end in shared.bounds:
        spoken = language
        if end - start >= SECONDS * RATE:
            part = host[:, start * FRAMES // RATE : -(-end * FRAMES // RATE)]
            view = ctranslate2.StorageView.from_array(np.ascontiguousarray(part))
            code, probability = _best(model.model.detect_language(view)[0])
            if code != language.code:
                spoken = Language(code, probability, code, probability)
        languages.append(spoken)
    return languages


def _best(detected: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """Whisper's code and probability of the most likely language."""
    token, probability = detected[0]
    return token[2:-2], float(probability)
