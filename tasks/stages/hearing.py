"""A whole recording heard before it is cut: words with their times, and where somebody speaks.

One streaming pass: the voice detector cuts, the recogniser hears what it cut in batches of a few
minutes. Memory is that of a batch and of the words.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import soxr
from numpy.typing import NDArray

from tasks import plugins, speech
from tasks.asr import SpeechClip
from tasks.audio import Clip
from tasks.audio.channels import mean
from tasks.errors import ItemError
from tasks.plugins import gpu
from tasks.plugins.contracts.asr import Backend, WarmedBackend
from tasks.plugins.contracts.segmenters import Heard, Segmenter
from tasks.recording import Locator, TimedWord
from tasks.segmenters import vad
from tasks.settings import Plugin
from tasks.stages import cutting

BATCH_SECONDS = 300.0
#: Long pieces have fewer ends, at which words are misheard.
CUTS = vad.Settings(target_seconds=25.0, max_seconds=29.0, max_gap_seconds=2.0)

Piece = tuple[float, NDArray[np.float32]]  # where it begins, s; mono at the recogniser's rate


def heard(locator: Locator, recogniser: Plugin, language: str | None) -> Heard:
    """Everything that the recogniser hears in a recording. ItemError when it cannot be decoded to
    its end, or when the recogniser gives no times of words."""
    backend = _backend(recogniser)
    words: list[TimedWord] = []
    spoken: list[tuple[float, float]] = []
    languages: dict[str, float] = {}
    for batch in _batches(_pieces(locator, backend.RATE or speech.RATE)):
        clips = [SpeechClip(samples, language) for _, samples in batch]
        for (begin, _), clip, found in zip(batch, clips, backend.transcribe(clips), strict=True):
            spoken += [(begin + start, begin + end) for start, end in clip.speech]
            if found.error or not found.text:
                continue
            if found.words is None:
                raise ItemError(
                    "no_word_times",
                    f"the recogniser {recogniser.use!r} gave no times of words, by which a text is "
                    "aligned; set its word_timestamps, or choose another one",
                )
            if found.language:
                seconds = len(clip.samples) / speech.RATE
                languages[found.language] = languages.get(found.language, 0.0) + seconds
            words += [TimedWord(w.word, begin + w.start, begin + w.end) for w in found.words]
    most = max(sorted(languages), key=lambda code: languages[code], default=None)
    return Heard(tuple(words), tuple(_joined(spoken)), language or most)


def _pieces(locator: Locator, rate: int) -> Iterator[Piece]:
    facts = cutting.StreamFacts()

    def begin(native: int, at: int) -> Segmenter:
        return vad.start(CUTS, native, ())

    for span, clip in cutting.spans(locator, facts, begin):
        if clip is not None:
            yield span.start / facts.rate, _mono(clip, rate)


def _mono(clip: Clip, rate: int) -> NDArray[np.float32]:
    samples = np.concatenate([mean(block) for block in clip.blocks()])
    if clip.rate == rate:
        return np.asarray(samples, np.float32)
    return np.asarray(soxr.resample(samples, clip.rate, rate, "HQ"), np.float32)


def _batches(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    held = 0.0
    for piece in pieces:
        batch.append(piece)
        held += len(piece[1]) / speech.RATE
        if held >= BATCH_SECONDS:
            yield batch
            batch, held = [], 0.0
    if batch:
        yield batch


def _joined(spans: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Regions that touch, as one; pieces follow each other."""
    at: tuple[float, float] | None = None
    for span in spans:
        if at is not None and span[0] <= at[1] + 0.02:  # a piece ends where the next begins
            at = at[0], max(at[1], span[1])
            continue
        if at is not None:
            yield at
        at = span
    if at is not None:
        yield at


@lru_cache(maxsize=1)
def _backend(plugin: Plugin) -> Backend:
    """The model of this worker process for whole recordings."""
    recogniser, settings = plugins.resolve("asr", plugin)
    if recogniser.wants_gpu(settings):
        gpu.load_libraries()
    backend = recogniser.Backend(settings)
    if isinstance(backend, WarmedBackend):
        backend.warm()
    return backend
