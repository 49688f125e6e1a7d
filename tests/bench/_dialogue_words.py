"""Word errors of turns: of words that a whole window's transcript has, put into turns by their
times, and of turns that are heard one by one. Each person's words are compared with what that
person says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rapidfuzz.distance import Levenshtein

from tasks import plugins, scoring
from tasks.asr import SpeechClip, Transcript
from tasks.base.arrays import RATE
from tasks.base.schema import WordRow
from tasks.diarizers import Turn
from tasks.recording import turns
from tasks.segmenters import Span
from tasks.settings import Plugin
from tasks.shard_store import clip_turns
from tests.bench._dialogues import Dialogue, Floats

BESIDE = RATE // 10  # samples of sound on each side of a turn that is heard alone


@dataclass(slots=True)
class Errors:
    """(errors, words) of each way."""

    counts: dict[str, list[int]] = field(
        default_factory=lambda: {"window": [0, 0], "turn by turn": [0, 0]}
    )

    def add(self, made: Dialogue, found: tuple[Turn, ...], windows: Sequence[Span]) -> None:
        for span in windows:
            samples = made.mix[span.start : span.end]
            inside = turns.within(found, span.start, span.end)
            heard = clip_turns.with_words(inside, RATE, _words(_heard([samples])[0]))
            alone = clip_turns.with_words(inside, RATE, None)
            clips = [samples[max(turn.start - BESIDE, 0) : turn.end + BESIDE] for turn, _ in alone]
            ways = {
                "window": [(t.speaker, " ".join(w["word"] for w in own)) for t, own in heard],
                "turn by turn": [
                    (turn.speaker, said.text or "")
                    for (turn, _), said in zip(alone, _heard(clips), strict=True)
                ],
            }
            for way, texts in ways.items():
                for person in range(len(made.channels)):
                    self._count(way, _said(made, span, person), texts, person)

    def _count(
        self, way: str, reference: list[str], texts: list[tuple[int, str]], person: int
    ) -> None:
        heard = _plain(" ".join(text for speaker, text in texts if speaker == person))
        self.counts[way][0] += Levenshtein.distance(reference, heard)
        self.counts[way][1] += len(reference)

    def rates(self) -> dict[str, float]:
        return {way: errors / words for way, (errors, words) in self.counts.items()}


def _said(made: Dialogue, span: Span, person: int) -> list[str]:
    low, high = span.start / RATE, span.end / RATE
    texts = [t.text for t in made.turns if t.speaker == person and low <= t.start and t.end <= high]
    return _plain(" ".join(texts))


def _plain(text: str) -> list[str]:
    return scoring.normalise(text, "en").split()


def _words(heard: Transcript) -> list[WordRow]:
    return [
        {"word": w.word, "start": w.start, "end": w.end, "probability": w.probability}
        for w in heard.words or ()
    ]


def _heard(clips: Sequence[Floats]) -> list[Transcript]:
    return list(_whisper().transcribe([SpeechClip(clip, "en") for clip in clips]))


@lru_cache(maxsize=1)
def _whisper():  # type: ignore[no-untyped-def]
    plugin = Plugin.model_validate({"use": "faster_whisper", "word_timestamps": True})
    module, settings = plugins.ASR.resolve(plugin)
    return module.Backend(settings)
