"""Hand-counted errors, what the plain rule leaves, and what stored transcripts are counted as."""

import re
import sys
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.text.pairs import PAIRS
from uttermill.tasks.base.schema import TranscriptRow
from uttermill.tasks.scoring import Score, language_of, languages, score, scored, total, words
from uttermill.tasks.scoring.cleaning import MOST_MARKS, clean
from uttermill.tasks.scoring.normalisers import LONGEST, folds, normalise


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


# What is stored of a text, and which texts count as the same in each language.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  It’s —\tGOOD!\r\n", "It’s — GOOD!"),
        ("cafe\u0301", "café"),  # NFC
        ("Ｆｕｌｌ ½ ﬁ", "Ｆｕｌｌ ½ ﬁ"),  # not NFKC: the writer's forms stay
        ("\ufeffa\u00adb\u200bc\u2060d", "abcd"),
        ("a\x00b\x07c\x9fd", "abcd"),
        ("a\x1cb\x85c\u2028d\u00a0e\u3000f", "a b c d e f"),
        ("\u202bשלום\u202c \u200fab\u200e", "שלום ab"),
        ("\u2067x\u2069", "x"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # ZWNJ of Persian
        ("क्\u200dष", "क्\u200dष"),  # ZWJ of Hindi
        ("a\u200cb\u200dc", "abc"),
        ("क\u200d\u200d", "क\u200d"),
        ("lone \ud800 surrogate", "lone surrogate"),
        ("e\u200b\u0301", "é"),  # one letter once nothing stands between
        ("\u200b \ufeff", ""),
        ("", ""),
    ],
)
def test_clean(text: str, expected: str) -> None:
    assert clean(text) == expected
    assert clean(expected) == expected


def test_clean_removes_every_control_and_format_character_but_those_that_are_seen() -> None:
    seen = {0x6DD, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x600, 0x606)}
    seen |= {*range(0x13430, 0x13440)}  # joins of hieroglyphs
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs") and code not in seen:
            assert clean(f"a{chr(code)}b") in ("ab", "a b"), hex(code)


def test_clean_leaves_thirty_marks_on_a_letter() -> None:
    assert clean("a" + "\u0323" * 5000 + "b") == "ạ" + "\u0323" * (MOST_MARKS - 1) + "b"


SAME = PAIRS["numbers"]


@pytest.mark.parametrize(("written", "said", "language"), SAME)
def test_a_number_is_the_same_written_and_said(written: str, said: str, language: str) -> None:
    assert normalise(written, language) == normalise(said, language) != ""


@pytest.mark.parametrize(
    ("one", "other", "language"),
    [
        ("fifteen", "fifty", "en"), ("we are", "were", "en"), ("25", "24", "en"),
        ("25", "zweiundfünfzig", "de"), ("1,5", "1.500", "de"), ("mp3", "mp4", "de"),
        ("mil", "mille", "es"), ("cent un", "cent deux", "fr"), ("7,05", "7,5", "fr"),
        ("三百二十", "三百二十五", "zh"), ("3.5", "35", "zh"), ("他们", "我们", "zh"),
        ("發展", "头", "zh"), ("二十", "三十", "ja"),
    ],
)  # fmt: skip
def test_what_differs_stays_different(one: str, other: str, language: str) -> None:
    assert normalise(one, language) != normalise(other, language)


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("“It’s — GOOD!”", "en", "it is good"),
        ("THERE'S IRON, they say", "en", "there is iron they say"),
        ("千万别", "zh", "千万别"),  # no number without a figure
        ("一起 去", "zh", "1起去"),
        ("mp3 und 0711", "de", "mp3 und null sieben eins eins"),
        ("1234567890123456", "de", "1234567890123456"),  # more figures than a number has
        ("12.5.2020", "xx", "12 5 2020"),  # a language that nobody knows
        ("Zwei", "de-AT", "zwei"),
        ("5", "nb", "fem"),
    ],
)
def test_the_rules_of_a_language(text: str, language: str, expected: str) -> None:
    assert normalise(text, language) == expected


LANGUAGES = ["en", "de", "fr", "es", "it", "zh", "yue", "ja", "ko", "ru", "fa", "tr", "th", "", "?"]
SIGNS = (
    "1 22 3.5 1,000 £5 1st 007 999999999999999999999 % € - _ ' . , [ ] ( ) ١٢ १ ½ ² \u0301 \u200d"
)
SAID = (
    "one two twenty hundred million and a half point minus double oh first dollars per cent mr um"
)
OTHERS = "ein tausend cent un y don't 一 三十 百 千 万 亿 两 点 年 ß İ ŉ é 개 ไทย か"
PIECES = re.split(" ", f"{SIGNS} {SAID} {OTHERS}")
PHRASES = st.lists(st.sampled_from(PIECES), max_size=9).flatmap(
    lambda words: st.sampled_from(["", " "]).map(lambda space: space.join(words))
)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(LANGUAGES), st.text() | PHRASES | st.text("か0123.,'-% 一十万"))
def test_any_text_is_the_same_again_when_done_again(language: str, text: str) -> None:
    once = clean(text)
    assert clean(once) == once == unicodedata.normalize("NFC", once)
    compared = normalise(text, language)
    assert normalise(compared, language) == compared
    assert normalise(once, language) == compared


