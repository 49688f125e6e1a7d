"""Whisper's result for one window: text, scores, and when each word was said; and its script.

The engine aligns Whisper's cross-attention with the tokens. A word begins where the one before it
ends. Silence between two words belongs to one of them, and silence before the first word to that
word, unless it would make it far longer than the others.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Literal

from ...base.arrays import RATE
from ...base.json_types import JsonObject
from .. import Transcript, Word

if TYPE_CHECKING:
    from ctranslate2 import StorageView
    from faster_whisper import WhisperModel
    from faster_whisper.tokenizer import Tokenizer
    from opencc import OpenCC

#: A text is silence with a higher no-speech probability and a lower log-probability (Radford et
#: al. 2022, section 4.5).
SILENCE_PROBABILITY = 0.6
SILENCE_LOGPROB = -1.0
#: Mean log-probability below which a window is transcribed again without the text before it, and an
#: utterance by itself.
DOUBTFUL = -0.6

HOP = 160  # samples of a frame
#: Fewest frames to align; the engine's median filter needs some. A shorter clip is followed by the
#: silence that pads it.
LEAST_FRAMES = 50
LATEST = 1500  # timestamps of a window
#: Punctuation that belongs to the word after it, or before it: the engine's own lists.
PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"


@dataclass(frozen=True, slots=True)
class BeamResult:
    """The result of beam search for one window. `probability`: that a short clip's words were said,
    in any spelling."""

    text: str
    avg_logprob: float
    no_speech: float
    tokens: tuple[int, ...] = ()
    worst_ratio: float | None = None
    probability: float | None = None

    @property
    def ratio(self) -> float:
        """Bytes of UTF-8 per byte of its zlib stream, 0 for no text; of several windows the worst
        one's."""
        if self.worst_ratio is not None:
            return self.worst_ratio
        data = self.text.encode()
        return len(data) / len(zlib.compress(data))

    @property
    def silent(self) -> bool:
        return self.no_speech > SILENCE_PROBABILITY and self.avg_logprob < SILENCE_LOGPROB


@dataclass(frozen=True, slots=True)
class Language:
    """The language in which a window was transcribed. `probability` is None if it was forced;
    `detected` is the model's own detection, None if that did not run; `rivals`: the languages that
    come next, with their probabilities."""

    code: str
    probability: float | None = None
    detected: str | None = None
    detected_probability: float | None = None
    rivals: tuple[tuple[str, float], ...] = ()


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
    each utterance, if several share the window.
    """

    heard: BeamResult
    language: Language
    words: tuple[Word, ...] | None
    phrases: tuple[tuple[float, float, int], ...] = ()
    spoken: tuple[Language, ...] = ()


def aligned(
    model: WhisperModel,
    tokenizer: Tokenizer,
    encoded: StorageView,
    tokens: Sequence[int],
    samples: int,
) -> tuple[Word, ...] | None:
    """Words of one window of `samples`, from encoder output (1, 1500, width); None if the
    engine cannot align them."""
    seconds = samples / RATE
    segment: JsonObject = {"seek": 0, "start": 0.0, "end": seconds, "tokens": list(tokens)}
    frames = max(-(-samples // HOP), LEAST_FRAMES)
    try:
        model.add_word_timestamps(
            [[segment]], tokenizer, encoded, frames, PREPENDED, APPENDED, last_speech_timestamp=0.0
        )
    except IndexError:  # its path through the attention may skip a token
        return None
    # The engine adds the words to the segment.
    return ordered((Word(**word) for word in segment.get("words", [])), seconds)


def ordered(words: Iterable[Word], seconds: float) -> tuple[Word, ...]:
    """The same words within 0..seconds, none starting before the one before it ends.

    Where the engine shortens long words at pauses, they may overlap by some hundredths of a second.
    """
    in_order: list[Word] = []
    last = 0.0
    for word in words:
        start = min(max(float(word.start), last), seconds)
        last = min(max(float(word.end), start), seconds)
        in_order.append(Word(word.word, start, last, word.probability))
    return tuple(in_order)


def phrases(tokens: Sequence[int], tokenizer: Tokenizer) -> tuple[tuple[float, float, int], ...]:
    """(start, end, characters) of the runs of text between timestamps, in s. A timestamp counts
    0.02 s; the last phrase may lack its end."""
    runs: list[tuple[float, float, int]] = []
    start, text = 0.0, list[int]()
    for token in [*tokens, tokenizer.timestamp_begin + LATEST]:
        if token < tokenizer.timestamp_begin:
            text.append(token)
            continue
        time = (token - tokenizer.timestamp_begin) * 0.02
        if text:
            runs.append((start, time, len(tokenizer.decode(text))))
            text = []
        start = time
    return tuple(runs)


# One script for Mandarin texts.
#
# Whisper mixes simplified and traditional characters, and a corpus of both has two units for one
# character. Simplified is the default because recognisers are trained and scored with it:
# AISHELL, WenetSpeech and WeNet use it. Cantonese stays as it is; it is written in traditional
# characters, some of which (嘅, 冇) no conversion knows.

Script = Literal["as_heard", "simplified", "traditional"]


@cache
def _converter(script: str) -> OpenCC:
    """OpenCC picks by the word where a character has several forms."""
    from opencc import OpenCC

    return OpenCC({"simplified": "t2s", "traditional": "s2t"}[script])


def in_script(heard: Transcript, script: Script) -> Transcript:
    """The transcript in a script; other languages as they are. Words are cut from the converted
    text; converted one by one where its length changed."""
    if script == "as_heard" or heard.language != "zh" or not heard.text:
        return heard
    convert = _converter(script).convert
    text: str = convert(heard.text)
    words = heard.words or ()
    if len(text) != len(heard.text):
        converted = [replace(word, word=convert(word.word)) for word in words]
    else:
        converted = []
        # The text has no space before its first word.
        position = len(words[0].word.lstrip()) - len(words[0].word) if words else 0
        for word in words:
            end = position + len(word.word)
            space = " " * max(0, -position)
            converted.append(replace(word, word=space + text[max(0, position) : end]))
            position = end
    return replace(heard, text=text, words=tuple(converted) if words else heard.words)
