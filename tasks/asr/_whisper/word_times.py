"""When each word was said: the engine aligns Whisper's cross-attention with the tokens.

A word begins where the one before it ends. Silence between two words belongs to one of them, and
silence before the first word to that word, unless it would make it far longer than the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tasks.asr import Word
from tasks.base.json_types import JsonObject
from tasks.base.speech_rate import RATE

if TYPE_CHECKING:
    from ctranslate2 import StorageView
    from faster_whisper import WhisperModel
    from faster_whisper.tokenizer import Tokenizer

HOP = 160  # samples of a frame
#: Fewest frames to align; the engine's median filter needs some. A shorter clip is followed by the
#: silence that pads it.
LEAST_FRAMES = 50
LATEST = 1500  # timestamps of a window
#: Punctuation that belongs to the word after it, or before it: the engine's own lists.
PREPENDED = "\"'“¿([{-"
APPENDED = "\"'.。,，!！?？:：”)]}、"


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
