"""A text that leaves speech out is gone on with; what is heard again comes in at its place."""

import numpy as np
import pytest

from tests.helpers.stub_whisper import Ear, Span, heard
from uttermill.tasks.asr import SpeechClip, Word
from uttermill.tasks.asr._whisper import whole_clips
from uttermill.tasks.asr._whisper.results import BeamResult, Language, Window
from uttermill.tasks.asr._whisper.whole_clips import Hearing, Hole, holes
from uttermill.tasks.base.arrays import RATE
from uttermill.tasks.text import completeness


def clip(seconds: float, *speech: Span) -> SpeechClip:
    """A clip whose sample values are their own times, with speech where it is said to be."""
    made = SpeechClip((np.arange(round(seconds * RATE)) / RATE).astype(np.float32))
    made.__dict__["speech"] = speech
    return made


def words(*spans: Span) -> tuple[Word, ...]:
    return tuple(Word(f" w{start:g}", start, end, 0.9) for start, end in spans)


ENGLISH = Language("en", 0.9)
SENTENCES = ((0.5, 6.0), (7.0, 13.0), (14.0, 20.0))
#: Speech that one word of a sentence can be.
SPEECH = ((0.5, 1.5), (7.0, 8.0), (14.0, 15.0))


def test_less_speech_is_a_hole_after_the_last_word_than_between_words() -> None:
    after = holes(words((0.0, 1.0), (1.0, 2.0)), [(0.0, 2.0), (2.2, 2.9)], 3.0)
    assert [(hole.start, hole.end) for hole in after] == [(2.0, 3.0)]
    assert after[0].speech == pytest.approx(0.7)
    assert holes(words((0.0, 1.0), (1.7, 2.7)), [(0.0, 2.7)], 3.0) == []
    assert holes(words((0.0, 1.0), (1.0, 2.0)), [(0.0, 2.5)], 3.0) == []  # its speech ends later


def test_a_text_that_stops_half_way_is_gone_on_with() -> None:
    ear = Ear(SENTENCES, many=1)
    (found,) = heard(ear, [clip(20.5, *SPEECH)])
    assert found.text == "w0.5 w7 w14"
    assert found.text_end == pytest.approx(20.0)
    assert ear.searches == [1, 1, 1]


def test_spans_of_several_clips_share_a_batch() -> None:
    ear = Ear(SENTENCES, many=1)
    found = heard(ear, [clip(20.5, *SPEECH)] * 6, batch_size=4)
    assert [t.text for t in found] == ["w0.5 w7 w14"] * 6
    assert ear.searches[0] == 4
    assert max(ear.searches) <= 4, "batch_size holds for what is heard again, too"
    assert sum(ear.searches) == 18
    assert len(ear.searches) < 8  # alone they would be 2 + 12


def test_what_was_passed_over_comes_in_at_its_place() -> None:
    hearing = Hearing(clip(20.5, *SPEECH), Language("en", 0.9))
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
    hearing = Hearing(clip(20.5, *SPEECH[:2]), Language("en", 0.9))
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


def test_holes_before_between_and_after() -> None:
    spoken: tuple[Span, ...] = ((0.0, 2.0), (3.0, 4.0), (5.0, 9.0))
    assert holes(words((3.0, 4.0)), spoken, 9.0) == [Hole(0.0, 3.0, 2.0), Hole(4.8, 9.0, 4.0)]
    assert holes(words((0.1, 1.9), (3.0, 4.0), (5.0, 6.8), (6.8, 8.5)), spoken, 9.0) == []
    assert holes(words((5.0, 6.0)), spoken, 9.0)[-1].span == (6.0, 9.0)  # cut in running speech


def named(text: str, start: float, end: float) -> Word:
    return Word(f" {text}", start, end, 0.9)


