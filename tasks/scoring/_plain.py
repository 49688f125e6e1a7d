"""The rule for languages without their own, and the last step of most others."""

import re
import unicodedata

#: Scripts written without spaces: each character counts as a word, by script and not by language,
#: since the detected language may be wrong. Han, kana, bopomofo; Thai, Lao, Burmese, Khmer.
UNSPACED = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
#: Marks that belong to the preceding letter: vowels of Devanagari and other Indic scripts, points
#: of Arabic and Hebrew. Without them Python's \\w splits words in two: सौ.
MARKS = "\u200d" + "".join(
    mark
    for first, last in ((0x300, 0x2000), (0xA660, 0xAC00))
    for mark in map(chr, range(first, last))
    if unicodedata.category(mark)[0] == "M" and not UNSPACED_CHARACTER.match(mark)
)
#: A letter or figure of a script with spaces: Latin letters inside Chinese or before a Korean
#: particle are words of their own.
CHAR = rf"(?:[^\W_{UNSPACED}\uac00-\ud7a3]|[{MARKS}])"
TOKEN = f"{CHAR}+"
_JOINED_SCRIPT = re.compile(f"[{UNSPACED}\uac00-\ud7a3]")
_AROUND = re.compile(rf"\s*([{UNSPACED}])\s*")
_APOSTROPHES = str.maketrans(dict.fromkeys("‘’ʼ＇`´", "'"))
_LOOSE_APOSTROPHE = re.compile(r"(?<!\w)'|'(?!\w)")
JOINERS = re.compile("[\u200c\u200d]")
_ONE_BY_ONE = re.compile(r"(?<![\d.])\d(?: \d(?![\d.%]))+")
_DIGITS = re.compile(r"\d+")
_FRACTION = re.compile("[¼-¾⅐-⅞]")
_ARABIC_SIGNS = str.maketrans("٪٫٬", "%.,")
#: Turkish and Azeri have a dotless i, which casefold() ignores.
_DOTLESS = {"tr", "az"}


def compatible(text: str) -> str:
    """Unify apostrophes, full-width and other compatibility characters, and decimal digits: "Ｉｔ’s
    ٣٫٥٪" -> "It's 3.5%"."""
    # Apostrophes before NFKC, which turns an acute into a space with an accent; and that of ŉ after
    # it, before numbers beside it are read.
    text = _FRACTION.sub(r" \g<0>", text.translate(_APOSTROPHES))  # NFKC of 5½ is 51⁄2
    text = unicodedata.normalize("NFKC", text).replace("ʼ", "'")
    if text.isascii():
        return text
    text = _DIGITS.sub(lambda m: "".join(str(int(digit)) for digit in m[0]), text)
    return text.translate(_ARABIC_SIGNS)


def folded(text: str, language: str) -> str:
    """Casefold; remove punctuation and symbols (except apostrophes inside words) and joiners;
    squeeze whitespace."""
    text = _dotted(text, language)
    # In Persian a ZWNJ joins the parts of a word, and often a space replaces it.
    text = JOINERS.sub(" " if language == "fa" else "", text)
    lower = text.casefold().replace("i\u0307", "i")  # of İ: the mark would split the word
    return bare(unicodedata.normalize("NFKC", lower))


def lower(text: str, language: str) -> str:
    """Lower case, but unlike casefold() keeping letters such as ß."""
    return _dotted(text, language).lower().replace("i\u0307", "i")


def _dotted(text: str, language: str) -> str:
    return text.replace("I", "ı").replace("İ", "i") if language in _DOTLESS else text


def bare(text: str) -> str:
    """Remove punctuation and symbols, except apostrophes inside words; squeeze whitespace."""
    text = "".join(c if c == "'" or unicodedata.category(c)[0] in "LMN" else " " for c in text)
    return squeezed(_LOOSE_APOSTROPHE.sub(" ", text))


def squeezed(text: str) -> str:
    """Single spaces, and none around characters of scripts without spaces."""
    return _AROUND.sub(r"\1", " ".join(text.split()))


def capitals_tell(text: str) -> bool:
    """Whether capitals distinguish words: some words have them, and not all of several words."""
    words = [t for t in re.findall(TOKEN, text) if t.lower() != t.upper()]
    capitals = [t for t in words if t.isupper()]
    others = len(words) > len(capitals) or bool(_JOINED_SCRIPT.search(text))
    return bool(capitals) and (others or len(words) == 1 or all(len(t) == 1 for t in words))


def figures_joined(text: str) -> str:
    """Single figures in a row become one number, as they are read out: "3 9 9" -> "399"."""
    return _ONE_BY_ONE.sub(lambda match: match[0].replace(" ", ""), text)
