"""Cleans a text before it is stored, and checks whether it holds a word.

Texts of recognisers and sources become Unicode NFC, so that one text has one spelling and a
tokeniser one input; they lose control and format characters (NUL, byte-order mark, zero-width
space, soft hyphen, bidirectional marks, lone surrogates, which Parquet cannot hold); whitespace of
any kind becomes one space. Case, punctuation, digits and full-width forms stay as written.
`tasks.scoring.normalisers` makes the form that is compared.

Transcribers write `[inaudible]`, `<UNK>`, `(laughs)`, `♪`, `...`, `!SIL` or `++breath++` for sounds
that are not words, or words that they could not understand. A text of such marks alone is not a
reference; beside words, marks of sounds are removed.
"""

import re
import unicodedata

#: General categories Cc, Cf and Cs and the combining grapheme joiner: by number and not by
#: `unicodedata`, so that a text does not depend on Python's Unicode version. Not included: white
#: space (squeezed later), ZWNJ and ZWJ (below), and visible signs: U+0600..0605, U+06DD, U+0890,
#: U+0891, U+08E2, U+110BD, U+110CD, U+13430..13438.
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
#: Stream-Safe Text Format of Unicode Annex 15: at most 30 marks on a letter. NFC sorts them in
#: quadratic time: 20,000 take nine seconds.
MOST_MARKS = 30
_PILE = re.compile(rf"[^\w\x00-\x7f]{{{MOST_MARKS + 1},}}")

LONGEST_ASIDE = 60  # characters between brackets; longer ones are bracketed speech
DEEPEST = 3  # brackets in brackets
#: Brackets of these kinds hold sounds that are not spoken words.
_ASIDE = re.compile(
    rf"\[[^\[\]]{{0,{LONGEST_ASIDE}}}\]|<[^<>]{{0,{LONGEST_ASIDE}}}>|\{{[^{{}}]{{0,{LONGEST_ASIDE}}}\}}"
    rf"|\([^()]{{0,{LONGEST_ASIDE}}}\)|（[^（）]{{0,{LONGEST_ASIDE}}}）|【[^【】]{{0,{LONGEST_ASIDE}}}】"
    rf"|［[^［］]{{0,{LONGEST_ASIDE}}}］|〔[^〔〕]{{0,{LONGEST_ASIDE}}}〕"
    rf"|(?<!\*)\*+[^*]{{1,{LONGEST_ASIDE}}}\*+"
)
#: Unbracketed marks of corpora for an unknown word, noise or silence: counted only in texts without
#: words, since beside words they may be words.
_BARE = frozenset(("UNK", "SIL", "SPN", "NSN", "NOISE", "xxx", "spn", "nsn", "sil"))
#: Languages in which `sil` is a word: delete (Turkish and its kin), sand eel or sieve, spawn.
_WITH_SIL = frozenset(("tr", "az", "crh", "tk", "ku", "da", "no", "nb", "nn", "sv", "is", "cy"))

_SOUNDS = (
    r"sil(?:ence)?|spn|nsn|eps|(?:[a-z]+[ _-])?noise|vocnoise|music|pause|breath(?:ing|s)?|"
    r"inhales?|exhales?|(?:lip[ _-]?)?smacks?|laugh(?:ter|ing|s)?|chuckles?|cough(?:s|ing)?|"
    r"sneezes?|sniffs?|sighs?|clicks?|static|hes(?:itation)?|applause|[be]_trans|iver"
)
#: A word spoken laughing: `[laughter-yes]` of Switchboard, `<LAUGH-yes>` of Buckeye.
_LAUGHED = re.compile(r"[\[<]laugh(?:ter)?-([^\W\d_][^\[\]<>\s]*)[\]>]", re.IGNORECASE)
#: Marks of sounds that are not words in any language: `!SIL` (HTK, Kaldi), `++breath++` (Sphinx),
#: `<sil>`, `[noise]`, `{laugh}`, `(( ))` (Kaldi, LDC, Switchboard, TED-LIUM, Buckeye), and `&-um`,
#: `&=laughs`, `&+fra` (CHAT).
_SOUND = re.compile(
    r"(?<!\S)(?:!(?:SIL|NULL|ENTER|EXIT|NOISE|SPN|NSN)|\+\+[a-z_]{1,30}\+\+|&[-=+~][^\W\d_]\S*)(?!\S)"
    rf"|<(?:{_SOUNDS}|/?s)>|\[(?:{_SOUNDS})\]|\{{(?:{_SOUNDS})\}}|\(\( *\)\)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")
#: How these marks begin.
_SOUND_BEGINS = re.compile(r"[<\[{!]|\+\+|&[-=+~]|\(\(")


def clean(text: str) -> str:
    """The text as it is stored and packaged. Idempotent."""
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


def without_sounds(text: str) -> str:
    """The text without marks of sounds: "so [noise] it ++um++ is" -> "so it is"; may be ""."""
    if not _SOUND_BEGINS.search(text):  # most texts
        return text
    return " ".join(_SOUND.sub(" ", without_laughing(text)).split())


def without_laughing(text: str) -> str:
    """The text with words that are spoken laughing as such: "[laughter-yes]" -> "yes"."""
    return _LAUGHED.sub(r"\1", text)


def mark(sound: str) -> str:
    """CHAT's mark of a sound as somebody wrote it: "[door slams]" -> "&=door_slams"; "" for a sound
    without a name."""
    name = "_".join(_WORD.findall(sound))
    return f"&={name}" if name[:1].isalpha() else ""


def sounds(text: str) -> list[tuple[int, str]]:
    """The marks of sounds in a text: how many of its words stand before each, and the sound's
    name."""
    if not _SOUND_BEGINS.search(text):
        return []
    text = without_laughing(text)
    marks: list[tuple[int, str]] = []
    words = end = 0
    for match in _SOUND.finditer(text):
        words += len(text[end : match.start()].split())
        end = match.end()
        marks.append((words, " ".join(_WORD.findall(match[0]))))
    return marks


def unmarked(text: str) -> str:
    """`without_sounds`, except that a text without any word stays unchanged, for `wordless`."""
    rest = without_sounds(text)
    return rest if any(map(str.isalnum, rest)) else text


def wordless(text: str, language: str = "") -> bool:
    """Whether a non-empty text holds nothing to speak: only marks, and words in brackets."""
    if text[:1].isalnum() and text.split(None, 1)[0] not in _BARE:  # most texts
        return False
    rest = without_sounds(text)
    for _ in range(DEEPEST):
        rest = _ASIDE.sub(" ", rest)
    words = [word for word in rest.split() if any(map(str.isalnum, word))]
    bare = _BARE - {"sil"} if language in _WITH_SIL else _BARE
    return all(word in bare for word in words)
