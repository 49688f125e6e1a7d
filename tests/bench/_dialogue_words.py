"""Word errors of turns: with the words of a whole window's transcript, assigned to turns by their
times, and with each turn transcribed by itself. Each person's words are compared with what that
person says. Also counts the backchannels with the right text, for four ways to transcribe them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rapidfuzz.distance import Levenshtein

from tests.bench._dialogues import Dialogue, Floats
from uttermill.tasks import plugins, scoring
from uttermill.tasks.asr import SpeechClip, Transcript
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.base.schema import WordRow
from uttermill.tasks.diarizers import Turn
from uttermill.tasks.recording import turns
from uttermill.tasks.recording.conversation import SpokenTurn
from uttermill.tasks.segmenters import Span
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import clip_turns

WAYS = ("window", "alone", "own channel alone", "own channel's window")
BESIDE = RATE // 10  # samples added on each side of a turn that is transcribed alone


@dataclass(slots=True)
class Errors:
    """(errors, words) for each way to transcribe."""

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


@dataclass(slots=True)
class Assents:
    """The number of true backchannels, and for each of WAYS how many get a text, and the right
    text."""

    count: int = 0
    some: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))
    right: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAYS, 0))

    def add(self, made: Dialogue, found: tuple[Turn, ...], windows: Sequence[Span]) -> None:
        for span in windows:
            inside = turns.within(found, span.start, span.end)
            mixed = made.mix[span.start : span.end]
            sides = [channel[span.start : span.end] for channel in made.channels]
            whole = _words(_heard([mixed])[0])
            by_side = [_words(heard) for heard in _heard(sides)]
            for turn in made.turns:
                start, end = (round(t * RATE) - span.start for t in (turn.start, turn.end))
                if not turn.backchannel or start < 0 or end > len(mixed):
                    continue
                low, high = max(start - BESIDE, 0), end + BESIDE
                alone = _heard([mixed[low:high], sides[turn.speaker][low:high]])
                self._count(
                    turn.text,
                    _of_turn(clip_turns.with_words(inside, RATE, whole), turn.speaker, start, end),
                    alone[0].text or "",
                    alone[1].text or "",
                    _between(by_side[turn.speaker], low, high),
                )

    def _count(self, said: str, *texts: str) -> None:
        self.count += 1
        for way, text in zip(WAYS, texts, strict=True):
            self.some[way] += bool(_plain(text))
            self.right[way] += _plain(text) == _plain(said)

    def counts(self) -> dict[str, object]:
        return {"count": self.count, "some text": self.some, "right text": self.right}


def _of_turn(
    heard: Sequence[tuple[SpokenTurn, list[WordRow]]], speaker: int, start: int, end: int
) -> str:
    """The words of the backchannel that overlaps the turn."""
    for turn, words in heard:
        if turn.backchannel and turn.speaker == speaker and turn.start < end and start < turn.end:
            return " ".join(word["word"] for word in words)
    return ""


def _between(words: Sequence[WordRow], low: int, high: int) -> str:
    middles = ((word["word"], (word["start"] + word["end"]) / 2 * RATE) for word in words)
    return " ".join(word for word, middle in middles if low <= middle < high)


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
