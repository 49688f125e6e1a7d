"""Figures as they are read out: "25" -> "fünfundzwanzig" (`unicode-rbnf`: CLDR's rules).

Figures become words and not the reverse: a reference holds mostly words, which stay unchanged, and
so does the number of words that a rate is based on. Cardinals, decimals, negatives, years and
percents are read; not ordinals, whose form depends on grammar ("am 1. Mai"), nor figures inside a
word ("mp3"), nor those of more than MOST_FIGURES.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from .. import languages
from .._plain import UNSPACED
from ..languages import Language

if TYPE_CHECKING:
    from unicode_rbnf import RbnfEngine

MOST_FIGURES = 15  # longer ones are not quantities, and CLDR has no words for them
_CARDINAL = "spellout-numbering"
_YEAR = "spellout-numbering-year"
_ORDINAL = "spellout-ordinal"
_FIRST = ("yüzde",)  # percents that precede the number
#: Languages that group thousands with a comma and write decimals with a point.
_POINT = "am ar bn cy en fa fil ga he hi km ko lo ms mt my ne sw ta th ur"
#: CLDR's codes for languages that recognisers name differently.
_NAMES = {"nb": "no", "tl": "fil", "iw": "he", "in": "id"}


@lru_cache(maxsize=256)
def figures_to_words(language: str) -> Callable[[str], str]:
    """`spoken(text) -> text` for a language; returns the text unchanged if CLDR has no rules for
    it."""
    reading = languages.of(language)
    name = _NAMES.get(language, language)
    engine = _engine(name) if name else None
    if engine is None:
        return str
    group, mark = (",", ".") if name in _POINT.split() else (".", ",")
    # Letters that make a number part of a word; not Hangul and unspaced scripts: "25개".
    letter = rf"[^\W_{UNSPACED}\uac00-\ud7a3]"
    number = re.compile(
        rf"(?P<before>[%€$£]\s?)?(?P<sign>(?<!\w)[-−])?(?<!{letter})"
        rf"(?P<whole>\d{{1,3}}(?:[{group}' ]\d{{3}})+(?!{letter})"
        rf"|\d{{1,2}}(?:,\d\d)+,\d{{3}}(?!{letter})"  # lakhs: 12,50,000
        rf"|\d+(?!{letter}))"
        rf"(?:{re.escape(mark)}(?P<part>\d+)(?!{letter}))?(?P<after>\s?[%€$£])?"
    )
    pad = "" if name == "ko" else " "

    @lru_cache(maxsize=4096)
    def words(sign: str, whole: str, part: str, symbol: str) -> str:
        return _words(engine, reading, sign, whole, part, symbol)

    def say(match: re.Match[str]) -> str:
        sign, whole, part = match["sign"] or "", match["whole"], match["part"] or ""
        if len(whole) + len(part) > MOST_FIGURES:
            return _runs(engine, match[0])
        symbol = (match["after"] or match["before"] or "").strip()
        return f"{pad}{words(sign, whole, part, symbol)}{pad}"

    return lambda text: text if text.isalpha() else number.sub(say, text)


def has_words(language: str) -> bool:
    """Whether CLDR has words for the numbers of a language."""
    return bool(language) and _engine(_NAMES.get(language, language)) is not None


def says(language: str, sign: str) -> bool:
    """Whether `figures_to_words` has a word for a sign beside figures."""
    return sign in languages.of(language).symbols


def ordinal(language: str, figures: str) -> str | None:
    """ "21" -> "twenty-first", if CLDR has a single form, as in English; otherwise None."""
    engine = _engine(language) if language else None
    return _say(engine, figures, _ORDINAL) if engine and _ORDINAL in engine.rulesets else None


def ordinals(language: str, figures: str) -> tuple[str, ...]:
    """Each form of an ordinal that CLDR has: "3" -> "dritte", "dritten", …"""
    engine = _engine(language)
    rules = [name for name in engine.rulesets if name.startswith(_ORDINAL)] if engine else []
    forms = (_say(engine, figures, name) for name in rules) if engine else ()
    return tuple(dict.fromkeys(form.replace("\xad", "") for form in forms if form))


@lru_cache(maxsize=128)
def _engine(language: str) -> RbnfEngine | None:
    from unicode_rbnf import RbnfEngine

    try:
        engine = RbnfEngine.for_language(language)
    except ValueError:
        return None
    return engine if _CARDINAL in engine.rulesets else None


def _words(
    engine: RbnfEngine, reading: Language, sign: str, whole: str, part: str, symbol: str
) -> str:
    figures = re.sub(r"\D", "", whole)
    year = reading.years and not (sign or part) and whole.isdecimal() and 1100 <= int(whole) <= 1999
    if len(figures) > 1 and figures[0] == "0":  # a code, not a quantity: 007
        spoken: str | None = _each(engine, figures)
    else:
        spoken = _say(engine, ("-" if sign else "") + figures, _YEAR if year else _CARDINAL)
    if spoken is None or (part and not reading.decimal):
        return _runs(engine, f"{whole} {part}")
    if part:
        as_one = not reading.by_figure and part[0] != "0"
        after = _say(engine, part, _CARDINAL) if as_one else _each(engine, part)
        spoken = f"{spoken} {reading.decimal} {after}"
    word = reading.symbols.get(symbol, "")
    return f"{word} {spoken}" if word in _FIRST else f"{spoken} {word}".strip(" ")


def _each(engine: RbnfEngine, figures: str) -> str:
    return " ".join(_say(engine, figure, _CARDINAL) or figure for figure in figures)


def _runs(engine: RbnfEngine, text: str) -> str:
    """Text that is not one number: reads its runs of figures one by one, except those that are too
    long."""

    def say(run: re.Match[str]) -> str:
        short = len(run[0]) <= MOST_FIGURES
        return f" {(_say(engine, run[0], _CARDINAL) if short else None) or run[0]} "

    return re.sub(r"\d+", say, text)


def _say(engine: RbnfEngine, number: str, rules: str) -> str | None:
    from unicode_rbnf.engine import NoRuleForNumberError

    try:
        return str(engine.format_number(number, ruleset_names=[rules]).text)
    except NoRuleForNumberError:
        return None
