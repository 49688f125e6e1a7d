"""Clips of more than 30 s: the engine cuts windows at the timestamps that it predicts.

The engine computes the spectrogram of its whole input at once, at 25 kB for each 0.01 s, so it gets
pieces of five minutes. A piece ends at the first window that would reach beyond it, and the
next piece starts with that window: the windows are those of a single pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base.arrays import RATE, Float32s
from .. import SpeechClip, Word
from .results import APPENDED, PREPENDED, BeamResult, Language, ordered
from .settings import Settings
from .whole_clips import Hearing
from .windows import LOOP_RATIO, LOOP_RETRY, SECONDS

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

    def hear(self, clip: SpeechClip, language: Language) -> Hearing:
        """The clip's text with the times of its words. RuntimeError, ValueError or MemoryError when
        the engine refuses it."""
        segments: list[Segment] = []
        words: list[Word] = []
        aligned = True
        position = 0
        while position < len(clip.samples):
            piece = clip.samples[position : position + PIECE]
            window_segments = self._piece(piece, language.code)
            step = len(piece)
            if position + len(piece) < len(clip.samples):
                window_segments, step = whole_windows(window_segments, len(piece))
            segments += window_segments
            aligned &= all(segment.words is not None for segment in window_segments)
            words += list(_words(window_segments, position / RATE))
            position += step
        in_order = ordered(words, len(clip.samples) / RATE)
        return Hearing(clip, language, [(joined(segments), in_order)], aligned)

    def _piece(self, samples: Float32s, language: str) -> list[Segment]:
        segments = self._segments(samples, language)
        if _loops(segments):
            again = self._segments(samples, language, **LOOP_RETRY)
            segments = segments if _loops(again) else again
        return segments

    def _segments(self, samples: Float32s, language: str, **options: Any) -> list[Segment]:
        """Segments of a piece, without words if the engine cannot align them."""
        try:
            return self._timed(samples, language, word_timestamps=True, **options)
        except IndexError:  # as in `results.aligned`
            return self._timed(samples, language, word_timestamps=False, **options)

    def _timed(self, samples: Float32s, language: str, **options: Any) -> list[Segment]:
        segments, _ = self.model.transcribe(
            samples.astype(np.float32, copy=False),
            language=language,
            beam_size=self.settings.beam_size,
            temperature=0.0,  # above 0 the engine samples at random
            condition_on_previous_text=False,  # else a loop continues to the end
            vad_filter=False,
            initial_prompt=self.settings.prompt_of(language),
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


def joined(segments: list[Segment]) -> BeamResult:
    """The engine's segments as one result; the engine itself leaves out silent windows.

    Log-probability: mean over tokens; no-speech: mean over time; compression ratio: the worst
    window's, since that of a long text grows with its length.
    """
    if not segments:
        return BeamResult("", 0.0, 1.0)
    tokens = [len(s.tokens) + 1 for s in segments]
    seconds = [max(s.end - s.start, 1e-3) for s in segments]
    return BeamResult(
        " ".join("".join(s.text for s in segments).split()),
        float(np.average([s.avg_logprob for s in segments], weights=tokens)),
        float(np.average([s.no_speech_prob for s in segments], weights=seconds)),
        tuple(token for s in segments for token in s.tokens),
        max(s.compression_ratio for s in segments),
    )


def _words(segments: list[Segment], offset: float) -> Iterator[Word]:
    """Words of a piece that starts `offset` seconds into its clip."""
    for segment in segments:
        for word in segment.words or ():
            yield Word(word.word, word.start + offset, word.end + offset, word.probability)


def _loops(segments: list[Segment]) -> bool:
    """Whether a text repeats itself so much that the engine ran in a loop."""
    return any(s.compression_ratio > LOOP_RATIO for s in segments)
