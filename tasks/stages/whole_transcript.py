"""Transcribes a whole recording before it is cut: words with their times, and where speech is.

One streaming pass: the voice detector cuts, and the recogniser transcribes the pieces in batches of
a few minutes. Memory holds one batch and the words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import soxr

from .. import speech
from ..asr import SpeechClip
from ..audio.channels import Heard
from ..base.arrays import Float32s, Float64s
from ..base.errors import ConfigError, ItemError, shortened
from ..plugins.contracts.asr import Backend, EmittingBackend
from ..plugins.contracts.segmenters import Emissions, RecordingTranscript, Segmenter
from ..recording import Locator, TimedWord
from ..recording.limits import Limits
from ..recording.turns import merged
from ..segmenters import vad
from ..settings import Plugin
from . import cutting
from .transcribe import loaded_backend

BATCH_SECONDS = 300.0
FRAME = 320  # samples: 20 ms
REACH = 5  # frames: most that an edge of a region moves outwards
DEPTH = 15  # frames: most that it moves inwards, besides a third of the region
FLOOR, PEAK = 0.05, 0.9  # quantiles of a region's levels: pauses, loud sounds
QUIET = 0.3  # of the way from floor to peak, in dB: an edge below it is not speech
TOUCHING = 0.02  # s between regions that are one: pieces adjoin
#: Long pieces have fewer ends, where words are misrecognised.
CUTS = vad.Settings(target_seconds=25.0, max_seconds=29.0, max_gap_seconds=2.0)

Piece = tuple[float, Float32s]  # start, s; mono at the recogniser's rate


def transcribed(
    locator: Locator,
    recogniser: Plugin,
    language: str | None,
    emitting: bool = False,
    limits: Limits | None = None,
) -> RecordingTranscript:
    """The transcript of a recording; with `emitting`, its emissions and no words. ItemError if it
    cannot be decoded to its end, or if the recogniser gives no times of words."""
    backend = backend_of(recogniser)
    if emitting:
        return _emitted(locator, backend, recogniser, language, limits)
    words: list[TimedWord] = []
    spoken: list[tuple[float, float]] = []
    languages: dict[str, float] = {}
    for batch in _batches(_pieces(locator, backend.RATE or speech.RATE, limits)):
        clips = [SpeechClip(samples, language) for _, samples in batch]
        for (begin, _), clip, hypothesis in zip(
            batch, clips, backend.transcribe(clips), strict=True
        ):
            edges = _edges(clip.samples, clip.speech)
            spoken += [(begin + start, begin + end) for start, end in edges]
            if hypothesis.error or not hypothesis.text:
                continue
            if hypothesis.words is None:
                raise ItemError(
                    "no_word_times",
                    f"the recogniser {recogniser.use!r} gave no times of words, by which a text is "
                    "aligned; set its word_timestamps, or choose another one",
                )
            if hypothesis.language:
                seconds = len(clip.samples) / speech.RATE
                languages[hypothesis.language] = languages.get(hypothesis.language, 0.0) + seconds
            words += [TimedWord(w.word, begin + w.start, begin + w.end) for w in hypothesis.words]
    most = max(sorted(languages), key=lambda code: languages[code], default=None)
    return RecordingTranscript(tuple(words), tuple(merged(spoken, TOUCHING)), language or most)


def _emitted(
    locator: Locator,
    backend: Backend,
    recogniser: Plugin,
    language: str | None,
    limits: Limits | None,
) -> RecordingTranscript:
    """In half precision: log-probabilities to a thousandth, and an hour of 32 tokens in 12 MB."""
    if not isinstance(backend, EmittingBackend):
        raise ConfigError(f"the recogniser {recogniser.use!r} emits no scores of tokens: use ctc")
    pieces = []
    spoken: list[tuple[float, float]] = []
    for begin, samples in _pieces(locator, backend.RATE or speech.RATE, limits):
        try:
            scores = backend.emissions(samples)
        except RuntimeError as error:
            raise ItemError("asr_error", shortened(str(error))) from error
        pieces.append((begin, len(samples) / speech.RATE, scores.astype(np.float16)))
        edges = _edges(samples, speech.spans(samples))
        spoken += [(begin + start, begin + end) for start, end in edges]
    emissions = Emissions(backend.alphabet, tuple(pieces))
    return RecordingTranscript((), tuple(merged(spoken, TOUCHING)), language, emissions)


def _edges(samples: Float32s, spans: tuple[speech.Span, ...]) -> list[speech.Span]:
    """Regions with edges moved by level: the detector starts words late, and ends them early or, if
    noise follows, late."""
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    if not len(frames):
        return list(spans)
    level = 10 * np.log10(np.square(frames, dtype=np.float64).mean(axis=1) + 1e-10)
    return [_inwards(level, span) for span in _outwards(level, spans)]


def _inwards(level: Float64s, span: speech.Span) -> speech.Span:
    """A region without the quiet at its edges, which may be noise of the recording: quiet is
    relative to the region's own floor. `level`: of frames, in dB."""
    step = FRAME / speech.RATE
    first, last = round(span[0] / step), min(round(span[1] / step), len(level))
    depth = min(DEPTH, (last - first) // 3)
    if depth < 1:
        return span
    floor, peak = np.quantile(level[first:last], (FLOOR, PEAK))
    heard = level[first:last] > floor + QUIET * (peak - floor)
    begin, end = np.flatnonzero(heard[:depth]), np.flatnonzero(heard[-depth:])
    start = first + (int(begin[0]) if len(begin) else depth)
    stop = last - depth + (int(end[-1]) + 1 if len(end) else 0)
    return max(span[0], start * step), min(span[1], stop * step)


def _outwards(level: Float64s, spans: tuple[speech.Span, ...]) -> list[speech.Span]:
    """Regions extended as far as it is loud: above the middle, in dB, between the quiet and the
    loud frames."""
    quiet, full = np.quantile(level, (0.05, 0.95))
    loud = level > (quiet + full) / 2
    step = FRAME / speech.RATE
    widened: list[speech.Span] = []
    for start, end in spans:
        first, last = int(start / step), min(int(end / step), len(loud))
        low, high = max(first - REACH, 0), min(last + REACH, len(loud))
        heard = np.flatnonzero(loud[low:first])
        first = low + int(heard[0]) if len(heard) else first
        heard = np.flatnonzero(loud[last:high])
        last = last + int(heard[-1]) + 1 if len(heard) else last
        begin = min(start, first * step)
        if widened and begin <= widened[-1][1]:
            begin, _ = widened.pop()
        widened.append((begin, max(end, last * step)))
    return widened


def _pieces(locator: Locator, rate: int, limits: Limits | None) -> Iterator[Piece]:
    facts = cutting.StreamFacts()

    def begin(native: int, start: int) -> Segmenter:
        return vad.start(CUTS, native, ())

    for span, clip in cutting.spans(locator, facts, begin, limits=limits):
        if clip is not None:
            ear = Heard(weights=clip.weights)
            samples = np.concatenate([*map(ear.push, clip.blocks()), ear.finish()])
            if clip.rate != rate:
                samples = soxr.resample(samples, clip.rate, rate, "HQ")
            yield span.start / facts.rate, np.asarray(samples, np.float32)


def _batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    seconds = 0.0
    for piece in pieces:
        batch.append(piece)
        seconds += len(piece[1]) / speech.RATE
        if seconds >= BATCH_SECONDS:
            yield batch
            batch, seconds = [], 0.0
    if batch:
        yield batch


#: This worker process's model for whole recordings.
backend_of = lru_cache(maxsize=1)(loaded_backend)