@pytest.mark.parametrize(
    ("said", "spans"),
    [
        ([named("der", 0.0, 1.0), named("und", 1.0, 7.0), named("so", 7.0, 8.0)], [(1.0, 7.0)]),
        # Two in a row, and one beside a gap, are one hole; a sound word parts two.
        ([named("der", 0.0, 3.0), named("und", 3.0, 6.8), named("so", 6.8, 8.0)], [(0.0, 6.8)]),
        ([named("der", 0.0, 3.0), named("und", 7.0, 8.0)], [(0.0, 7.0)]),
        (
            [named("a", 0.0, 3.0), named("und", 3.0, 4.0), named("c", 4.0, 8.0)],
            [(0.0, 3.0), (4.0, 8.0)],
        ),
        # Long words, figures and letters that are said one by one take their time.
        ([named("Wissenschaftlerinnen", 0.0, 3.0), named("62", 3.0, 5.0)], [(5.0, 8.0)]),
        ([named("13475274309", 0.0, 8.0)], []),
        ([named("MISDN", 0.0, 4.5), named("Kasten", 4.5, 6.5), named("Kasten", 6.5, 8.0)], []),
    ],
)
def test_a_word_that_is_stretched_over_speech_is_a_hole(
    said: list[Word], spans: list[Span]
) -> None:
    assert [hole.span for hole in holes(said, [(0.0, 8.0)], 8.0)] == spans
    assert holes(said, [(0.0, 0.5), (7.5, 8.0)], 8.0) == []  # over silence it is none


SAID = ("Wir", "haben", "den", "Kasten", "dort", "nicht", "geöffnet")


def at_pace(slower: float, stretched: dict[str, float]) -> tuple[list[Word], float]:
    """Words of `SAID` in a row that take their usual time, `slower` times as long, but for some
    that take as many seconds as is said; and when the last ends."""
    said, end = list[Word](), 0.0
    for text in SAID:
        start = end
        end += stretched.get(text, slower * (0.2 + 0.03 * len(text)))
        said.append(named(text, start, end))
    return said, end


@pytest.mark.parametrize(
    ("slower", "stretched", "holed"),
    [
        (1.0, {}, False),
        (1.0, {"Kasten": 1.9}, True),  # less than a slow speaker takes, more than this one does
        (1.0, {"Kasten": 1.3, "dort": 1.3}, True),
        (1.0, {"Kasten": 1.1}, False),  # said with emphasis
        (2.4, {"Kasten": 1.9}, False),
        (2.4, {"Kasten": 3.5}, True),
        (9.0, {}, True),  # no one speaks so slowly
    ],
)
def test_what_a_word_can_take_follows_from_the_pace_of_its_clip(
    slower: float, stretched: dict[str, float], holed: bool
) -> None:
    said, end = at_pace(slower, stretched)
    assert bool(holes(said, [(0.0, end)], end)) == holed


def test_a_sentence_under_a_stretched_word_is_more_than_completeness_allows() -> None:
    said, end = at_pace(1.0, {"Kasten": 0.38 + 1.3})
    hearing = Hearing(clip(end, (0.0, end)), Language("de", 0.9))
    hearing.parts.append((BeamResult(" ".join(SAID), -0.2, 0.0, (1,) * len(said)), tuple(said)))
    (span,) = hearing.missed()
    hearing.add(span, Window(BeamResult("", -0.2, 0.0), Language("de"), ()))
    start, missing = hearing.transcript(with_words=False).hole or (0.0, 0.0)
    assert start == span[0]
    assert missing > (completeness.Settings().max_speech_without_words or 0.0)


def stretched() -> Hearing:
    """A text that skips the sentence from 7 to 13 s: its last word before is stretched over it."""
    hearing = Hearing(clip(20.0, (0.0, 6.0), (7.0, 13.0), (14.0, 20.0)), Language("en", 0.9))
    before = [named(f"a{n}", n, n + 1.0) for n in range(5)]
    after = [named(f"c{n}", n, n + 1.0) for n in range(14, 20)]
    said = (*before, named("end", 5.0, 14.0), *after)
    text = "".join(word.word for word in said).strip()
    hearing.parts.append((BeamResult(text, -0.2, 0.0, (1,) * len(said)), said))
    return hearing


