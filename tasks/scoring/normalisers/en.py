"""English by Whisper's rule (`whisper-normalizer`): "twenty-five" is 25, "it's" is "it is", "um" is
removed, "colour" is "color", and words in square or angle brackets are not compared. Unlike in
Whisper's rule, those in round brackets are: readers speak them.

Single figures in a row become one number ("3 9 9": 399), which the library does for their names
only, and so do those between commas; no sign stays at an end of the text. Repeated until nothing
changes ("minus five" is "-5" and then "5"), as one pass is not idempotent.
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
_FIGURES = re.compile(r"\d{25}")  # not a number: it stays unchanged
_BRACKETED = re.compile(r"[<\[][^<>\[\]]*[>\]]")
_BRACKETS = str.maketrans(dict.fromkeys("<>[]()", " "))
_COMMA = re.compile(r"(\d),(?=\d)")
_LOOSE = re.compile(r"^%|[.$¢€£]$")


@lru_cache(maxsize=1)
def _whisper() -> Callable[[str], str]:
    from whisper_normalizer.english import EnglishTextNormalizer

    rule = EnglishTextNormalizer()
    numbers = rule.standardize_numbers
    suffixed = numbers.ones_suffixed, numbers.tens_suffixed, numbers.multipliers_suffixed
    plain = numbers.zeros, numbers.ones, numbers.tens, numbers.multipliers
    numerals = frozenset[str]().union(*plain, *suffixed)  # words that begin or are a number

    def in_figures(text: str) -> str:
        words = text.split()
        read = any(word in numerals or not word.isalpha() for word in words)
        return " ".join(_runs(words, numbers) if read else words)

    rule.standardize_numbers = in_figures
    normaliser: Callable[[str], str] = rule
    return normaliser


def _once(text: str) -> str:
    text = _plain.JOINERS.sub("", _plain.compatible(text)).lower()
    text = _BRACKETED.sub("", text).translate(_BRACKETS)
    text = " ".join(_COMMA.sub(r"\1", text).split()).replace(" '", "'")
    return _plain.figures_joined(_plain.squeezed(_LOOSE.sub("", _whisper()(text).strip())))


def normalise(text: str) -> str:
    for _ in range(ROUNDS):
        before, text = text, _once(text)
        if text == before:
            break
    return text


def _runs(words: list[str], numbers: EnglishNumberNormalizer) -> Iterator[str]:
    """The words with spoken numbers in figures. They are split where a number would exceed what
    Python parses, which nobody says."""
    run: list[str] = []
    length = 0
    for word in words:
        if _FIGURES.search(word):
            yield numbers(" ".join(run))
            yield word
            run, length = [], 0
            continue
        run.append(word)
        spoken = word in numbers.words or not word.isalpha()
        length = length + 1 if spoken else 0
        if length == LONGEST_RUN:
            yield numbers(" ".join(run))
            run, length = [], 0
    yield numbers(" ".join(run))
