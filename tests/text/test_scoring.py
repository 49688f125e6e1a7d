"""Hand-counted errors, what the plain rule leaves, and what stored transcripts are counted as."""

from __future__ import annotations

import pytest

from uttermill.tasks.base.schema import TranscriptRow
from uttermill.tasks.scoring import Score, language_of, normalise, score, scored, total, words
from uttermill.tasks.scoring.normalisers import LONGEST


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("“It’s — GOOD!”", "", "it's good"),
        ("  well-known,\tisn`t\u00a0it? ", "", "well known isn't it"),
        ("'twas the dogs' day", "", "twas the dogs day"),
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
        ("yes", "yes but why", "en", Score(1, 2, 3, 8)),  # more errors than words
        ("Mr. Ng owes 25 dollars", "mister ng owes twenty-five dollars", "en", Score(6, 0, 34, 0)),
        ("It's colour", "it is color", "en", Score(3, 0, 11, 0)),
        ("es waren 25", "es waren fünfundzwanzig", "de", Score(3, 0, 23, 0)),
        ("es waren 24", "es waren fünfundzwanzig", "de", Score(3, 1, 23, 4)),  # vier -> fünf
        ("今天天气", "今天 天汽。", "zh", Score(4, 1, 4, 1)),
        ("", "well then", "en", Score(0, 2, 0, 9)),
        ("", "", "en", Score(0, 0, 0, 0)),
    ],
)
def test_score(reference: str, hypothesis: str, language: str, expected: Score) -> None:
    assert score(reference, hypothesis, language) == expected


def test_rates() -> None:
    assert score("yes", "yes but why", "en").wer == 2.0
    assert score("今天天气", "今天天汽", "zh").cer == 0.25
    assert Score(0, 2, 0, 6).wer is None
    assert Score(0, 2, 0, 6).cer is None


def test_total_is_of_the_set_not_a_mean_of_clips() -> None:
    both = total([Score(2, 2, 8, 8), Score(38, 0, 200, 0)])
    assert both == Score(40, 2, 208, 8)
    assert both.wer == 0.05
    assert total([]) == Score(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("stated", "reference", "heard", "expected"),
    [
        ("en", "你好", "zh", "en"),  # what the source states
        ("en-GB", None, None, "en"),
        ("zh_TW", "hello", "en", "zh"),
        (None, "this is English", "nn", "nn"),
        (None, "this is English", "zh", ""),  # heard wrongly: no Chinese rule for Latin letters
        (None, "this is English", None, ""),
        (None, "今天天气", "en", "zh"),
        (None, "今天天气", "yue", "yue"),
        (None, "今日はいい天気", "zh", "ja"),
        (None, "오늘 날씨", "ja", "ko"),
        (None, "we said 你好", "en", "en"),
        (None, None, "de", "de"),
        (None, None, None, ""),
    ],
)
def test_language_of_the_rule(
    stated: str | None, reference: str | None, heard: str | None, expected: str
) -> None:
    assert language_of(stated, reference, heard) == expected


def test_both_sides_have_one_rule_when_one_is_very_long() -> None:
    assert score("two " * LONGEST, "two", "en").word_errors == LONGEST - 1


HEARD: TranscriptRow = {
    "transcript": "t",
    "audio": "a",
    "raw_text": "It\u2019s\u200b  25.",
    "language": "en",
}
COUNTED: TranscriptRow = {
    "transcript": "t", "audio": "a",
    "raw_text": "It\u2019s\u200b  25.", "text": "It\u2019s 25.", "normalised": "it is 25",
    "language": "en",
    "reference": "It is twenty-four", "reference_normalised": "it is 24",
    "words": 4, "word_errors": 1, "chars": 17, "char_errors": 3, "scoring": "en",
}  # fmt: skip


def test_a_transcript_is_counted() -> None:
    assert scored(HEARD, "It is twenty-four", None) == COUNTED


def test_what_is_counted_by_these_rules_stays() -> None:
    row: TranscriptRow = {**COUNTED, "word_errors": 77}
    assert scored(row, "It is twenty-four", None) is row


@pytest.mark.parametrize("scoring", [None, "de"])
def test_what_other_rules_counted_is_counted_again(scoring: str | None) -> None:
    row: TranscriptRow = {**COUNTED, "word_errors": 77, "normalised": "?", "scoring": scoring}
    assert scored(row, "It is twenty-four", None) == COUNTED


def test_a_changed_reference_is_counted_again() -> None:
    again = scored(COUNTED, "it's 25", None)
    assert (again["reference_normalised"], again["word_errors"]) == ("it is 25", 0)
    gone = scored(again, None, None)
    assert (gone["text"], gone["reference"], gone["words"]) == ("It\u2019s 25.", None, None)
    assert gone["normalised"] == "it is 25"


def test_where_nobody_listened_there_is_nothing_to_count() -> None:
    unheard: TranscriptRow = {"transcript": "t", "audio": "a", "raw_text": None, "language": None}
    row = scored(unheard, "Zwei", "de")
    assert (row["text"], row["normalised"], row["words"]) == (None, None, None)
    assert (row["reference"], row["reference_normalised"]) == ("Zwei", "zwei")