def test_a_sentence_under_a_stretched_word_is_heard_again_in_its_place() -> None:
    hearing = stretched()
    (span,) = hearing.missed()
    assert span == (5.0, 14.0)
    again = [named("end", 0.0, 1.0), *(named(f"b{n}", n - 5.0, n - 4.0) for n in range(7, 13))]
    window = Window(BeamResult("…", -0.3, 0.0, (1,) * 7), Language("en"), tuple(again))
    hearing.add(span, window)
    made = hearing.transcript(with_words=True)
    assert made.text == "a0 a1 a2 a3 a4 end b7 b8 b9 b10 b11 b12 c14 c15 c16 c17 c18 c19"
    assert made.hole == (0.0, 0.0)
    assert not hearing.missed()


def misplaced() -> Hearing:
    """A text that skips the sentence from 5.5 to 9 s: the first words of the next lie there."""
    hearing = Hearing(clip(18.5, (0.5, 3.0), (5.5, 9.0), (10.7, 12.0), (12.5, 18.0)), ENGLISH)
    said = (
        *(named(f"a{n}", n, n + 0.9) for n in range(1, 3)),
        named("I", 6.1, 6.7),
        named("don't", 6.7, 11.0),
        named("think", 11.0, 12.0),
        *(named(f"c{n}", n, n + 1.0) for n in range(13, 18)),
    )
    text = "".join(word.word for word in said).strip()
    hearing.parts.append((BeamResult(text, -0.2, 0.0, (1,) * len(said)), said))
    return hearing


def test_a_hole_within_speech_is_heard_from_pause_to_pause() -> None:
    hearing = misplaced()
    (span,) = hearing.missed()
    assert span == pytest.approx((4.25, 12.25))
    again = [named(f"b{n}", n - 4.25, n - 3.35) for n in range(6, 9)]
    again += [named("I", 6.5, 6.7), named("don't", 6.7, 6.9), named("think", 6.9, 7.7)]
    window = Window(BeamResult("…", -0.3, 0.0, (1,) * 6), ENGLISH, tuple(again))
    hearing.add(span, window)
    assert hearing.missed() == []
    assert hearing.transcript(False).text == "a1 a2 b6 b7 b8 I don't think c13 c14 c15 c16 c17"


def test_what_brings_nothing_from_pause_to_pause_is_heard_alone_and_once() -> None:
    hearing, nothing = misplaced(), Window(BeamResult("", -0.2, 0.0), ENGLISH, ())
    hearing.add(hearing.missed()[0], nothing)
    assert hearing.missed() == [(6.7, 11.0)]
    hearing.add((6.7, 11.0), nothing)
    assert hearing.missed() == []
    assert (hearing.transcript(False).hole or (0.0, 0.0))[0] == 6.7


@pytest.mark.parametrize(
    "window",
    [
        Window(BeamResult("end", -0.2, 0.0, (1,)), Language("en"), (named("end", 0.0, 9.0),)),
        Window(BeamResult("", -0.2, 0.0), Language("en"), ()),
        Window(BeamResult("a b", -1.4, 0.0, (1, 1)), Language("en"), words((0, 1), (1, 2))),
    ],
)
def test_what_stays_a_hole_is_told_with_its_place(window: Window) -> None:
    hearing = stretched()
    hearing.add((5.0, 14.0), window)
    assert hearing.missed() == []
    made = hearing.transcript(with_words=False)
    assert (made.text or "").startswith("a0 a1 a2 a3 a4 end c14")
    start, missing = made.hole or (0.0, 0.0)
    assert start == 5.0
    assert missing == pytest.approx(7.0, abs=0.8)  # the word itself takes some of it
