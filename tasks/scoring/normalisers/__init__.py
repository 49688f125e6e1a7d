"""Rules that make texts comparable, which take clean text and are idempotent.

A rule is applied to reference and hypothesis alike, so it can hide a difference but never create
one. Of most languages it is the plain one (NFKC, casefold, no punctuation), with numbers in words
if CLDR has rules for them (`_spoken.py`), and words in one spelling, by what `languages` knows.
Numbers go one way in each language:

    en            spoken numbers become figures, contractions and spellings one form (Whisper's)
    zh, yue, ja   numerals become figures; Chinese characters are simplified (`_han.py`)
    all others    figures become words
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from .. import _plain, languages
from ..cleaning import clean
from . import _han, en
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


@lru_cache(maxsize=256)
def base(language: str) -> str:
    """Language of a code, without script and region: "zh-Hant" -> "zh"."""
    return language.replace("_", "-").split("-")[0].casefold()


#: Languages with a rule of their own.
_RULES = {"en": en.normalise, "zh": _han.chinese, "ja": _han.japanese}


@lru_cache(maxsize=256)
def _rule(language: str) -> Callable[[str], str]:
    language = _SAME.get(language, language)
    if language in _RULES:
        return _RULES[language]
    say = figures_to_words(language)
    fold = [(re.compile(pattern), form) for pattern, form in languages.of(language).fold]
    spelled = speller(language)

    def normalise(text: str) -> str:
        text = _plain.folded(spelled(say(_plain.compatible(text))), language)
        for pattern, form in fold:
            text = pattern.sub(form, text)
        return text

    return normalise


# Different spellings of the same word: folds them to one form for comparison, by the letters and
# forms that `tasks/scoring/languages` has of each language.
#
# Each rule names its source, and folds only what readers of the language take for one word: marks
# that most writers omit, letters that two keyboards encode differently, the place of a tone mark. A
# rule that would merge different words in another language applies only where it does not.


#: Combining comma below is the cedilla of another font (Unicode Standard, section 7.1, "Cedilla and
#: comma below"): ș is ş, ț is ţ, and so for Latvian.
_COMMA, _CEDILLA = "\u0326", "\u0327"
#: Vowel marks of Arabic and Hebrew scripts (Unicode Standard, sections 9.1 and 9.2: points that
#: normal text leaves out), the marks of the Quran, and tatweel, which only stretches a word.
_POINTS = re.compile(
    "[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    "\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed]"
)
#: An acute or grave on a Cyrillic letter marks the stress in dictionaries and schoolbooks (Unicode
#: Standard, section 7.4); no language of the script has a letter of it but ѐ and ѝ, which are left.
_STRESS = re.compile("(?<=[\u0400-\u052f])[\u0300\u0301]")
#: Letters of one form: Yiddish digraphs, which are typed as one key or two (Unicode Standard,
#: section 9.1), geresh, for which keyboards have the apostrophe, and U+02BB, the apostrophe of
#: Uzbek and Hawaiian (section 6.2).
_DIGRAPHS = {"׳": "'", "װ": "וו", "ױ": "וי", "ײ": "יי", "ʻ": "'"}
#: Sara am is one key or two, and the tone mark is typed before or after its ring (Unicode Standard,
#: section 16.1); two sara e look like sara ae (PyThaiNLP, `reorder_vowels`). The same in Lao.
_RING = re.compile("([\u0e48-\u0e4b\u0ec8-\u0ecb]+)([\u0e4d\u0ecd])")
_TWICE_E = (("\u0e40\u0e40", "\u0e41"), ("\u0ec0\u0ec0", "\u0ec1"))


def folds(letters: str) -> dict[str, str]:
    """Parses letters and their form, "أإآ ا, ى ي": each of the former maps to the latter."""
    pairs = (fold.split() for fold in letters.split(",") if fold)
    return {letter: form for several, form in pairs for letter in several}


@lru_cache(maxsize=256)
def speller(language: str) -> Callable[[str], str]:
    """`spelled(text) -> text`: words of a language in one spelling; takes and returns NFC."""
    spelling = languages.of(language)
    letters = str.maketrans({**_DIGRAPHS, **folds(spelling.letters)})
    forms = [(re.compile(pattern), form) for pattern, form in spelling.forms]

    def spelled(text: str) -> str:
        if text.isascii() and language != "vi":
            return text
        text = _STRESS.sub("", _POINTS.sub("", text)).translate(letters)
        text = _RING.sub(r"\2\1", text)
        for twice, once in _TWICE_E:
            text = text.replace(twice, once)
        apart = unicodedata.normalize("NFD", text).replace(_COMMA, _CEDILLA)
        if language == "vi":
            apart = _SYLLABLE.sub(_toned, apart)
        for pattern, form in forms:
            apart = pattern.sub(form, apart)
        return unicodedata.normalize("NFC", apart)

    return spelled


#: A Vietnamese syllable, decomposed, with a tone mark in it.
_SYLLABLE = re.compile("[^\\W\\d_]+[\u0300\u0301\u0303\u0309\u0323][\\w\u0300-\u036f]*")
_TONE = re.compile("[\u0300\u0301\u0303\u0309\u0323]")
#: A letter with marks that make it a different letter: circumflex, breve, horn.
_LETTER = re.compile("\\w[\u0302\u0306\u031b]*")
_VOWELS = "aeiouy"
#: Final vowel pairs whose second vowel has the tone; in others the first has it.
_SECOND = ("oa", "oe", "uy")


def _toned(syllable: re.Match[str]) -> str:
    """Puts the tone mark on the main vowel (Decision 1989/QĐ-BGDĐT of 2018, article 8): hòa, thủy
    -> hoà, thuỷ. A misplaced mark (hòan) moves likewise."""
    tones = _TONE.findall(syllable[0])
    letters = _LETTER.findall(_TONE.sub("", syllable[0]))
    if len(tones) != 1 or (bearer := _bearer([letter.lower() for letter in letters])) is None:
        return syllable[0]
    letters[bearer] += tones[0]
    return "".join(letters)


def _bearer(letters: list[str]) -> int | None:
    """Index of the letter that bears the tone; None if the letters are not a syllable."""
    vowels = [index for index, letter in enumerate(letters) if letter[0] in _VOWELS]
    if not vowels or vowels != [*range(vowels[0], vowels[-1] + 1)]:
        return None
    onset = "".join(letters[: vowels[0] + 1])
    if len(vowels) > 1 and onset in ("qu", "gi"):
        vowels = vowels[1:]
    altered = [index for index in vowels if len(letters[index]) > 1]
    if altered:
        return altered[-1]
    if vowels[-1] + 1 < len(letters):
        return vowels[-1]
    if len(vowels) == 2:
        return vowels["".join(letters[index] for index in vowels) in _SECOND]
    return vowels[len(vowels) // 2]
