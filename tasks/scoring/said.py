"""A text as it is said, for all that counts its words or characters: figures in words (CLDR's
spelling), the letters of an abbreviation one by one.

    call 66218688 -> call six six two one eight six eight eight
    USB 3.0       -> U S B three point zero

It is made to be counted, not to be read: how a number is said has to be guessed. Up to four
figures, round numbers, and those with marks between thousands are quantities; longer ones, and
groups with hyphens between them, are read figure by figure, as telephone numbers are. Of dates and
times each number is one; Chinese, Japanese and Korean say something after each (年月日). Languages
for which CLDR has no words are counted as if they were English.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tasks.scoring import _plain
from tasks.scoring._plain import CHAR
from tasks.scoring.normalisers import base, figures_to_words, has_words, ordinal, signs_read

LONG = 5  # figures of a number that is read one by one, unless it is round
ROUND = 100
#: Letters of an abbreviation that is always spelled; a longer one is if nobody can speak it (HTML,
#: but NATO), and none of more than LONGEST letters.
SPELLED, LONGEST = 3, 6

_TO_READ = re.compile(r"\d|[A-ZÀ-ÖØ-ÞΑ-ΩА-Я]{2}")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_LETTER = rf"(?!\d){CHAR}"
_EDGE = re.compile(rf"(?<=\d)(?={_LETTER})|(?<={CHAR})(?<!\d)(?=\d)")
_CAPITALS = re.compile(rf"(?<!{_LETTER})(?:{_LETTER}){{2,{LONGEST}}}(?!{_LETTER})")
_VOWELS = "AEIOUYÄÖÜÁÉÍÓÚАЕЁИОУЫЭЮЯΑΕΗΙΟΥΩ"
_UNSPEAKABLE = re.compile(rf"[^{_VOWELS}]{{3}}|[{_VOWELS}]{{3}}|^[^{_VOWELS}]+$")

_YEAR_FIRST = re.compile(r"(?<![\d.])(\d{4})([-./])(\d{1,2})\2(\d{1,2})(?![\d/-])")
_YEAR_LAST = re.compile(r"(?<![\d.])(\d{1,2})([-./])(\d{1,2})\2(\d{4}|\d{2})(?![\d/-])")
_TIME = re.compile(r"(?<![\d:])(\d{1,2}):(\d{2})(?::(\d{2}))?(?![\d:])")
_PRICE = re.compile(r"([€$£])\s?(\d+)[.,](\d\d)(?!\d)|(?<![\d.,])(\d+)[.,](\d\d)\s?([€$£])")
_GROUPS = re.compile(r"(?<![\w.,])\d{1,6}(?:[-‐‑–]\d{1,6})+(?!\w)")
_CODE = re.compile(rf"(?<![\d.,'])\d{{{LONG},}}(?!\d|[.,]\d)")
_CHINESE_YEAR = re.compile(r"(?<!\d)\d{4}(?=年)")
_ORDINAL = re.compile(r"(?<![\d.,])(\d{1,9})(?:st|nd|rd|th)\b", re.IGNORECASE)
#: Said after the numbers of a date (year, month, day) and of a time.
_DATE_SIGNS = {"zh": "年月日", "yue": "年月日", "ja": "年月日", "ko": "년월일"}
_TIME_SIGNS = {"zh": "点分秒", "yue": "點分秒", "ja": "時分秒", "ko": "시분초"}


@lru_cache(maxsize=16)  # several measures ask for that of one text after the other
def said(text: str, language: str | None) -> str:
    """The text as it is said; itself if there is nothing to read in it. Linear in its length."""
    if not _TO_READ.search(text):
        return text
    if _plain.capitals_tell(text):
        text = _CAPITALS.sub(_spelled, text)
    if not any(map(str.isdecimal, text)):
        return text
    text = _plain.compatible(text)
    code = _language(text, language)
    return figures_to_words(code)(_EDGE.sub(" ", _with_marks_read(text, code)))


def spoken(normalised: str, language: str | None) -> str:
    """A text as it is compared, with its figures as they are said, to count its words and
    characters."""
    text = said(normalised, language)
    return normalised if text == normalised else _plain.bare(text)


def _spelled(token: re.Match[str]) -> str:
    letters = token[0]
    alone = letters.isupper() and (len(letters) <= SPELLED or _UNSPEAKABLE.search(letters))
    return " ".join(letters) if alone else letters


def _language(text: str, language: str | None) -> str:
    """The language in which figures are read: by script, if it is another than the language's."""
    code = base(language or "")
    letters = sum(map(str.isalpha, text))
    han, kana = len(_HAN.findall(text)), len(_KANA.findall(text))
    if code not in _DATE_SIGNS and 2 * (han + kana) > letters:
        return "ja" if kana else "zh"
    return code if has_words(code) else "en"


def _with_marks_read(text: str, code: str) -> str:
    """Numbers with marks in them as the numbers that are said."""

    def date(year: str, month: str, day: str, whole: str) -> str:
        if not (1 <= int(month) <= 31 and 1 <= int(day) <= 31):
            return whole
        return _signed([year, _plainly(month), _plainly(day)], _DATE_SIGNS.get(code))

    def time(match: re.Match[str]) -> str:
        numbers = [_plainly(number) for number in match.groups() if number]
        while len(numbers) > 1 and numbers[-1] == "0":  # 14:00
            numbers.pop()
        return _signed(numbers, _TIME_SIGNS.get(code))

    def number_sign(match: re.Match[str]) -> str:
        if (word := ordinal(code, match[1])) is None:
            return match[0]
        return word

    text = _YEAR_FIRST.sub(lambda m: date(m[1], m[3], m[4], m[0]), text)
    text = _YEAR_LAST.sub(lambda m: date(m[4], m[3], m[1], m[0]), text)
    text = _GROUPS.sub(_grouped, _PRICE.sub(_price, _TIME.sub(time, text)))
    text = _ORDINAL.sub(number_sign, text)
    if code in ("zh", "yue"):
        text = _CHINESE_YEAR.sub(lambda m: _one_by_one(m[0]), text)
    if code in _DATE_SIGNS and code != "ko":
        minus, percent = ("マイナス", r"\1パーセント") if code == "ja" else ("负", r"百分之\1")
        text = signs_read(text, minus, percent)
    return _CODE.sub(lambda m: m[0] if int(m[0][-9:]) % ROUND == 0 else _one_by_one(m[0]), text)


def _plainly(number: str) -> str:
    return str(int(number))


def _one_by_one(figures: str) -> str:
    return f" {' '.join(figures)} "


def _signed(numbers: Sequence[str], signs: str | None) -> str:
    if signs is None:
        return ", ".join(numbers)
    return "".join(f"{number}{sign}" for number, sign in zip(numbers, signs, strict=False))


def _price(match: re.Match[str]) -> str:
    """ "$3.50" -> "$3, 50"."""
    sign, whole, part = match[1] or match[6], match[2] or match[4], match[3] or match[5]
    return f"{whole} {sign}" if part == "00" else f"{whole} {sign}, {_plainly(part)}"


def _grouped(match: re.Match[str]) -> str:
    """ "138-0013-8000" figure by figure; "10-20" as two numbers."""
    groups = re.findall(r"\d+", match[0])
    figures = "".join(groups)
    return _one_by_one(figures) if len(figures) >= LONG else ", ".join(groups)
