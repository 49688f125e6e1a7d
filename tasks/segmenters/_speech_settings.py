"""Settings of speech detection that `vad` and `auto` share."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from ..base.arrays import RATE
from ..settings import StageSettings
from ..speech.regions import Hysteresis
from ..speech.silero import WINDOW


class SpeechSettings(StageSettings):
    """Where speech begins and ends, and how long utterances are."""

    min_seconds: float = Field(0.3, ge=0, description="Shortest utterance, s.")
    target_seconds: float = Field(
        10.0,
        ge=0.5,
        le=3600,
        description="Neighbouring speech is joined up to about this length, s, and split at the "
        "longest pause. Speech without a pause may be longer, up to max_seconds.",
    )
    max_seconds: float = Field(30.0, ge=1, le=3600, description="Longest utterance, s.")
    max_gap_seconds: float = Field(
        1.0, ge=0.1, le=60, description="Longest pause inside an utterance, s."
    )
    threshold: float = Field(0.5, gt=0, lt=1, description="Speech begins at this probability.")
    neg_threshold: float = Field(
        0.35, gt=0, lt=1, description="Speech ends below this probability."
    )
    min_silence_ms: int = Field(
        100, ge=0, le=5000, description="Shortest pause that ends speech, ms."
    )
    min_speech_ms: int = Field(200, ge=0, le=5000, description="Shorter bursts are not speech, ms.")
    speech_pad_ms: int = Field(
        100, ge=0, le=1000, description="Audio kept on each side of an utterance, ms."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.neg_threshold > self.threshold:
            raise ValueError("neg_threshold must not be above threshold")
        if 2 * self.min_seconds + self.speech_pad_ms / 250 > self.max_seconds:
            raise ValueError("max_seconds must be more than twice min_seconds, else nothing fits")
        return self

    def hysteresis(self, threshold: float | None = None) -> Hysteresis:
        """A new detector of speech regions with these thresholds, or with `threshold` and half of
        it to end speech."""
        pause_windows = -(-self.min_silence_ms * RATE // (1000 * WINDOW))
        if threshold is None:
            return Hysteresis(self.threshold, self.neg_threshold, pause_windows)
        return Hysteresis(threshold, threshold / 2, pause_windows)
