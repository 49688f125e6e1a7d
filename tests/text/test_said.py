"""Figures and spelled letters count as what is said, wherever words and characters are counted."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.text.pairs import PAIRS
from tests.text.test_text_measures import heard, value
from uttermill.tasks import plugins
from uttermill.tasks.plugins.contracts.text import words
from uttermill.tasks.plugins.rules import judge
from uttermill.tasks.scoring import Score, agreement, normalise, said, score, spoken
from uttermill.tasks.scoring.readings import agreed
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store.text_values import TextValues
from uttermill.tasks.shard_store.utterance import UNHEARD, Utterance
from uttermill.tasks.text import char_duration


@pytest.mark.parametrize(
    ("text", "language", "counted"),
    [
        ("call 66218688", "en", "call six six two one eight six eight eight"),
        ("66218688", "zh", "六六二一八六八八"),
        ("66218688", "ko", "육 육 이 일 팔 육 팔 팔"),
        ("25 euros", "fr", "vingt cinq euros"),
        ("1 250 personnes", "fr", "mille deux cent cinquante personnes"),
        ("12,300 people", "en", "twelve thousand three hundred people"),
        ("um 14:30 Uhr", "de", "um vierzehn dreißig uhr"),
        ("at 14:00", "en", "at fourteen"),
        ("14:05", "zh", "十四点五分"),
        ("03/05/2016", "es", "dos mil dieciséis cinco tres"),
        ("2016年5月3日", "zh", "二〇一六年五月三日"),
        ("$3.50, then 4,20 €", "en", "three dollars fifty then four euros twenty"),
        ("20%", "zh", "百分之二十"),
        ("138-0013-8000", "en", "one three eight zero zero one three eight zero zero zero"),
        ("10-20", "en", "ten twenty"),
        ("the 21st mp3", "en", "the twenty first mp three"),
        ("0711", "de", "null sieben eins eins"),
        ("Dial MISDN by HTML, says NATO.", "en", "dial m i s d n by h t m l says nato"),
        ("用MISDN登录", "zh", "用 m i s d n 登录"),
        ("WE SAID NO", "en", "we said no"),  # capitals that say nothing
        ("25", "xx", "twenty five"),  # of a language that nobody knows
        ("第25课", "en", "第二十五课"),  # in another script than its language's
        ("call 555 013 8247", "en", "call five five five zero one three eight two four seven"),
        ("+1 (555) 013-82", "en", "plus one five five five zero one three eight two"),
        ("612 34 56 78", "es", "seis uno dos tres cuatro cinco seis siete ocho"),
        ("138 0013 8247", "zh", "一三八〇〇一三八二四七"),
        ("1 250 000", "fr", "un million deux cent cinquante mille"),
        ("1914-1918", "de", "neunzehnhundertvierzehn neunzehnhundertachtzehn"),
        ("the 1990s", "en", "the nineteen ninety"),
        ("21-й этаж", "ru", "двадцать один этаж"),
        ("1984'te", "tr", "bin dokuz yüz seksen dört"),
        ("la 3ª vez", "es", "la tres vez"),
        ("3,14", "ru", "три целых четырнадцать"),
        ("20 %", "ru", "двадцать процентов"),
        ("٢٥٪", "ar", "خمسة وعشرون بالمائة"),
        ("١٢٬٥٠٠", "ar", "إثنا عشر ألف وخمسة مائة"),
        ("12,50,000", "hi", "बारह लाख पचास हज़ार"),
        ("१,००,०००", "hi", "एक लाख"),
        ("500 ₽", "ru", "пятьсот рублей"),
        ("¥100", "zh", "元一百"),
        ("20℃", "zh", "二十摄氏度"),
        ("3/4", "zh", "四分之三"),
        ("10~20", "ko", "십 에서 이십"),
        ("pages 10–20", "en", "pages ten to twenty"),
        ("72°F", "en", "seventy two degrees fahrenheit"),
        ("5½ cups", "en", "five one two cups"),
        ("Henry VIII ate.", "en", "henry eight ate"),
        ("the CPUs and a CV", "en", "the c p us and a c v"),
        ("no figures at all", "en", "no figures at all"),
    ],
)
def test_what_is_counted(text: str, language: str, counted: str) -> None:
    assert words(said(text, language)) == words(counted)


@settings(max_examples=150, deadline=None)
@given(
    st.text(st.sampled_from("0123456789.,:/-–%$€ aBC年点一٣²\u0301")) | st.text(),
    st.sampled_from(["en", "de", "fr", "zh", "ja", "ko", "ru", "th", "", None, "?"]),
)
def test_any_text_can_be_said(text: str, language: str | None) -> None:
    assert len(words(said(text, language))) >= bool(words(text))


@pytest.mark.parametrize(
    "text", ["1" * 50_000, "1-" * 25_000, "1." * 25_000, "A" * 50_000, "1 23 " * 9_000]
)
def test_hostile_texts_take_bounded_time(text: str) -> None:
    began = time.process_time()
    said(text, "en")
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("मैं कल बाज़ार जाऊँगा", 4),
        ("আমি কাল যাব", 3),
        ("நான் நாளை செல்வேன்", 3),
        ("ذَهَبَ الوَلَدُ", 2),
        ("שָׁלוֹם", 1),
    ],
)
def test_marks_part_no_word(text: str, count: int) -> None:
    assert len(words(text)) == len(text.split()) == count
    assert "".join(words(text)) == text.replace(" ", "")


def judged(text: str, language: str, seconds: float) -> str | None:
    """The reason for which `completeness` drops a text over so much speech."""
    row: Any = dict.fromkeys(
        ("word_errors", "words", "char_errors", "chars", "normalised", "reference_normalised",
         "language_probability", "avg_logprob", "no_speech_probability", "compression_ratio")
    )  # fmt: skip
    row |= {"text": text, "language": language, "speech_seconds": seconds}
    recording: Any = {"language": None, "text": None}
    clip = Utterance("", recording, 0, 16000, 16000, None, {}, "", UNHEARD, transcript=row)
    values = TextValues(Job(Path("out"))).values(clip)
    module, options = plugins.TEXT.resolve(Plugin(use="completeness"))
    rejection = judge(values, module.verdict(options))
    return rejection.reason if rejection else None


@pytest.mark.parametrize(("text", "language"), [("66218688", "zh"), ("66218688", "en")])
def test_a_telephone_number_is_no_incomplete_text(text: str, language: str) -> None:
    assert judged(text, language, 3.3) is None
    assert judged("五" if language == "zh" else "five", language, 3.3) == "text_incomplete"


def test_a_rate_is_that_of_the_words() -> None:
    assert value("char_rate", heard("66218688", 4.0, language="zh"), "char_rate_syllabic") == 2.0
    names = len("sixsixtwooneeightsixeighteight")
    assert value("char_rate", heard("66218688", 4.0, language="en"), "char_rate_alphabetic") == (
        names / 4.0
    )
    year = heard("1984", 2.0, language="en")
    assert value("char_rate", year, "char_rate_alphabetic") == len("nineteeneightyfour") / 2.0


def test_characters_are_those_of_the_words() -> None:
    assert char_duration.characters("25", "de") == len("fünfundzwanzig")
    assert char_duration.characters("25 人", "zh") == len("二十五人")


@pytest.mark.parametrize(
    ("reference", "hypothesis", "language", "expected"),
    [
        # One wrong figure of eight is one error of eight, not of one.
        ("六九二幺八六八八", "69218698", "zh", Score(8, 1, 8, 1)),
        ("dial six six two one eight", "dial 66219", "en", Score(6, 1, 26, 4)),
        ("it was nineteen eighty four", "it was 1984", "en", Score(5, 0, 27, 0)),
        ("一共三百二十个", "一共320个", "zh", Score(7, 0, 7, 0)),
    ],
)
def test_scoring_counts_what_is_said(
    reference: str, hypothesis: str, language: str, expected: Score
) -> None:
    assert score(reference, hypothesis, language) == expected


def test_what_differs_stays_different() -> None:
    pairs = [("66218688", "66218689"), ("14:30", "14:03"), ("$3.50", "$3.05"), ("1st", "1")]
    for one, other in pairs:
        assert spoken(normalise(one, "en"), "en") != spoken(normalise(other, "en"), "en"), one


def test_recognisers_that_differ_in_a_figure_agree_in_the_others() -> None:
    ((wer, cer),) = agreement.rates(["69218688", "69218689"], "zh")
    assert wer == cer == 1 / 8


def test_a_reference_in_figures_is_long_enough_to_be_judged() -> None:
    what = replace(
        heard("66218688", language="zh"), reference="66218688", text_source="reference", cer=1.0
    )
    assert value("error_rate", what, "error_rate_unspaced") == 1.0


# Figures and spelled letters: equal however they are written and said, and nothing else is.


SAME = PAIRS["readings"]


@pytest.mark.parametrize(("said", "written", "language"), SAME)
def test_one_thing_said_and_written(said: str, written: str, language: str) -> None:
    for pair in ((said, written), (written, said)):
        found = score(*pair, language)
        assert (found.word_errors, found.char_errors) == (0, 0)
        assert found.words > 0


@pytest.mark.parametrize(
    ("one", "other", "language"),
    [
        ("三百二十", "3，20", "zh"),
        ("三百二十", "3；20", "zh"),
        ("二十五二十六", "25,62", "zh"),
        ("三九九六零", "3,9,9,6,1", "zh"),
        ("drei fünf", "3,5", "de"),  # "drei Komma fünf"
        ("eins zwei drei", "1,2,4", "de"),
        ("three hundred and twenty", "3, 20", "en"),
        ("it is ab", "it is a b", "en"),
        ("he is a man", "he isa man", "en"),
        ("I a", "ia", "en"),
        ("ABC", "A B D", "en"),
        ("see you", "C D", "en"),
        ("give it to us", "give it to you s", "en"),
    ],
)
def test_what_differs_has_errors(one: str, other: str, language: str) -> None:
    assert score(one, other, language).char_errors > 0
    assert score(other, one, language).char_errors > 0


FIGURES = st.lists(st.integers(0, 9), min_size=3, max_size=12)
MARKS = st.sampled_from([",", ", ", " ", "、", "，", "-", "–"])
HAN = "零一二三四五六七八九"


@settings(max_examples=150, deadline=None)
@given(FIGURES, MARKS)
def test_any_figures_with_any_marks(figures: list[int], mark: str) -> None:
    written = mark.join(map(str, figures))
    assert score("".join(HAN[f] for f in figures), written, "zh").char_errors == 0
    other = [*figures[:-1], (figures[-1] + 1) % 10]
    assert score("".join(HAN[f] for f in other), written, "zh").char_errors > 0


@settings(max_examples=200, deadline=None)
@given(
    st.text("ab AB.,-1290三十零") | st.text(max_size=8),
    st.text("ab AB.,-1290三十零") | st.text(max_size=8),
    st.sampled_from(["en", "zh", "de", "ko", "ja", ""]),
)
def test_the_order_of_the_texts_is_nothing(one: str, other: str, language: str) -> None:
    said, heard = agreed(one, other, language)
    again, once = agreed(other, one, language)
    assert (said == heard) == (again == once)
    if one == other:
        assert said == heard


# Written and spoken forms of units, clock times, dates, ordinals, telephone numbers, fractions and
# sums are one, and other quantities stay apart.


def _pairs(table: dict[str, str]) -> list[tuple[str, ...]]:
    return [
        (language, *line.strip().split(" | "))
        for language, lines in table.items()
        for line in lines.strip().splitlines()
    ]


@pytest.mark.parametrize(
    ("language", "written", "said"), [*_pairs(PAIRS["forms"]), *_pairs(PAIRS["apart"])]
)
def test_forms_of_one_quantity_alone_are_one(language: str, written: str, said: str) -> None:
    one = (language, written, said) in _pairs(PAIRS["forms"])
    for pair in ((written, said), (said, written)):
        reference, hypothesis = agreed(*pair, language)
        assert (reference == hypothesis) == one
