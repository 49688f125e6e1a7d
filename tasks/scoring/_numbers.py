"""Numbers with marks, signs and endings, as the numbers and words that are said.

138-0013-8000 -> 1 3 8 0 0 1 3 8 0 0 0
14:30         -> 14, 30
1990s         -> 1990
20 °C         -> 20 degrees celsius
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tasks.scoring.normalisers import ordinal, says, signs_read

LONG = 5  # figures of a number that is read one by one, unless it is round
ROUND = 100
LEAST_OF_PHONE = 7  # figures
_YEAR_FIRST = re.compile(r"(?<![\d.])(\d{4})([-./])(\d{1,2})\2(\d{1,2})(?![\d/-])")
_YEAR_LAST = re.compile(r"(?<![\d.])(\d{1,2})([-./])(\d{1,2})\2(\d{4}|\d{2})(?![\d/-])")
_TIME = re.compile(r"(?<![\d:])(\d{1,2}):(\d{2})(?::(\d{2}))?(?![\d:])")
_CURRENCY = "€$£¥₽₩₹₺₴"
_PRICE = re.compile(
    rf"([{_CURRENCY}])\s?(\d+)[.,](\d\d)(?!\d)|(?<![\d.,])(\d+)[.,](\d\d)\s?([{_CURRENCY}])"
)
_GROUPS = re.compile(r"(?<![\w.,])\d{1,6}(?:[-‐‑–]\d{1,6})+(?!\w)")
#: 138 0013 8247, (555) 013-8247, +44 20 7946 0958. A quantity has three figures in each group but
#: the first; years and round numbers are what they are.
_PHONE = re.compile(
    r"(?<![\w.,])(?P<plus>\+\s?)?\(?\d{1,7}\)?(?:[ ./-]\(?\d{1,8}\)?|\)\d{1,8})"
    r"(?:[ ./-]{1,2}\d{1,8}){0,7}(?![\w/])"
)
_QUANTITY = re.compile(r"[1-9]\d{0,2}(?:([ .])\d{3})(?:\1\d{3})*")
_PLAIN_NUMBER = re.compile(r"(?:1[1-9]|20)\d\d|[1-9]\d*00")
_CODE = re.compile(rf"(?<![\d.,'])\d{{{LONG},}}(?!\d|[.,]\d)")
_CHINESE_YEAR = re.compile(r"(?<!\d)\d{4}(?=年)")
_ORDINAL = re.compile(r"(?<![\d.,])(\d{1,9})(?:st|nd|rd|th)\b", re.IGNORECASE)
#: Said after the numbers of a date (year, month, day) and of a time.
_DATE_SIGNS = {"zh": "年月日", "yue": "年月日", "ja": "年月日", "ko": "년월일"}
_TIME_SIGNS = {"zh": "点分秒", "yue": "點分秒", "ja": "時分秒", "ko": "시분초"}
_FRACTION = re.compile(r"(?<![\d/])(\d{1,3})\s?[/⁄]\s?(\d{1,3})(?![\d/])")
_OF = {"zh": "分之", "yue": "分之", "ja": "分の", "ko": "분의 "}
_RANGE = re.compile(r"(?<=\d)\s?[~〜–]\s?(?=\d)")
_TO = {"zh": "到", "yue": "到", "ja": "から", "ko": "에서 "}

_LETTER = r"[^\W\d_]"
#: Behind figures, by language: endings, which are no words of their own.
_ENDINGS = {
    language: re.compile(rf"(?<=\d)(?:{ending})(?!{_LETTER})")
    for languages, ending in (
        ("en", r"(?<=0)'?s"),
        ("de", r"er[ns]?|s?te[nrsm]?"),
        ("fr", r"ers?|res?|ères?|n?des?|es?|[èe]mes?"),
        ("nl af", r"e|[sd]?te|de|er"),
        ("es pt it ca gl", r"\.?[oa]s?|°(?=\s[a-z])|er"),
        ("sv fi da nb", rf":?{_LETTER}{{1,2}}"),
        ("tr az", rf"'{_LETTER}{{1,5}}"),
        ("ru uk be bg sr mk hu", rf"-{_LETTER}{{1,3}}"),
    )
    for language in languages.split()
}
#: Words for signs where the language's reading has none.
_SIGNS = {
    "%": "percent",
    "€": "euro",
    "$": "dollar",
    "£": "pound",
    "¥": "yuan",
    "₽": "рублей",
    "₩": "won",
    "₹": "rupees",
    "₺": "lira",
    "₴": "hryvnia",
    "°C": "degrees celsius",
    "°F": "degrees fahrenheit",
    "°": "degrees",
    "+": "plus",
    "=": "equals",
}
_HAN_SIGNS = {"¥": "元", "€": "欧元", "$": "美元", "°C": "摄氏度", "°F": "华氏度", "°": "度"}
_OTHER_SIGNS = {
    "zh": _HAN_SIGNS,
    "yue": _HAN_SIGNS,
    "ja": {**_HAN_SIGNS, "¥": "円"},
    "ko": {"₩": "원", "$": "달러", "€": "유로", "°C": "도", "°": "도"},
}
_SIGN = re.compile(
    rf"(?<=\d)\s?(°[CF]?|[%{_CURRENCY}])|([%{_CURRENCY}])(?=\s?\d)|(?<=\d)\s?([+=])(?=\s?\d)"
)


def marks_read(text: str, code: str) -> str:
    """Numbers with marks in them as the numbers that are said, in a language that has words for
    them."""

    def date(year: str, month: str, day: str, whole: str) -> str:
        if not (1 <= int(month) <= 31 and 1 <= int(day) <= 31):
            return whole
        return _signed([year, _plainly(month), _plainly(day)], _DATE_SIGNS.get(code))

    def time(match: re.Match[str]) -> str:
        numbers = [_plainly(number) for number in match.groups() if number]
        while len(numbers) > 1 and numbers[-1] == "0":  # 14:00
            numbers.pop()
        return _signed(numbers, _TIME_SIGNS.get(code))

    text = _YEAR_FIRST.sub(lambda m: date(m[1], m[3], m[4], m[0]), text)
    text = _YEAR_LAST.sub(lambda m: date(m[4], m[3], m[1], m[0]), text)
    text = _PRICE.sub(_price, _TIME.sub(time, text))
    text = _GROUPS.sub(_grouped, _PHONE.sub(_telephoned, text))
    text = _ORDINAL.sub(lambda m: ordinal(code, m[1]) or m[0], text)
    if code in _ENDINGS:
        text = _ENDINGS[code].sub("", text)
    if code in ("zh", "yue"):
        text = _CHINESE_YEAR.sub(lambda m: _one_by_one(m[0]), text)
    if of := _OF.get(code):
        text = _FRACTION.sub(rf"\2{of}\1", text)
    text = _RANGE.sub(f" {_TO.get(code, 'to')} ", text)
    if code in _DATE_SIGNS and code != "ko":
        minus, percent = ("マイナス", r"\1パーセント") if code == "ja" else ("负", r"百分之\1")
        text = signs_read(text, minus, percent)
    text = _SIGN.sub(_word_of_sign(code), text)
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
    """ "$3.50" -> "3 $, 50"."""
    sign, whole, part = match[1] or match[6], match[2] or match[4], match[3] or match[5]
    return f"{whole} {sign}" if part == "00" else f"{whole} {sign}, {_plainly(part)}"


def _telephoned(match: re.Match[str]) -> str:
    groups = re.findall(r"\d+", match[0])
    figures = "".join(groups)
    marked = bool(match["plus"]) or figures[0] == "0" or "(" in match[0]
    numbers = _QUANTITY.fullmatch(match[0]) or all(map(_PLAIN_NUMBER.fullmatch, groups))
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


def _word_of_sign(code: str) -> Callable[[re.Match[str]], str]:
    words = _SIGNS | _OTHER_SIGNS.get(code, {})

    def word(match: re.Match[str]) -> str:
        sign = match[1] or match[2] or match[3]
        return match[0] if says(code, sign) else f" {words[sign]} "

    return word
