"""When each word of a given text is said, by Whisper's cross-attention on the text's own tokens.

The decoder reads the text as if it had written it, and the engine's dynamic time warping of the
attention says when each token begins. A token is bytes of UTF-8, so a word that begins or ends
within one gets its share of the token's time: this happens with Chinese characters.

The attention runs ahead of the sound, by `AHEAD` at the start of words and at their end (measured
on synthetic speech). Silence at the edges of a word, by the level of 10 ms frames, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from rapidfuzz.distance import LCSseq

from ...base.arrays import RATE, Float32s, Float64s
from .. import Transcript, Word, _pieces
from .._words import LEAST_PROBABILITY, words_of
from .results import HOP, LEAST_FRAMES, ordered

if TYPE_CHECKING:
    from ctranslate2 import StorageView
    from faster_whisper import WhisperModel
    from faster_whisper.tokenizer import Tokenizer


AHEAD = 0.05  # s
MEDIAN = 3  # frames of 20 ms over which the engine smooths the attention
STEP = RATE // 100  # samples of a frame whose level is taken
SILENT = 35.0  # dB under the loudest frame of the clip
SHORTEST = 0.02  # s; of a word whose silence is left out


def transcript(
    model: WhisperModel, tokenizer: Tokenizer, encoded: StorageView, text: str, samples: Float32s
) -> Transcript:
    """The words of a text that is said in one window of float32 [n], whose encoder output is
    (1, frames, width). The probability of a word is the mean of its tokens'."""
    written, language = f" {text.strip()}", tokenizer.language_code
    words, tokens = words_of(written), tokenizer.encode(written)
    if not words or not len(samples):
        return Transcript(text, language, words=())
    if len(tokens) > model.max_length - len(tokenizer.sot_sequence) - 1:
        error = f"the text has {len(tokens)} tokens, more than Whisper reads at once"
        return Transcript(text, language, error=error)
    frames = max(-(-len(samples) // HOP), LEAST_FRAMES)
    (result,) = model.model.align(
        encoded, tokenizer.sot_sequence, [tokens], frames, median_filter_width=MEDIAN
    )
    # In byte-level tokens each character stands for one byte.
    edges = np.cumsum([0, *(len(tokenizer.tokenizer.id_to_token(token)) for token in tokens)])
    bounds = np.cumsum([0, *(len(word.encode()) for word in words)])
    seconds = len(samples) / RATE
    times = np.interp(bounds, edges, _starts(result.alignments, len(tokens), seconds))
    sure = np.asarray(result.text_token_probs, np.float64)
    first = np.searchsorted(edges, bounds[:-1], "right") - 1
    last = np.searchsorted(edges, bounds[1:], "left")
    spans = _trimmed(times + AHEAD, samples)
    timed = (
        Word(word, start, end, float(sure[low:high].mean()))
        for word, (start, end), low, high in zip(words, spans, first, last, strict=True)
    )
    mean = float(np.log(np.maximum(sure, LEAST_PROBABILITY)).mean())
    return Transcript(text, language, avg_logprob=mean, words=ordered(timed, seconds))


def _starts(alignments: Sequence[tuple[int, int]], tokens: int, seconds: float) -> Float64s:
    """When each token begins, and the last ends, s [tokens + 1], never falling."""
    starts = np.full(tokens + 1, np.nan)
    for token, frame in reversed(alignments):  # the first frame of each counts
        if token <= tokens:
            starts[token] = frame / 50
    starts[0] = 0.0 if np.isnan(starts[0]) else starts[0]
    if np.isnan(starts[tokens]):
        starts[tokens] = seconds
    timed = np.flatnonzero(~np.isnan(starts))
    filled = np.interp(np.arange(tokens + 1), timed, starts[timed])
    return np.asarray(np.maximum.accumulate(filled))


def _trimmed(times: Float64s, samples: Float32s) -> list[tuple[float, float]]:
    """Spans between times, s, without the silence at their edges."""
    frames = samples[: len(samples) // STEP * STEP].reshape(-1, STEP).astype(np.float64)
    levels = 10 * np.log10(np.square(frames).mean(axis=1) + 1e-12)
    loud = levels > levels.max(initial=-120.0) - SILENT
    spans = []
    for start, end in pairwise(times.tolist()):
        low, high = (round(time * RATE / STEP) for time in (start, end))
        heard = np.flatnonzero(loud[low:high])
        if len(heard):
            start = max(start, (low + heard[0]) * STEP / RATE)
            end = min(end, (low + heard[-1] + 1) * STEP / RATE)
        spans.append((start, max(end, start + SHORTEST)))
    return spans


SHORTEST_PIECE, LONGEST_PIECE = 14 * RATE, 29 * RATE  # samples of a piece before the last one


class Piece(NamedTuple):
    """Samples [start, end) of a clip, in which words [first, last) of its text are said."""

    start: int
    end: int
    first: int
    last: int


def pieces(words: Sequence[str], heard: Sequence[Word], samples: Float32s) -> list[Piece]:
    """Consecutive pieces of at most 29 s that make up the clip (float32 [n]) and its text."""
    same = _same(words, heard)
    pauses = [
        (after.start - before.end, round((before.end + after.start) / 2 * RATE), n)
        for (m, before), (n, after) in pairwise(same)
        if n == m + 1
    ]
    times = [0.0, *((word.start + word.end) / 2 for _, word in same), len(samples) / RATE]
    places = [0.0, *(n + 0.5 for n, _ in same), float(len(words))]
    cut: list[Piece] = []
    start = first = 0
    while len(samples) - start > LONGEST_PIECE:
        near = [pause for pause in pauses if SHORTEST_PIECE <= pause[1] - start <= LONGEST_PIECE]
        if near:
            _, end, last = max(near)
        else:
            rest = samples[start : start + LONGEST_PIECE + 1]
            end = start + len(_pieces.cut(rest, LONGEST_PIECE)[0])
            last = round(float(np.interp(end / RATE, times, places)))
        last = max(first, last)
        cut.append(Piece(start, end, first, last))
        start, first = end, last
    return [*cut, Piece(start, len(samples), first, len(words))]


def _same(words: Sequence[str], heard: Sequence[Word]) -> list[tuple[int, Word]]:
    """Words of the text that were heard, in order: their places, and when."""
    single: list[Word] = []
    for word in heard:  # divided as texts are: in scripts without spaces, one may be several
        parts = words_of(word.word)
        edges = np.linspace(word.start, word.end, len(parts) + 1).tolist()
        for part, start, end in zip(parts, edges[:-1], edges[1:], strict=True):
            single.append(Word(part, start, end, word.probability))
    written, spoken = (
        ["".join(filter(str.isalnum, word.casefold())) for word in listed]
        for listed in (words, [word.word for word in single])
    )
    return [
        (step.src_start + n, single[step.dest_start + n])
        for step in LCSseq.opcodes(written, spoken)
        if step.tag == "equal"
        for n in range(step.src_end - step.src_start)
    ]


def joined(
    text: str, words: Sequence[str], parts: Sequence[tuple[Piece, Transcript]]
) -> Transcript:
    language = parts[0][1].language
    if error := next((part.error for _, part in parts if part.error), None):
        return Transcript(text, language, error=error)
    timed: list[Word] = []
    logprob = 0.0
    for piece, part in parts:
        begin, aligned = piece.start / RATE, part.words or ()
        logprob += (part.avg_logprob or 0.0) * len(aligned)
        for spelling, word in zip(words[piece.first : piece.last], aligned, strict=True):
            start, end = word.start + begin, word.end + begin
            timed.append(replace(word, word=spelling, start=start, end=end))
    mean = logprob / len(timed) if timed else None
    return Transcript(text, language, avg_logprob=mean, words=tuple(timed))
