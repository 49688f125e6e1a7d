"""Shelf of speech recognisers. A plug-in has

    VERSION: int
    LISTENS: bool                        # optional; False: its texts are no witness of the audio
    class Settings(StageSettings)        # batch sizes and threads marked TRANSIENT
    def weights(settings) -> str         # identity of the model (sha256, or a served one's name);
                                         # ConfigError if missing
    class Backend:                       # one per worker process, loaded once and kept
        RATE: int | None                 # sample rate that it wants, Hz; None: no samples
        def __init__(self, settings) -> None
        def warm(self) -> None           # optional: called once, before the first shard
        def transcribe(self, clips: Sequence[Clip]) -> Iterator[Transcript]   # in order

Heavy imports go inside functions. `_batching.py` makes batches and halves what an engine refuses; a
plug-in that can use a GPU has `wants_gpu` and `gpu_fault` (`tasks/plugins/gpu.py`). One bad clip
gives a Transcript with `error`, never an exception; RunError, which ends the run, is for what every
clip would meet alike: a server that is gone, a key that is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tasks import speech


@dataclass(frozen=True)
class SpeechClip:
    """One utterance for a recogniser: float32 mono at the backend's RATE, and a forced language."""

    samples: NDArray[np.float32]
    language: str | None = None

    @cached_property
    def speech(self) -> tuple[speech.Span, ...]:
        """Where somebody speaks, in seconds, where RATE is 16 kHz."""
        return speech.spans(self.samples)


@dataclass(frozen=True, slots=True)
class Word:
    """When a word was said: seconds in the clip, 0 <= start <= end, and its probability. The words
    of a clip joined are its text: each has the space before it, where its language writes one."""

    word: str
    start: float
    end: float
    probability: float


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was heard. Probabilities in 0..1; `avg_logprob` in nats per token; null: not known.
    `text` is null where nobody listened, `words` where no times were asked for. `text_end`: where
    the last word ends, in seconds. `detected_language`: the recogniser's own choice, which a
    forced language overrules."""

    text: str | None
    language: str | None = None
    language_probability: float | None = None
    avg_logprob: float | None = None
    no_speech_probability: float | None = None
    compression_ratio: float | None = None
    error: str | None = None
    words: tuple[Word, ...] | None = None
    text_end: float | None = None
    detected_language: str | None = None
    detected_probability: float | None = None
