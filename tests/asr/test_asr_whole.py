"""A text that leaves speech out is gone on with; what is heard again comes in at its place."""

from __future__ import annotations

import numpy as np
import pytest

from tasks.asr import SpeechClip, Word
from tasks.asr._whisper import whole_clips
from tasks.asr._whisper.results import BeamResult, Language, Window
from tasks.asr._whisper.whole_clips import Hearing, uncovered
from tasks.base.arrays import RATE
from tests.helpers.stub_whisper import Ear, Span, heard


def clip(seconds: float, *speech: Span) -> SpeechClip:
    """A clip whose sample values are their own times, with speech where it is said to be."""
    made = SpeechClip((np.arange(round(seconds * RATE)) / RATE).astype(np.float32))
    made.__dict__["speech"] = speech
    return made


def words(*spans: Span) -> tuple[Word, ...]:
    return tuple(Word(f" w{start:g}", start, end, 0.9) for start, end in spans)


SENTENCES = ((0.5, 6.0), (7.0, 13.0), (14.0, 20.0))


def test_a_text_that_stops_half_way_is_gone_on_with() -> None:
    ear = Ear(SENTENCES, many=1)
    (found,) = heard(ear, [clip(20.5, *SENTENCES)])
    assert found.text == "w0.5 w7 w14"
    assert found.text_end == pytest.approx(20.0)
    assert ear.searches == [1, 1, 1]


def test_spans_of_several_clips_share_a_batch() -> None:
    ear = Ear(SENTENCES, many=1)
    found = heard(ear, [clip(20.5, *SENTENCES)] * 6, batch_size=4)
    assert [t.text for t in found] == ["w0.5 w7 w14"] * 6
    assert ear.searches[0] == 4
    assert max(ear.searches) <= 4, "batch_size holds for what is heard again, too"
    assert sum(ear.searches) == 18
    assert len(ear.searches) < 8  # alone they would be 2 + 12


def test_control_without_detected_speech_nothing_is_heard_again() -> None:
    ear = Ear(SENTENCES, many=1)
    (found,) = heard(ear, [clip(20.5, SENTENCES[0])])
    assert (found.text, ear.searches) == ("w0.5", [1])


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
    ear = Ear([(float(a), b) for a, b in many], many=1)
    (found,) = heard(ear, [clip(28.0, *[(float(a), b) for a, b in many])])
    assert len((found.text or "").split()) == 1 + whole_clips.ROUNDS


def test_words_without_times_are_taken_as_they_are() -> None:
    window = Window(BeamResult("one two", -0.2, 0.0, (1, 1)), Language("en", 0.9), None)
    hearing = whole_clips.begun(clip(9.0, (0.0, 9.0)), window)
    assert hearing.missed() == []
    made = hearing.transcript(with_words=True)
    assert (made.text, made.words, made.text_end) == ("one two", None, None)


def test_uncovered_speech_before_between_and_after() -> None:
    spoken: tuple[Span, ...] = ((0.0, 2.0), (3.0, 4.0), (5.0, 9.0))
    assert uncovered(words((3.0, 4.0)), spoken, 9.0) == [(0.0, 3.0), (4.8, 9.0)]
    assert uncovered(words((0.1, 1.9), (3.0, 4.0), (5.0, 8.5)), spoken, 9.0) == []
    assert uncovered(words((0.0, 6.0)), spoken, 9.0) == [(6.0, 9.0)]  # cut in running speech
