"""The scripts that languages are written in."""

import unicodedata
from collections import Counter
from functools import cache

from ..base.language_codes import WHISPER, base

#: The languages that are not, or not only, written in Latin letters. A script's name is the first
#: word in the Unicode names of its letters; kana and Han are one.
_OTHERS = {
    "ARABIC": "ar az fa ha pa ps sd ug ur",
    "ARMENIAN": "hy",
    "BENGALI": "as bn",
    "CJK": "ja ko yue zh",
    "CYRILLIC": "az ba be bg bs kk ky mk mn ru sr tg tk tt uk uz",
    "DEVANAGARI": "hi mr ne sa sd",
    "ETHIOPIC": "am ti",
    "GEORGIAN": "ka",
    "GREEK": "el grc",
    "GUJARATI": "gu",
    "GURMUKHI": "pa",
    "HANGUL": "ko",
    "HEBREW": "he yi",
    "KANNADA": "kn",
    "KHMER": "km",
    "LAO": "lo",
    "MALAYALAM": "ml",
    "MYANMAR": "my",
    "SINHALA": "si",
    "TAMIL": "ta",
    "TELUGU": "te",
    "THAI": "th",
    "TIBETAN": "bo",
}
_LATIN, _ALSO_LATIN = "LATIN", {"az", "bs", "ha", "kk", "mn", "sr", "tg", "tk", "uz"}


@cache
def _of_language(language: str) -> set[str]:
    """Empty for a language that is not known."""
    scripts = {script for script, codes in _OTHERS.items() if language in codes.split()}
    if language in _ALSO_LATIN or (language in WHISPER and not scripts):
        scripts.add(_LATIN)
    return scripts


@cache
def _of_letter(char: str) -> str:
    script = unicodedata.name(char, "").split(" ")[0] if char.isalpha() else ""
    return "CJK" if script in ("HIRAGANA", "KATAKANA") else script


def of_text(text: str) -> str:
    """The script of most letters; empty without letters."""
    if text.isascii():
        return _LATIN if any(map(str.isalpha, text)) else ""
    scripts = Counter(map(_of_letter, unicodedata.normalize("NFKC", text)))
    del scripts[""]
    return max(scripts, key=lambda script: scripts[script], default="")


def fits(text: str | None, language: str | None) -> bool:
    """Whether a text is in a script of its language; true if either is unknown."""
    wanted, script = _of_language(base(language or "")), of_text(text or "")
    return not wanted or not script or script in wanted
