"""Hand-counted errors, and what the normaliser leaves."""

from __future__ import annotations

import pytest

from tasks.scoring import Score, normalise, score, total, words


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("“It’s — GOOD!”", "en", "it's good"),
        ("  well-known,\tisn`t\u00a0it? ", "en", "well known isn't it"),
        ("'twas the dogs' day", "en", "twas the dogs day"),
        ("¿Dónde está Muñoz?", "es", "dónde está muñoz"),
        ("Straße", "de", "strasse"),
        ("cafe\u0301", "fr", "café"),
        ("IŞIK İyi", "tr", "ışık iyi"),
        ("你 好，world １２ 世界。", "zh", "你好world 12世界"),
        ("コーヒー、 を", "ja", "コーヒーを"),
        ("한국어 문장", "ko", "한국어 문장"),
        ("… !", "en", ""),
        ("", "en", ""),
    ],
)
def test_normalise(text: str, language: str, expected: str) -> None:
    assert normalise(text, language) == expected
    assert normalise(expected, language) == expected


def test_words_of_mixed_scripts() -> None:
    assert words("你好world12世界") == ["你", "好", "world12", "世", "界"]
    assert words("it's good") == ["it's", "good"]


@pytest.mark.parametrize(
    ("reference", "hypothesis", "language", "expected"),
    [
        ("the cat sat", "The cat sat.", "en", Score(3, 0, 11, 0)),
        ("the cat sat", "the bat sat", "en", Score(3, 1, 11, 1)),  # one substitution
        ("the cat sat", "the sat", "en", Score(3, 1, 11, 4)),  # deletion of "cat "
        ("the cat sat", "the cat sat down", "en", Score(3, 1, 11, 5)),  # insertion of " down"
        ("the cat sat", "", "en", Score(3, 3, 11, 11)),
        ("one", "one two three", "en", Score(1, 2, 3, 10)),  # more errors than words
        ("今天天气", "今天 天汽。", "zh", Score(4, 1, 4, 1)),
        ("", "uh huh", "en", Score(0, 2, 0, 6)),
        ("", "", "en", Score(0, 0, 0, 0)),
    ],
)
def test_score(reference: str, hypothesis: str, language: str, expected: Score) -> None:
    assert score(reference, hypothesis, language) == expected


def test_rates() -> None:
    assert score("one", "one two three", "en").wer == 2.0
    assert score("今天天气", "今天天汽", "zh").cer == 0.25
    assert Score(0, 2, 0, 6).wer is None
    assert Score(0, 2, 0, 6).cer is None


def test_total_is_of_the_set_not_a_mean_of_clips() -> None:
    both = total([Score(2, 2, 8, 8), Score(38, 0, 200, 0)])
    assert both == Score(40, 2, 208, 8)
    assert both.wer == 0.05
    assert total([]) == Score(0, 0, 0, 0)
