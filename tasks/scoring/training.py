"""Texts to train on in one plain form, each word kept as it was said.

Not the form that texts are compared in: that one may join, split or replace words to be fair to
both sides ("5 o'clock" becomes "50 clock" there), which no model should learn to write.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

from tasks.scoring import _plain
from tasks.scoring.cleaning import clean
from tasks.scoring.normalisers import Reading, base, figures_to_words

#: Languages whose rule for comparing makes figures out of words, so that it has no reading.
_READINGS = {
    "en": Reading(
        decimal="point",
        years=True,
        symbols=(("%", "percent"), ("€", "euros"), ("$", "dollars"), ("£", "pounds")),
    ),
    "zh": Reading(decimal="点"),
    "yue": Reading(decimal="點"),
    "ja": Reading(decimal="点"),
}
_OWN = ("de", "es", "fr", "it")


def training_text(text: str, language: str) -> str:
    """Lower case, without punctuation, numbers in words: "It's 21!" -> "it's twenty-one".

    Figures stay where CLDR has no words for them in that language, as do ordinals ("3rd").
    """
    code = base(language)
    text = _plain.JOINERS.sub(" " if code == "fa" else "", _plain.compatible(clean(text)))
    say = _say(code)
    if say is not None and not text.isalpha():
        text = say(text)
    return _plain.bare(_plain.lower(text, code))


@lru_cache(maxsize=256)
def _say(language: str) -> Callable[[str], str] | None:
    if language in _OWN:
        own: Reading = import_module(f"tasks.scoring.normalisers.{language}").READING
        return figures_to_words(language, own)
    return figures_to_words(language, _READINGS.get(language, Reading())) if language else None
