"""Whisper's result for one window."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from tasks.asr import Word

#: A text is silence with a higher no-speech probability and a lower log-probability (Radford et
#: al. 2022, section 4.5).
SILENCE_PROBABILITY = 0.6
SILENCE_LOGPROB = -1.0


@dataclass(frozen=True, slots=True)
class BeamResult:
    """The result of beam search for one window."""

    text: str
    avg_logprob: float
    no_speech: float
    tokens: tuple[int, ...] = ()

    @property
    def ratio(self) -> float:
        """Bytes of UTF-8 per byte of its zlib stream; 0 for no text."""
        data = self.text.encode()
        return len(data) / len(zlib.compress(data))

    @property
    def silent(self) -> bool:
        return self.no_speech > SILENCE_PROBABILITY and self.avg_logprob < SILENCE_LOGPROB


@dataclass(frozen=True, slots=True)
class Language:
    """The language in which a window was transcribed. `probability` is None if it was forced;
    `detected` is the model's own detection, None if it was not asked."""

    code: str
    probability: float | None = None
    detected: str | None = None
    detected_probability: float | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The end of the text before a window, as tokens, and its language."""

    language: str
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """One transcribed window. Times of words count from its start; `words` is None if the engine
    could not align them.

    `phrases`: if timestamps were requested, (start, end, characters of text) of each run of words
    between two of them, in s; the joined words have these characters. `spoken`: the language of
    each utterance, where several share the window.
    """

    heard: BeamResult
    language: Language
    words: tuple[Word, ...] | None
    phrases: tuple[tuple[float, float, int], ...] = ()
    spoken: tuple[Language, ...] = ()
