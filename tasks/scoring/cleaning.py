"""Cleans a text before it is stored, and tells whether it holds a word.

Texts of recognisers and sources become Unicode NFC, so that one text has one spelling and a
tokeniser one input; they lose control and format characters (NUL, byte-order mark, zero-width
space, soft hyphen, bidirectional marks, lone surrogates, which Parquet cannot hold); whitespace of
any kind becomes one space. Case, punctuation, digits and full-width forms stay: they are the
writer's. `tasks.scoring.normalisers` makes the form that is compared.

Transcribers write `[inaudible]`, `<UNK>`, `(laughs)`, `♪` or `...` where they heard no words, or
could not tell them. Such a text says nothing of what is spoken: it is not a reference.
"""

from __future__ import annotations

import re
import unicodedata

#: General categories Cc, Cf and Cs and the combining grapheme joiner: by number and not by
#: `unicodedata`, so that a text does not depend on the Unicode version of the Python. Left out:
#: white space (squeezed later), ZWNJ and ZWJ (below), and signs that are seen: U+0600..0605,
#: U+06DD, U+0890, U+0891, U+08E2, U+110BD, U+110CD, U+13430..13438.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u070f\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
#: ZWNJ and ZWJ choose letter forms in Arabic, Indic and South-East Asian scripts, after a letter;
#: anywhere else they are noise.
_JOINED = (
    "\u0620-\u08ff\u0900-\u0eff\u0f00-\u109f\u1780-\u18af\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
)
_STRAY_JOINER = re.compile(rf"(?<![{_JOINED}])[\u200c\u200d]+|(?<=[\u200c\u200d])[\u200c\u200d]+")
#: Stream-Safe Text Format of Unicode Annex 15: no more than 30 marks on a letter. Sorting them,
#: which NFC does, takes time in the square of their number: 20,000 take nine seconds.
MOST_MARKS = 30
_PILE = re.compile(rf"[^\w\x00-\x7f]{{{MOST_MARKS + 1},}}")

LONGEST_ASIDE = 60  # characters between brackets; what is longer is speech that somebody bracketed
DEEPEST = 3  # brackets in brackets
#: In brackets of these kinds stands what is heard and not said.
_ASIDE = re.compile(
    rf"\[[^\[\]]{{0,{LONGEST_ASIDE}}}\]|<[^<>]{{0,{LONGEST_ASIDE}}}>|\{{[^{{}}]{{0,{LONGEST_ASIDE}}}\}}"
    rf"|\([^()]{{0,{LONGEST_ASIDE}}}\)|（[^（）]{{0,{LONGEST_ASIDE}}}）|【[^【】]{{0,{LONGEST_ASIDE}}}】"
    rf"|［[^［］]{{0,{LONGEST_ASIDE}}}］|〔[^〔〕]{{0,{LONGEST_ASIDE}}}〕"
    rf"|\*+[^*]{{1,{LONGEST_ASIDE}}}\*+"
)
#: What corpora write for an unknown word, noise or silence without brackets.
_BARE = frozenset(("UNK", "SIL", "SPN", "NSN", "NOISE", "xxx"))


def clean(text: str) -> str:
    """The text as it is stored and packaged; cleaning it again changes nothing."""
    if not text.isascii():
        text = _PILE.sub(_flattened, _STRAY_JOINER.sub("", _UNSEEN.sub("", text)))
        text = unicodedata.normalize("NFC", text)
    elif not text.isprintable():
        text = _UNSEEN.sub("", text)
    return " ".join(text.split())


def _flattened(pile: re.Match[str]) -> str:
    kept, marks = [], 0
    for char in pile[0]:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= MOST_MARKS:
            kept.append(char)
    return "".join(kept)


def wordless(text: str) -> bool:
    """Whether nothing in a text that is not empty can be spoken: marks, and words in brackets."""
    if text[:1].isalnum():  # most texts
        return text.strip() in _BARE
    rest = text
    for _ in range(DEEPEST):
        rest = _ASIDE.sub(" ", rest)
    rest = rest.strip()
    return rest in _BARE or not any(map(str.isalnum, rest))
