"""Word and character error rates, as exact counts that can be added up.

Error rate = (substitutions + deletions + insertions) / length of the reference, over the whole
set, never a mean of the clips' rates: a clip of two words would weigh as much as one of forty.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rapidfuzz.distance import Levenshtein

#: Scripts written without spaces; a character stands for a word, by script and not by language,
#: since the language that was heard may be wrong. Han, kana, bopomofo; Thai, Lao, Burmese, Khmer.
UNSPACED = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
)
_AROUND = re.compile(rf"\s*([{UNSPACED}])\s*")
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_APOSTROPHES = str.maketrans(dict.fromkeys("‘’ʼ＇`´", "'"))
_LOOSE_APOSTROPHE = re.compile(r"(?<!\w)'|'(?!\w)")
#: Turkish and Azeri have a dotless i, which casefold() does not know.
_DOTLESS = {"tr", "az"}


@dataclass(frozen=True, slots=True)
class Score:
    """Errors against a reference: counts, and rates of them.

    A rate is None where the reference is empty; errors are then all insertions.
    """

    words: int
    word_errors: int
    chars: int
    char_errors: int

    @property
    def wer(self) -> float | None:
        return self.word_errors / self.words if self.words else None

    @property
    def cer(self) -> float | None:
        return self.char_errors / self.chars if self.chars else None


def normalise(text: str, language: str) -> str:
    """Text as it is compared: "“It's — GOOD!”" -> "it's good".

    NFKC, casefold, punctuation and symbols out (apostrophes inside words stay), whitespace
    squeezed, none around characters of scripts that write none.
    """
    # Before NFKC, which makes a space with an accent of an acute one that serves as apostrophe.
    text = unicodedata.normalize("NFKC", text.translate(_APOSTROPHES))
    if language in _DOTLESS:
        text = text.replace("I", "ı").replace("İ", "i")
    text = unicodedata.normalize("NFKC", text.casefold())
    text = "".join(c if _kept(c) else " " for c in text)
    text = _LOOSE_APOSTROPHE.sub(" ", text)
    return _AROUND.sub(r"\1", " ".join(text.split()))


def _kept(char: str) -> bool:
    return char == "'" or unicodedata.category(char)[0] in "LMN"


def words(normalised: str) -> list[str]:
    """Words of a normalised text; each character of an unspaced script is one."""
    return _WORD.findall(normalised)


def score(reference: str, hypothesis: str, language: str) -> Score:
    """Least edits that make the reference of the hypothesis, both normalised first.

    Characters count the single spaces between words, as in jiwer.
    """
    said, heard = normalise(reference, language), normalise(hypothesis, language)
    said_words = words(said)
    return Score(
        words=len(said_words),
        word_errors=Levenshtein.distance(said_words, words(heard)),
        chars=len(said),
        char_errors=Levenshtein.distance(said, heard),
    )


def columns(reference: str | None, heard: str | None, language: str | None) -> dict[str, Any]:
    """Error counts against a reference as columns of a transcript; null where there is none, or
    where nobody listened."""
    if not reference or heard is None:
        counts = dict.fromkeys(("words", "word_errors", "chars", "char_errors"))
        return {"reference": reference or None, **counts}
    s = score(reference, heard, language or "en")
    return {
        "reference": reference, "words": s.words, "word_errors": s.word_errors,
        "chars": s.chars, "char_errors": s.char_errors,
    }  # fmt: skip


def total(scores: Iterable[Score]) -> Score:
    """Sum of counts; its rates are those of the whole set."""
    sums = [0, 0, 0, 0]
    for s in scores:
        for i, count in enumerate((s.words, s.word_errors, s.chars, s.char_errors)):
            sums[i] += count
    return Score(*sums)