@pytest.mark.parametrize(
    "text",
    [
        "1" * 10_000, "1" * 1_000_000, "(" * 40_000, "[a" * 20_000, "one " * 10_000,
        "one " * 5000 + "decillion", "decillion " * 4000, " " * 1_000_000, " '" * 20_000,
        "a" + "\u0301\u0316" * 100_000, "一" * 40_000, "1点" * 20_000, "1" * 40_000 + "%",
        "1" + " 111" * 10_000, "and a half " * 4000, "x" * 1_000_000,
    ],
    ids=lambda text: f"{text[:8]!a}x{len(text)}",
)  # fmt: skip
def test_hostile_texts_take_bounded_time(text: str) -> None:
    began = time.process_time()
    for language in ("en", "de", "zh") if len(text) <= LONGEST else ("en",):
        normalise(text, language)
    assert time.process_time() - began < 5


def test_a_text_that_no_clip_has_is_compared_by_the_plain_rule() -> None:
    assert normalise("two " * (LONGEST // 4 + 1), "en").startswith("two two")


def test_english_is_whispers_rule() -> None:
    """Its tables and steps in another order of passes: nothing else comes out, but for what it
    leaves of its own work undone, and apostrophes that are not ASCII."""
    from whisper_normalizer.english import EnglishTextNormalizer

    whispers = EnglishTextNormalizer()
    for text in (
        "There's iron, they say, in all our blood; and a grain or two, perhaps, is good!",
        "Mr. and Mrs. O'Brien won't be there until 5 o'clock on the twenty-first of June, 1984.",
        "He'd been gonna say y'all owe me $3.50, i.e. three dollars and fifty cents.",
        "Uh, hmm, the colour's grey -- I'll analyse it later [noise] for two and a half hours.",
        "She's got it; they've done what we'd gone for: fifty per cent of one million and ten.",
        "double oh seven, one oh one, nineteen ninety nine, the 1960s and the 32nd",
    ):
        assert normalise(text, "en") == whispers(" ".join(whispers(text).split())).strip()


# One word in two spellings is no error of a recogniser, whatever the language; two words are.


SPELLINGS = PAIRS["spellings"]


@pytest.mark.parametrize(("language", "one", "other"), SPELLINGS)
def test_a_word_in_another_spelling_is_the_same(language: str, one: str, other: str) -> None:
    assert one != other
    for form in ("NFC", "NFD"):
        found = score(unicodedata.normalize(form, one), other, language)
        assert (found.word_errors, found.char_errors) == (0, 0), normalise(one, language)
        assert found.words == score(other, other, language).words > 0
    assert normalise(normalise(one, language), language) == normalise(one, language)


@pytest.mark.parametrize(
    ("language", "one", "other"),
    [
        ("ar", "جامعة", "جامع"), ("ar", "ماء", "ما"), ("ar", "سلام", "سلم"), ("ar", "فهم", "فةم"),
        ("fa", "آب", "اب"), ("fa", "می\u200cروم", "نمی\u200cروم"), ("fa", "کتاب\u200cها", "کتاب"),
        ("fa", "بزرگ\u200cتر", "بزرگ\u200cترین"), ("fa", "خانه\u200cای", "خانه\u200cی"),
        ("ur", "ماں", "ما"), ("ur", "آئے", "آے"),
        ("ur", "بھائی", "بہائی"), ("ur", "کھا", "کہا"), ("ur", "گئے", "گے"),
        ("hi", "पेड़", "पेड"), ("hi", "हंस", "हँस"), ("hi", "कंप", "कप"), ("hi", "अन्न", "अंन"),
        ("hi", "ये", "ए"), ("bn", "দিন", "দীন"), ("bn", "সৎ", "সত"),
        ("bn", "রাঙা", "রাংা"), ("vi", "tay", "tai"), ("vi", "túy", "túi"), ("vi", "yêu", "iêu"),
        ("he", "שלום", "שלומ"), ("ru", "всё", "вся"), ("ru", "мой", "мои"), ("uk", "їх", "іх"),
        ("bg", "ѝ", "и"), ("be", "ён", "ен"), ("ro", "fata", "fața"), ("tr", "kis", "kış"),
        ("tr", "kus", "kuş"), ("tr", "ısı", "isi"), ("vi", "hòa", "hóa"), ("vi", "mua", "mưa"),
        ("vi", "của", "cua"), ("el", "φως", "φας"), ("fr", "cote", "côté"), ("fr", "du", "dû"),
        ("es", "ano", "año"), ("pl", "sad", "sąd"), ("hr", "kuca", "kuća"),
        ("lt", "zasis", "žąsis"),
        ("es", "esta", "está"), ("de", "schon", "schön"), ("da", "får", "far"),
    ],
)  # fmt: skip
def test_two_words_stay_two(language: str, one: str, other: str) -> None:
    assert score(one, other, language).word_errors == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("به کتاب\u200cخانه رفت", "به کتابخانه رفت"),
        ("كتاب\u200cخانه\u200cی بزرگ", "کتابخانهٔ بزرگ"),
        ("پیش\u200cنهاد خوب", "پیشنهاد خوب"),
        ("کتاب\u200cخانه و کتاب\u200cخانه", "کتابخانه و کتابخانه"),
    ],
)
@pytest.mark.parametrize("language", ["fa", "fa-IR", "prs"])
def test_a_persian_compound_with_a_half_space_is_the_joined_one(
    language: str, one: str, other: str
) -> None:
    for pair in ((one, other), (other, one)):
        found = score(*pair, language)
        assert (found.word_errors, found.char_errors) == (0, 0)


def test_a_persian_space_still_parts_words() -> None:
    assert score("ما در خانه", "مادر خانه", "fa").word_errors == 2
    assert score("کتاب\u200cخانه", "کتابدار", "fa").word_errors == 2


def test_each_table_folds_to_letters_that_it_leaves() -> None:
    for code in languages.CODES:
        letters = folds(languages.of(code).letters)
        assert not {*"".join(letters.values())} & {*letters}
