"""Tokens as words: where they begin, how they are written, and what is not a log-probability."""

from __future__ import annotations

import math

import pytest

from uttermill.tasks.asr import Word
from uttermill.tasks.asr._words import aligned, mean, words


def test_tokens_become_words() -> None:
    found = words("the cats, 你好", [" the", " cat", "s", ",", " 你", "好"],
                  [0.0, 0.5, 0.6, 0.7, 1.0, 1.2], [-1.0, -1.0, -3.0, 0.0, 0.0, 0.0], 0.08,
                  1.25)  # fmt: skip
    assert found is not None
    assert [(w.word, w.start, round(w.end, 3)) for w in found] == [
        ("the", 0.0, 0.08), (" cats,", 0.5, 0.78), (" 你", 1.0, 1.08), ("好", 1.2, 1.25),
    ]  # fmt: skip
    assert found[0].probability == pytest.approx(math.exp(-1))
    assert found[1].probability == pytest.approx(math.exp(-4 / 3))


def test_tokens_that_are_another_text_give_no_words() -> None:
    assert words("the dog", [" the", " cat"], [0, 1], None, 0.1, 2) is None
    assert words("the cat sat", [" the", " cat"], [0, 1], None, 0.1, 2) is None
    assert words("the", [" the"], [], None, 0.1, 2) is None
    assert words("the", [" the"], [0.0], [-1.0, -1.0], 0.1, 2) is None
    assert words("", [], [], None, 0.1, 2) == ()


def test_words_without_punctuation_are_written_as_in_the_text() -> None:
    bare = [Word(word, n, n + 0.5, None) for n, word in enumerate(("Well", "it's", "25", "here"))]
    found = aligned("“Well, it’s… 25% – here!”".replace("’", "'"), bare)
    assert found is not None
    assert [w.word for w in found] == ["“Well,", " it's…", " 25%", " – here!”"]
    assert aligned("Well it's 26 here", bare) is None
    assert aligned("Well it's, you know, 25 here", bare) is None


def test_scores_that_are_no_logarithms_of_probabilities() -> None:
    assert mean([-1.0, -0.5, 0.0]) == pytest.approx(-0.5)
    assert mean([1e-6]) == 0.0  # rounding of a softmax
    assert mean([-1.0, 7.5]) is None
    assert mean([-math.inf]) is None
    assert mean([]) is None
    assert mean(None) is None
