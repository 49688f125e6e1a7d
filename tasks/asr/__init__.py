"""Shelf of speech recognisers. A plug-in has

    VERSION: int
    class Settings(StageSettings)        # batch sizes and threads marked TRANSIENT
    def weights(settings) -> str         # identity (sha256) of the model; ConfigError if missing
    class Backend:                       # one per worker process, loaded once and kept
        RATE: int | None                 # sample rate that it wants, Hz; None: no samples
        def __init__(self, settings) -> None
        def transcribe(self, clips: Sequence[Clip]) -> Iterator[Transcript]   # in order

Heavy imports go inside functions. One bad clip gives a Transcript with `error`, never an exception.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class SpeechClip:
    """One utterance for a recogniser: float32 mono at the backend's RATE, and a forced language."""

    samples: NDArray[np.float32]
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was heard. Probabilities in 0..1; `avg_logprob` in nats per token; null: not known.
    `text` is null where nobody listened."""

    text: str | None
    language: str | None = None
    language_probability: float | None = None
    avg_logprob: float | None = None
    no_speech_probability: float | None = None
    compression_ratio: float | None = None
    error: str | None = None
