"""Clips of more than 30 s: the engine cuts windows at the timestamps that it predicts.

The engine computes the spectrogram of its whole input at once, at 25 kB for each 0.01 s, so it gets
pieces of five minutes. A piece ends at the first window that would reach beyond it, and the
next piece starts with that window: the windows are those of a single pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.asr import SpeechClip, Transcript, Word
from tasks.asr._whisper.results import APPENDED, PREPENDED, Language, ordered
from tasks.asr._whisper.settings import Settings
from tasks.asr._whisper.windows import LOOP_RATIO, LOOP_RETRY, SECONDS
from tasks.base.arrays import RATE, Float32s

if TYPE_CHECKING:
    from faster_whisper import WhisperModel
    from faster_whisper.transcribe import Segment

HOP = 160  # samples of a frame
PIECE = 300 * RATE  # samples
WINDOW = SECONDS * RATE


@dataclass(frozen=True, slots=True)
class Long:
    """One loaded model for long clips."""

    model: WhisperModel
    settings: Settings

    def hear(self, clip: SpeechClip, language: Language) -> Transcript:
        """One transcript. RuntimeError, ValueError or MemoryError when the engine refuses it."""
        segments: list[Segment] = []
        words: list[Word] = []
        ends: list[float] = []
        position = 0
        while position < len(clip.samples):
            piece = clip.samples[position : position + PIECE]
            window_segments = self._piece(piece, language.code)
            step = len(piece)
            if position + len(piece) < len(clip.samples):
                window_segments, step = whole_windows(window_segments, len(piece))
            segments += window_segments
            ends = [position / RATE + segment.end for segment in window_segments] or ends
            words += list(_words(window_segments, position / RATE))
            position += step
        times = ordered(words, len(clip.samples) / RATE) if self.settings.word_timestamps else None
        return replace(
            transcript(segments, language.code, language.probability, times),
            text_end=min(max(ends, default=0.0), len(clip.samples) / RATE),
            detected_language=language.detected,
            detected_probability=language.detected_probability,
        )

    def _piece(self, samples: Float32s, language: str) -> list[Segment]:
        segments = self._segments(samples, language)
        if _loops(segments):
            again = self._segments(samples, language, **LOOP_RETRY)
            segments = segments if _loops(again) else again
        return segments

    def _segments(self, samples: Float32s, language: str, **options: Any) -> list[Segment]:
        segments, _ = self.model.transcribe(
            samples.astype(np.float32, copy=False),
            language=language,
            beam_size=self.settings.beam_size,
            temperature=0.0,  # above 0 the engine samples at random
            condition_on_previous_text=False,  # else a loop continues to the end
            vad_filter=False,
            initial_prompt=self.settings.prompt_of(language),
            word_timestamps=self.settings.word_timestamps,
            prepend_punctuations=PREPENDED,
            append_punctuations=APPENDED,
            **options,
        )
        return list(segments)


def whole_windows(segments: list[Segment], samples: int) -> tuple[list[Segment], int]:
    """Segments whose windows lie in a piece of `samples`, and the sample where the next one starts.

    That is the first window that reaches beyond the piece. Where silence leaves none, it is the
    last place at which a window would have fitted.
    """
    kept = [s for s in segments if s.seek * HOP + WINDOW <= samples]
    if len(kept) < len(segments):
        return kept, int(segments[len(kept)].seek * HOP)
    last = max((round(s.end * RATE) for s in kept), default=0)
    return kept, min(max(samples - WINDOW, last), samples)


def transcript(
    segments: list[Segment],
    language: str,
    probability: float | None,
    words: tuple[Word, ...] | None = None,
) -> Transcript:
    """The engine's segments as one transcript; the engine itself leaves out silent windows.

    Log-probability: mean over tokens; no-speech: mean over time; compression ratio: the worst
    window's, since that of a long text grows with its length.
    """
    if not segments:
        return Transcript("", language, probability, no_speech_probability=1.0, words=words)
    tokens = [len(s.tokens) + 1 for s in segments]
    seconds = [max(s.end - s.start, 1e-3) for s in segments]
    return Transcript(
        text=" ".join("".join(s.text for s in segments).split()),
        language=language,
        language_probability=probability,
        avg_logprob=float(np.average([s.avg_logprob for s in segments], weights=tokens)),
        no_speech_probability=float(
            np.average([s.no_speech_prob for s in segments], weights=seconds)
        ),
        compression_ratio=max(s.compression_ratio for s in segments),
        words=words,
    )


def _words(segments: list[Segment], offset: float) -> Iterator[Word]:
    """Words of a piece that starts `offset` seconds into its clip."""
    for segment in segments:
        for word in segment.words or ():
            yield Word(word.word, word.start + offset, word.end + offset, word.probability)


def _loops(segments: list[Segment]) -> bool:
    """Whether a text repeats itself so much that the engine ran in a loop."""
    return any(s.compression_ratio > LOOP_RATIO for s in segments)
