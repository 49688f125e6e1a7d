"""A text as it is spoken, for everything that counts its words or characters: figures in words
(CLDR's spelling), the letters of an abbreviation one by one.

    call 66218688 -> call six six two one eight six eight eight
    USB 3.0       -> U S B three point zero

It is for counting, not for reading: how a number is spoken must be guessed. Up to four figures,
round numbers, and those with marks between thousands are quantities; longer ones, and groups of
telephone numbers, are read digit by digit. Each part of a date or time is one number; Chinese,
Japanese and Korean add a word after each (年月日). An ending after figures (1990s, 21-й, 3ª) is not
a word of its own; the sign of a unit or a currency is. Languages for which CLDR has no words are
counted as if they were English.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from . import _plain, languages
from ._plain import CHAR, HAN, KANA
from .normalisers import base, figures_to_words, has_words, ordinal, says, signs_read

#: Up to SPELLED letters an abbreviation is always spelled; a longer one only if it is
#: unpronounceable (HTML, but not NATO), and none of more than LONGEST letters.
SPELLED, LONGEST = 3, 6

_CAPITAL = "A-ZÀ-ÖØ-ÞΑ-ΩА-Я"
#: A figure, or two capitals. One set of characters begins either, for which a search is fast.
_TO_READ = re.compile(rf"[\d¼-¾⅐-⅞{_CAPITAL}](?:(?<![{_CAPITAL}])|[{_CAPITAL}])")
_LETTER = rf"(?!\d){CHAR}"
_EDGE = rf"(?<=\d)(?={_LETTER})|(?<={CHAR})(?<!\d)(?=\d)"
_CAPITALS = rf"(?<!{_LETTER})((?:{_LETTER}){{2,{LONGEST}}}?)(s?)(?!{_LETTER})"
#: Up to 39; larger ones look like abbreviations (CD, MI).
_ROMAN = r"(?!.$)(X{0,3})(IX|IV|V?I{0,3})"
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10}
_VOWELS = "AEIOUYÄÖÜÁÉÍÓÚАЕЁИОУЫЭЮЯΑΕΗΙΟΥΩ"
_UNSPEAKABLE = rf"[^{_VOWELS}]{{3}}|[{_VOWELS}]{{3}}|^[^{_VOWELS}]+$"


@lru_cache(maxsize=16)  # several measures need it for the same text in a row
def said(text: str, language: str | None) -> str:
    """The text as it is spoken; unchanged if there is nothing to read in it. Linear in its
    length."""
    if not _TO_READ.search(text):
        return text
    if _plain.capitals_tell(text):
        text = re.sub(_CAPITALS, _spelled, text)
    read = _plain.compatible(text)
    if not any(map(str.isdecimal, read)):
        return text
    text = read
    code = _language(text, language)
    return figures_to_words(code)(re.sub(_EDGE, " ", marks_read(text, code)))


def spoken(normalised: str, language: str | None) -> str:
    """A normalised text with its figures as they are spoken, to count its words and characters."""
    text = said(normalised, language)
    return normalised if text == normalised else _plain.bare(text)


def _spelled(token: re.Match[str]) -> str:
    letters, plural = token[1], token[2]
    if not plural and re.fullmatch(_ROMAN, letters):  # XIV: 14
        values = [*map(_ROMAN_VALUES.__getitem__, letters), 0]
        return str(sum(-one if one < after else one for one, after in pairwise(values)))
    alone = letters.isupper() and (len(letters) <= SPELLED or re.search(_UNSPEAKABLE, letters))
    return f"{' '.join(letters)}{plural}" if alone else token[0]


def _language(text: str, language: str | None) -> str:
    """The language in which figures are read: that of the script, if the language has another
    one."""
    code = base(language or "")
    letters = sum(map(str.isalpha, text))
    han, kana = len(HAN.findall(text)), len(KANA.findall(text))
    if code not in ("zh", "yue", "ja", "ko") and 2 * (han + kana) > letters:
        return "ja" if kana else "zh"
    return code if has_words(code) else "en"


# Numbers with marks, signs and endings, as the numbers and words that are spoken.
#
# 138-0013-8000 -> 1 3 8 0 0 1 3 8 0 0 0
# 14:30         -> 14, 30
# 1990s         -> 1990
# 20 °C         -> 20 degrees celsius

LONG = 5  # figures from which a number is read digit by digit, unless it is round
ROUND = 100
LEAST_OF_PHONE = 7  # figures
_YEAR_FIRST = r"(?<![\d.])(\d{4})([-./])(\d{1,2})\2(\d{1,2})(?![\d/-])"
_YEAR_LAST = r"(?<![\d.])(\d{1,2})([-./])(\d{1,2})\2(\d{4}|\d{2})(?![\d/-])"
_TIME = r"(?<![\d:])(\d{1,2}):(\d{2})(?::(\d{2}))?(?![\d:])"
_CURRENCY = "€$£¥₽₩₹₺₴"
_PRICE = rf"([{_CURRENCY}])\s?(\d+)[.,](\d\d)(?!\d)|(?<![\d.,])(\d+)[.,](\d\d)\s?([{_CURRENCY}])"
_GROUPS = r"(?<![\w.,])\d{1,6}(?:[-‐‑–]\d{1,6})+(?!\w)"
#: 138 0013 8247, (555) 013-8247, +44 20 7946 0958. Quantities have three figures in each group but
#: the first; years and round numbers stay numbers.
_PHONE = (
    r"(?<![\w.,])(?P<plus>\+\s?)?\(?\d{1,7}\)?(?:[ ./-]\(?\d{1,8}\)?|\)\d{1,8})"
    r"(?:[ ./-]{1,2}\d{1,8}){0,7}(?![\w/])"
)
_QUANTITY = r"[1-9]\d{0,2}(?:([ .])\d{3})(?:\1\d{3})*"
_PLAIN_NUMBER = re.compile(r"(?:1[1-9]|20)\d\d|[1-9]\d*00")
_CODE = rf"(?<![\d.,'])\d{{{LONG},}}(?!\d|[.,]\d)"
_CHINESE_YEAR = r"(?<!\d)\d{4}(?=年)"
_ORDINAL = r"(?i)(?<![\d.,])(\d{1,9})(?:st|nd|rd|th)\b"
_FRACTION = r"(?<![\d/])(\d{1,3})\s?[/⁄]\s?(\d{1,3})(?![\d/])"
_RANGE = r"(?<=\d)\s?[~〜–]\s?(?=\d)"
#: Words for signs that the language's reading lacks.
_SIGNS = {
    **{"%": "percent", "€": "euro", "$": "dollar", "£": "pound", "¥": "yuan", "₽": "рублей"},
    **{"₩": "won", "₹": "rupees", "₺": "lira", "₴": "hryvnia", "+": "plus", "=": "equals"},
    **{"°C": "degrees celsius", "°F": "degrees fahrenheit", "°": "degrees"},
}
_SIGN = rf"(?<=\d)\s?(°[CF]?|[%{_CURRENCY}])|([%{_CURRENCY}])(?=\s?\d)|(?<=\d)\s?([+=])(?=\s?\d)"


def marks_read(text: str, code: str) -> str:
    """Numbers with marks in them as the numbers that are spoken, in a language with words for
    numbers."""
    language = languages.of(code)

    def date(year: str, month: str, day: str, whole: str) -> str:
        if not (1 <= int(month) <= 31 and 1 <= int(day) <= 31):
            return whole
        return _signed([year, _plainly(month), _plainly(day)], language.date_signs)

    def time(match: re.Match[str]) -> str:
        numbers = [_plainly(number) for number in match.groups() if number]
        while len(numbers) > 1 and numbers[-1] == "0":  # 14:00
            numbers.pop()
        return _signed(numbers, language.time_signs)

    text = re.sub(_YEAR_FIRST, lambda m: date(m[1], m[3], m[4], m[0]), text)
    text = re.sub(_YEAR_LAST, lambda m: date(m[4], m[3], m[1], m[0]), text)
    text = re.sub(_PRICE, _price, re.sub(_TIME, time, text))
    text = re.sub(_GROUPS, _grouped, re.sub(_PHONE, _telephoned, text))
    text = re.sub(_ORDINAL, lambda m: ordinal(code, m[1]) or m[0], text)
    if language.endings:
        text = re.sub(rf"(?<=\d)(?:{language.endings})(?![^\W\d_])", "", text)
    if code in ("zh", "yue"):
        text = re.sub(_CHINESE_YEAR, lambda m: _one_by_one(m[0]), text)
    if language.part_of:
        text = re.sub(_FRACTION, rf"\2{language.part_of}\1", text)
    text = re.sub(_RANGE, f" {language.to} ", text)
    if code in ("zh", "yue", "ja"):
        minus, percent = ("マイナス", r"\1パーセント") if code == "ja" else ("负", r"百分之\1")
        text = signs_read(text, minus, percent)
    words = {**_SIGNS, **language.signs}

    def word(match: re.Match[str]) -> str:
        sign = match[1] or match[2] or match[3]
        return match[0] if says(code, sign) else f" {words[sign]} "

    text = re.sub(_SIGN, word, text)
    return re.sub(_CODE, lambda m: m[0] if int(m[0][-9:]) % ROUND == 0 else _one_by_one(m[0]), text)


def _plainly(number: str) -> str:
    return str(int(number))


def _one_by_one(figures: str) -> str:
    return f" {' '.join(figures)} "


def _signed(numbers: Sequence[str], signs: str) -> str:
    if not signs:
        return ", ".join(numbers)
    return "".join(f"{number}{sign}" for number, sign in zip(numbers, signs, strict=False))


def _price(match: re.Match[str]) -> str:
    """ "$3.50" -> "3 $, 50"."""
    sign, whole, part = match[1] or match[6], match[2] or match[4], match[3] or match[5]
    return f"{whole} {sign}" if part == "00" else f"{whole} {sign}, {_plainly(part)}"


def _telephoned(match: re.Match[str]) -> str:
    groups = re.findall(r"\d+", match[0])
    figures = "".join(groups)
    marked = bool(match["plus"]) or figures[0] == "0" or "(" in match[0]
    numbers = re.fullmatch(_QUANTITY, match[0]) or all(map(_PLAIN_NUMBER.fullmatch, groups))
    parted = max(map(len, groups)) > 2 and (len(groups) > 2 or "." not in match[0])
    if len(figures) < LEAST_OF_PHONE or not (marked or (parted and not numbers)):
        return match[0]
    return f"{' plus' if match['plus'] else ''}{_one_by_one(figures)}"


def _grouped(match: re.Match[str]) -> str:
    """ "138-0013" figure by figure; "10-20" and "1914-1918" as two numbers."""
    groups = re.findall(r"\d+", match[0])
    figures = "".join(groups)
    if len(figures) < LONG or all(map(_PLAIN_NUMBER.fullmatch, groups)):
        return match[0] if "–" in match[0] else ", ".join(groups)
    return _one_by_one(figures)
