"""Figures and spelled letters: equal however they are written and said, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.text.pairs import PAIRS
from uttermill.tasks.scoring import score
from uttermill.tasks.scoring.readings import agreed

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
ENGLISH = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


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


@pytest.mark.parametrize(("language", "written", "said"), _pairs(PAIRS["forms"]))
def test_written_and_spoken_forms_are_one(language: str, written: str, said: str) -> None:
    for pair in ((written, said), (said, written)):
        reference, hypothesis = agreed(*pair, language)
        assert reference == hypothesis


@pytest.mark.parametrize(("language", "written", "said"), _pairs(PAIRS["apart"]))
def test_other_quantities_stay_apart(language: str, written: str, said: str) -> None:
    for pair in ((written, said), (said, written)):
        reference, hypothesis = agreed(*pair, language)
        assert reference != hypothesis
