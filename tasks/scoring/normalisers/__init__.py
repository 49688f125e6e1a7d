"""Rules that make texts comparable: one file a language, by its ISO 639-1 code.

    def normalise(text: str) -> str       # takes clean text; idempotent

A rule is applied to reference and hypothesis alike, so it can hide a difference but never create
one. A language without a file gets the plain rule (NFKC, casefold, no punctuation), with numbers in
words if CLDR has rules for them (`_spoken.py`), and words in one spelling (`_spellings.py`), as its
`tasks/scoring/languages/<code>.toml` has them.
Numbers go one way in each language:

    en            spoken numbers become figures, contractions and spellings one form (Whisper's)
    zh, yue, ja   numerals become figures; Chinese characters are simplified
    all others    figures become words
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec

from .. import _plain, languages
from ..cleaning import clean
from . import _spellings
from ._han import signs_read as signs_read
from ._spoken import figures_to_words as figures_to_words
from ._spoken import has_words as has_words
from ._spoken import ordinal as ordinal
from ._spoken import ordinals as ordinals
from ._spoken import says as says

#: Longer texts get the plain rule, since some rules are not linear in time. An hour of speech is
#: this long; no clip is.
LONGEST = 50_000  # characters
#: Numbers in words come with a space on each side; only the text's own spaces stay.
_BLANK_AT_MARK = re.compile(r" (?=[,.;:!?…)\]}»”’。，！？；：、）」])|(?<=[(\[{«“‘¿¡（「]) ")
_KEPT = "\ue000"
_SAME = {
    **dict.fromkeys(("yue", "cmn", "wuu"), "zh"),
    **dict.fromkeys(("arb", "arz", "apc", "ary", "acm"), "ar"),
    **dict.fromkeys(("pes", "prs"), "fa"),
    "iw": "he",
}


def normalise(text: str, language: str) -> str:
    """Text as it is compared: "“It's — GOOD!”" -> "it is good".

    Accepts any text and any language code; "" is the plain rule without numbers.
    """
    text = clean(text)
    return _rule(base(language) if len(text) <= LONGEST else "")(text)


def training_text(text: str, language: str) -> str:
    """Text to train on: lower case, without punctuation, numbers in words: "It's 21!" -> "it's
    twenty-one". Each word stays as spoken; `normalise`, in contrast, may join, split or replace
    words to treat both sides alike ("5 o'clock" becomes "50 clock").

    Figures stay if CLDR has no words for them in that language, as do ordinals ("3rd").
    """
    code = base(language)
    text = _plain.JOINERS.sub(" " if code == "fa" else "", _plain.compatible(clean(text)))
    return _plain.bare(_plain.lower(figures_to_words(code)(text), code))


def figures_read(text: str, language: str) -> str:
    """The text with its numbers in words, otherwise unchanged: "It's 21!" -> "It's twenty-one!"."""
    if not any(map(str.isdecimal, text)):
        return text
    kept = _BLANK_AT_MARK.sub(_KEPT, text)
    spoken = re.sub(" +", " ", figures_to_words(base(language))(kept)).strip(" ")
    spoken = _BLANK_AT_MARK.sub("", spoken)
    return spoken.replace(_KEPT, " ")


def base(language: str) -> str:
    """Language of a code, without script and region: "zh-Hant" -> "zh"."""
    return language.replace("_", "-").split("-")[0].casefold()


@lru_cache(maxsize=256)
def _rule(language: str) -> Callable[[str], str]:
    language = _SAME.get(language, language)
    name = f"uttermill.tasks.scoring.normalisers.{language}"
    if language.isascii() and language.isalpha() and find_spec(name):
        rule: Callable[[str], str] = import_module(name).normalise
        return rule
    return _with_numbers_in_words(language)


def _with_numbers_in_words(language: str) -> Callable[[str], str]:
    say = figures_to_words(language)
    fold = [(re.compile(pattern), form) for pattern, form in languages.of(language).fold]
    spelled = _spellings.speller(language)

    def normalise(text: str) -> str:
        text = _plain.folded(spelled(say(_plain.compatible(text))), language)
        for pattern, form in fold:
            text = pattern.sub(form, text)
        return text

    return normalise
