"""A text that leaves speech out is gone on with; what is heard again comes in at its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tasks.asr import SpeechClip, Transcript, Word, _whisper_whole, faster_whisper
from tasks.asr._whisper_results import BeamResult, Language, Window
from tasks.asr._whisper_whole import Hearing, uncovered
from tasks.speech_rate import RATE
from tests.stub_whisper import StubWhisper

Span = tuple[float, float]


def clip(seconds: float, *speech: Span) -> SpeechClip:
    """A clip whose sample values are their own times, with speech where it is said to be."""
    made = SpeechClip((np.arange(round(seconds * RATE)) / RATE).astype(np.float32))
    made.__dict__["speech"] = speech
    return made


def words(*spans: Span) -> tuple[Word, ...]:
    return tuple(Word(f" w{start:g}", start, end, 0.9) for start, end in spans)


class Deaf:
    """Windows that hear each `sentences` span as one word, and stop after the first `many`."""

    def __init__(self, sentences: Sequence[Span], many: int = 1, logprob: float = -0.2) -> None:
        self.sentences, self.many, self.logprob = sentences, many, logprob
        self.batches: list[int] = []

    def hear(
        self, asked: Any, detect: bool = True, timed: bool = False, before: Any = ()
    ) -> list[Window]:
        self.batches.append(len(asked))
        return [self._one(each[0]) for each in asked]

    def length(self, piece: SpeechClip) -> int:
        return 30

    def _one(self, piece: SpeechClip) -> Window:
        first, last = float(piece.samples[0]), float(piece.samples[-1])
        inside = [s for s in self.sentences if first <= s[0] and s[1] <= last + 0.01][: self.many]
        said = tuple(Word(f" w{a:g}", a - first, b - first, 0.9) for a, b in inside)
        text = "".join(word.word for word in said).strip()
        return Window(
            BeamResult(text, self.logprob, 0.0, (1,) * len(said)), Language("en", 0.9), said
        )


def heard(ear: Deaf, *clips: SpeechClip, batch_size: int = 4) -> list[Transcript]:
    settings = faster_whisper.Settings(batch_size=batch_size)
    backend = faster_whisper.Backend(settings, StubWhisper())
    backend._windows = ear  # type: ignore[assignment]
    return list(backend.transcribe(clips))


SENTENCES = ((0.5, 6.0), (7.0, 13.0), (14.0, 20.0))


def test_a_text_that_stops_half_way_is_gone_on_with() -> None:
    ear = Deaf(SENTENCES)
    (found,) = heard(ear, clip(20.5, *SENTENCES))
    assert found.text == "w0.5 w7 w14"
    assert found.text_end == pytest.approx(20.0)
    assert ear.batches == [1, 1, 1]


def test_spans_of_several_clips_share_a_batch() -> None:
    ear = Deaf(SENTENCES)
    found = heard(ear, *[clip(20.5, *SENTENCES)] * 6)
    assert [t.text for t in found] == ["w0.5 w7 w14"] * 6
    assert ear.batches[0] == 4
    assert max(ear.batches) <= 4, "batch_size holds for what is heard again, too"
    assert sum(ear.batches) == 18
    assert len(ear.batches) < 8  # alone they would be 2 + 12


def test_control_without_detected_speech_nothing_is_heard_again() -> None:
    ear = Deaf(SENTENCES)
    (found,) = heard(ear, clip(20.5, SENTENCES[0]))
    assert (found.text, ear.batches) == ("w0.5", [1])


def test_what_was_passed_over_comes_in_at_its_place() -> None:
    hearing = Hearing(clip(20.5, *SENTENCES), Language("en", 0.9))
    ends = words(SENTENCES[0], SENTENCES[2])
    hearing.parts.append((BeamResult("w0.5 w14", -0.2, 0.0, (1, 1)), ends))
    (span,) = hearing.missed()
    assert span == pytest.approx((6.8, 14.0))
    hearing.add(span, Window(BeamResult("x", -0.4, 0.0, (1,)), Language("en"), words((0.2, 6.2))))
    made = hearing.transcript(with_words=True)
    assert made.text == "w0.5 w0.2 w14"
    assert [w.start for w in made.words or ()] == pytest.approx([0.5, 7.0, 14.0])
    assert made.avg_logprob == pytest.approx((3 * -0.2 + 2 * -0.4) / 5)
    assert not hearing.missed()


@pytest.mark.parametrize(
    "window",
    [
        Window(BeamResult("", -0.2, 0.0), Language("en"), ()),
        Window(BeamResult("Thank you.", -1.2, 0.0, (1, 1)), Language("en"), words((0.1, 0.5))),
        Window(BeamResult("Thank you.", -1.2, 0.9, (1, 1)), Language("en"), words((0.1, 0.5))),
        Window(BeamResult("la " * 60, -0.2, 0.0, (1,) * 60), Language("en"), words((0.1, 0.5))),
        Window(BeamResult("one", -0.2, 0.0, (1,)), Language("en"), None),
    ],
)
def test_what_cannot_be_believed_is_left_out_and_not_asked_for_again(window: Window) -> None:
    hearing = Hearing(clip(20.5, *SENTENCES[:2]), Language("en", 0.9))
    hearing.parts.append((BeamResult("w0.5", -0.2, 0.0, (1,)), words(SENTENCES[0])))
    (span,) = hearing.missed()
    hearing.add(span, window)
    assert hearing.missed() == []
    assert hearing.transcript(False).text == "w0.5"
    assert hearing.transcript(False).text_end == 6.0  # so that a verdict sees what is missing


def test_a_clip_that_goes_on_for_ever_ends() -> None:
    many = [(at, at + 1.0) for at in range(0, 28, 2)]
    ear = Deaf([(float(a), b) for a, b in many])
    (found,) = heard(ear, clip(28.0, *[(float(a), b) for a, b in many]))
    assert len((found.text or "").split()) == 1 + _whisper_whole.ROUNDS


def test_words_without_times_are_taken_as_they_are() -> None:
    window = Window(BeamResult("one two", -0.2, 0.0, (1, 1)), Language("en", 0.9), None)
    hearing = _whisper_whole.begun(clip(9.0, (0.0, 9.0)), window)
    assert hearing.missed() == []
    made = hearing.transcript(with_words=True)
    assert (made.text, made.words, made.text_end) == ("one two", None, None)


def test_uncovered_speech_before_between_and_after() -> None:
    spoken: tuple[Span, ...] = ((0.0, 2.0), (3.0, 4.0), (5.0, 9.0))
    assert uncovered(words((3.0, 4.0)), spoken, 9.0) == [(0.0, 3.0), (4.8, 9.0)]
    assert uncovered(words((0.1, 1.9), (3.0, 4.0), (5.0, 8.5)), spoken, 9.0) == []
    assert uncovered(words((0.0, 6.0)), spoken, 9.0) == [(6.0, 9.0)]  # cut in running speech
