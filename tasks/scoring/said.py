"""A text as it is said, for all that counts its words or characters: figures in words (CLDR's
spelling), the letters of an abbreviation one by one.

    call 66218688 -> call six six two one eight six eight eight
    USB 3.0       -> U S B three point zero

It is made to be counted, not to be read: how a number is said has to be guessed. Up to four
figures, round numbers, and those with marks between thousands are quantities; longer ones, and
groups of telephone numbers, are read figure by figure. Of dates and times each number is one;
Chinese, Japanese and Korean say something after each (年月日). An ending behind figures (1990s,
21-й, 3ª) is no word of its own; the sign of a unit or a currency is. Languages for which CLDR has
no words are counted as if they were English.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tasks.scoring import _plain
from tasks.scoring._numbers import marks_read
from tasks.scoring._plain import CHAR
from tasks.scoring.normalisers import base, figures_to_words, has_words

#: Letters of an abbreviation that is always spelled; a longer one is if nobody can speak it (HTML,
#: but NATO), and none of more than LONGEST letters.
SPELLED, LONGEST = 3, 6

_TO_READ = re.compile(r"[\d¼-¾⅐-⅞]|[A-ZÀ-ÖØ-ÞΑ-ΩА-Я]{2}")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_LETTER = rf"(?!\d){CHAR}"
_EDGE = re.compile(rf"(?<=\d)(?={_LETTER})|(?<={CHAR})(?<!\d)(?=\d)")
_CAPITALS = re.compile(rf"(?<!{_LETTER})((?:{_LETTER}){{2,{LONGEST}}}?)(s?)(?!{_LETTER})")
#: Up to 39; larger ones look like abbreviations (CD, MI).
_ROMAN = re.compile(r"(?!.$)(X{0,3})(IX|IV|V?I{0,3})")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10}
_VOWELS = "AEIOUYÄÖÜÁÉÍÓÚАЕЁИОУЫЭЮЯΑΕΗΙΟΥΩ"
_UNSPEAKABLE = re.compile(rf"[^{_VOWELS}]{{3}}|[{_VOWELS}]{{3}}|^[^{_VOWELS}]+$")


@lru_cache(maxsize=16)  # several measures ask for that of one text after the other
def said(text: str, language: str | None) -> str:
    """The text as it is said; itself if there is nothing to read in it. Linear in its length."""
    if not _TO_READ.search(text):
        return text
    if _plain.capitals_tell(text):
        text = _CAPITALS.sub(_spelled, text)
    read = _plain.compatible(text)
    if not any(map(str.isdecimal, read)):
        return text
    text = read
    code = _language(text, language)
    return figures_to_words(code)(_EDGE.sub(" ", marks_read(text, code)))


def spoken(normalised: str, language: str | None) -> str:
    """A text as it is compared, with its figures as they are said, to count its words and
    characters."""
    text = said(normalised, language)
    return normalised if text == normalised else _plain.bare(text)


def _spelled(token: re.Match[str]) -> str:
    letters, plural = token[1], token[2]
    if not plural and _ROMAN.fullmatch(letters):
        return str(_roman(letters))
    alone = letters.isupper() and (len(letters) <= SPELLED or _UNSPEAKABLE.search(letters))
    return f"{' '.join(letters)}{plural}" if alone else token[0]


def _roman(letters: str) -> int:
    """ "XIV" -> 14."""
    values = [*map(_ROMAN_VALUES.__getitem__, letters)]
    return sum(
        -value if value < after else value
        for value, after in zip(values, [*values[1:], 0], strict=True)
    )


def _language(text: str, language: str | None) -> str:
    """The language in which figures are read: by script, if it is another than the language's."""
    code = base(language or "")
    letters = sum(map(str.isalpha, text))
    han, kana = len(_HAN.findall(text)), len(_KANA.findall(text))
    if code not in ("zh", "yue", "ja", "ko") and 2 * (han + kana) > letters:
        return "ja" if kana else "zh"
    return code if has_words(code) else "en"
