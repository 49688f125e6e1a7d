"""When each word was said: Whisper's cross-attention, aligned with the tokens by the engine.

A word begins where the one before it ends: silence between two belongs to one of them, and silence
before the first word to the first, unless that makes it far longer than the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tasks.asr import Word

RATE = 16000
HOP = 160  # samples of a frame
#: Frames that are aligned at least; the engine's median filter needs some. What follows a shorter
#: clip is the silence that it was padded with.
LEAST_FRAMES = 50
#: Punctuation that belongs to the word after it, or before it: the engine's own lists.
PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"


def aligned(
    model: Any, tokenizer: Any, encoded: Any, tokens: Sequence[int], samples: int
) -> tuple[Word, ...] | None:
    """Words of one window of `samples`, from encoder output (1, 1500, width); None where the
    engine cannot align them."""
    seconds = samples / RATE
    segment = {"seek": 0, "start": 0.0, "end": seconds, "tokens": list(tokens)}
    frames = max(-(-samples // HOP), LEAST_FRAMES)
    try:
        model.add_word_timestamps(
            [[segment]], tokenizer, encoded, frames, PREPENDED, APPENDED, last_speech_timestamp=0.0
        )
    except IndexError:  # its path through the attention may skip a token
        return None
    found: Any = segment.get("words", [])
    return ordered((Word(**word) for word in found), seconds)


def ordered(words: Iterable[Word], seconds: float) -> tuple[Word, ...]:
    """The same within 0..seconds, none before the one before it ends.

    The engine's repairs of long words at pauses may overlap by a few hundredths.
    """
    found: list[Word] = []
    last = 0.0
    for word in words:
        start = min(max(float(word.start), last), seconds)
        last = min(max(float(word.end), start), seconds)
        found.append(Word(word.word, start, last, float(word.probability)))
    return tuple(found)
