"""English by Whisper's rule (`whisper-normalizer`): "twenty-five" is 25, "it's" is "it is", "um" is
removed, "colour" is "color", and words in square or angle brackets are not compared. Unlike in
Whisper's rule, those in round brackets are: readers speak them.

The tables and the steps on words are the library's; its sixty regular expressions are three here,
which halves the time. Single figures in a row become one number ("3 9 9": 399), which the library
does for their names only. Repeated until nothing changes ("minus five" is "-5" and then "5"), as
one pass is not idempotent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from .. import _plain

if TYPE_CHECKING:
    from whisper_normalizer.english import EnglishNumberNormalizer

ROUNDS = 8
LONGEST_RUN = 50  # most words read as one spoken number
KEPT = ".%$¢€£"
_FIGURES = re.compile(r"\d{25}")  # not a number: it stays unchanged
_BRACKETED = re.compile(r"[<\[][^<>\[\]]*[>\]]")
_BRACKETS = str.maketrans(dict.fromkeys("<>[]()", " "))
_COMMA = re.compile(r"(\d),(?=\d)")
_FULL_STOP = re.compile(r"\.([^0-9]|$)")
_LOOSE_SIGN = re.compile(r"[.$¢€£]([^0-9]|$)")
_LOOSE_PERCENT = re.compile(r"([^0-9]|^)%")


class _Characters(dict[int, str]):
    """What Whisper's rule leaves of each character, cached."""

    def __missing__(self, code: int) -> str:
        from whisper_normalizer.basic import remove_symbols_and_diacritics

        kept = str(remove_symbols_and_diacritics(chr(code), keep=KEPT))
        if len(self) < 5000:
            self[code] = kept
        return kept


@lru_cache(maxsize=1)
def _pass() -> Callable[[str], str]:
    """One pass of the rule, by Whisper's tables."""
    from whisper_normalizer.english import EnglishTextNormalizer

    rule = EnglishTextNormalizer()
    forms = {pattern.replace(r"\b", ""): form for pattern, form in rule.replacers.items()}
    endings = [f for f in forms if rf"\b{f}\b" not in rule.replacers]  # n't, 's been, 'll
    short = [f for f in forms if f not in endings]  # mr, gonna, can't
    ignored = re.compile(rule.ignore_patterns)
    of_short = re.compile(rf"\b(?:{'|'.join(short)})\b")
    of_endings = re.compile(rf"(?:{'|'.join(endings)})\b")
    numbers, characters = rule.standardize_numbers, _Characters()
    suffixed = numbers.ones_suffixed, numbers.tens_suffixed, numbers.multipliers_suffixed
    plain = numbers.zeros, numbers.ones, numbers.tens, numbers.multipliers
    numerals = frozenset[str]().union(*plain, *suffixed)  # words that begin or are a number

    def once(text: str) -> str:
        text = _plain.JOINERS.sub("", _plain.compatible(text)).lower()
        text = _BRACKETED.sub("", text).translate(_BRACKETS)
        text = " ".join(text.split()).replace(" '", "'")
        text = of_short.sub(lambda m: forms[m[0]], ignored.sub("", text))
        if "'" in text:
            text = of_endings.sub(lambda m: forms[m[0]], text)
        text = _FULL_STOP.sub(r" \1", _COMMA.sub(r"\1", text))
        words = text.translate(characters).split()
        if any(word in numerals or not word.isalpha() for word in words):
            words = [part for run in _runs(words, numbers) for part in run]
        text = rule.standardize_spellings(" ".join(words))
        text = _LOOSE_PERCENT.sub(r"\1 ", _LOOSE_SIGN.sub(r" \1", text))
        return _plain.figures_joined(_plain.squeezed(text))

    return once


def normalise(text: str) -> str:
    once = _pass()
    for _ in range(ROUNDS):
        before, text = text, once(text)
        if text == before:
            break
    return text


def _runs(words: list[str], numbers: EnglishNumberNormalizer) -> Iterator[list[str]]:
    """The words with spoken numbers in figures. They are split where a number would exceed what
    Python parses, which nobody says."""
    run: list[str] = []
    length = 0
    for word in words:
        if _FIGURES.search(word):
            yield numbers(" ".join(run)).split()
            yield [word]
            run, length = [], 0
            continue
        run.append(word)
        spoken = word in numbers.words or not word.isalpha()
        length = length + 1 if spoken else 0
        if length == LONGEST_RUN:
            yield numbers(" ".join(run)).split()
            run, length = [], 0
    yield numbers(" ".join(run)).split()
