"""A recogniser without a model: words chosen by a hash of the clip's samples.

For tests, dry runs and the README. Equal samples give equal text in any batch; one different bit
gives another text. Its rows pass every default rule on text.
"""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field

from ..settings import StageSettings, base
from . import Abilities, SpeechClip, Transcript, Word

VERSION = 2
LISTENS = False  # its texts cast no doubt on a reference
WORDS_PER_SECOND = 2.5
_WORDS = """
amber bridge candle distant evening forest garden harbour island journey kettle lantern
meadow narrow orchard people quiet river silver thunder under village winter yellow
"""
WORDS = _WORDS.split()


class Settings(StageSettings):
    language: str | None = Field(
        None,
        description="Language of clips whose source forces none: ISO 639-1.",
        json_schema_extra=base.WORDS,
    )
    seed: int = Field(0, description="Another seed gives other words, as another model would.")


def weights(settings: Settings) -> str:
    return "fake"


def abilities(settings: Settings) -> Abilities:
    return Abilities()


class Backend:
    RATE = 16000

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        for clip in clips:
            text = heard(clip, self._settings.seed)
            yield Transcript(
                text=text,
                language=clip.language or self._settings.language or "en",
                language_probability=1.0,
                avg_logprob=-0.1,
                no_speech_probability=0.0,
                # So few different words compress well: half a minute of them looks like a loop.
                compression_ratio=1.0,
            )

    def align(self, clips: Sequence[SpeechClip], texts: Sequence[str]) -> Iterator[Transcript]:
        """The words of each text, all equally long."""
        for clip, text in zip(clips, texts, strict=True):
            words = text.split()
            edges = np.linspace(0, len(clip.samples) / self.RATE, len(words) + 1).tolist()
            spans = zip(words, edges[:-1], edges[1:], strict=True)
            timed = tuple(Word(f" {word}", start, end, 1.0) for word, start, end in spans)
            yield Transcript(text, clip.language, avg_logprob=-0.1, words=timed)


def heard(clip: SpeechClip, seed: int = 0) -> str:
    """Two and a half words a second, at least one, chosen by a hash of the float32 samples."""
    data = np.ascontiguousarray(clip.samples, "<f4").tobytes()
    digest = hashlib.sha256(seed.to_bytes(8, "little", signed=True) + data).digest()
    count = max(1, round(len(clip.samples) / Backend.RATE * WORDS_PER_SECOND))
    picks = np.random.Generator(np.random.PCG64(int.from_bytes(digest[:8], "little")))
    chosen = picks.integers(0, len(WORDS), count)
    return " ".join(WORDS[i] for i in chosen)
