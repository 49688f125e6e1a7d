"""Word and character error rates, as exact counts that can be summed.

Error rate = (substitutions + deletions + insertions) / length of the reference, over the whole set,
never a mean of the clips' rates: a clip of two words would weigh as much as one of forty.

Both sides go through the same normalisation rule: that of the language the source states; else that
of the script of its reference; only then that of the recognised language, because a wrong language
would bring a wrong rule (`language_of`). Values derived from stored texts carry `scoring`, the
language of their rule.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from ..base.schema import TranscriptRow
from ._plain import HAN, KANA, UNSPACED
from .cleaning import clean, wordless
from .normalisers import LONGEST, base, normalise
from .said import spoken

_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_HANGUL = re.compile("[\u1100-\u11ff\uac00-\ud7a3]")
_EAST_ASIAN = {"ja", "ko", "yue", "zh"}


class Score(NamedTuple):
    """Errors against a reference: counts, and their rates.

    A rate is None if the reference is empty; all errors are then insertions.
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


def language_of(stated: str | None, reference: str | None, heard: str | None) -> str:
    """The language whose rule is used for comparison; "" is the plain rule.

    Only scripts of few languages count: kana, Hangul, Han. A reference in another script is never
    compared as Chinese, Japanese or Korean, whatever language was recognised.
    """
    if stated:
        return base(stated)
    guess = base(heard or "")
    if not reference:
        return guess
    letters = sum(map(str.isalpha, reference))
    kana, hangul, han = (len(s.findall(reference)) for s in (KANA, _HANGUL, HAN))
    if 2 * (kana + hangul + han) <= letters:
        return "" if guess in _EAST_ASIAN else guess
    if hangul > kana + han:
        return "ko"
    if kana:
        return "ja"
    return guess if guess in ("ja", "yue") else "zh"


def words(normalised: str) -> list[str]:
    """Words of a normalised text; each character of an unspaced script is one."""
    return _WORD.findall(normalised)


def score(reference: str, hypothesis: str, language: str) -> Score:
    """Fewest edits from the reference to the hypothesis, both normalised first.

    Characters include the single spaces between words, as in jiwer.
    """
    return _counts(*_both(reference, hypothesis, language), language)


def _both(reference: str, hypothesis: str, language: str) -> tuple[str, str]:
    from .readings import agreed  # here: runs without texts do not need it

    if max(len(reference), len(hypothesis)) > LONGEST:  # the same rule for both
        return normalise(reference, ""), normalise(hypothesis, "")
    return agreed(reference, hypothesis, language)


def _counts(reference: str, hypothesis: str, language: str) -> Score:
    """Counts for normalised texts. Figures count as spoken: otherwise "66218688" would be one
    word."""
    from rapidfuzz.distance import Levenshtein

    reference, hypothesis = spoken(reference, language), spoken(hypothesis, language)
    reference_words = words(reference)
    return Score(
        words=len(reference_words),
        word_errors=Levenshtein.distance(reference_words, words(hypothesis)),
        chars=len(reference),
        char_errors=Levenshtein.distance(reference, hypothesis),
    )


def scored(row: TranscriptRow, reference: str | None, stated: str | None) -> TranscriptRow:
    """A row of TRANSCRIPTS with all values derived from `raw_text`, the recognised language, and
    the source's current text (clean) and language; the row itself if it is up to date.

    Counts are null without a recogniser, or without a reference that holds words.
    """
    reference = reference or None
    likely = base(stated or row["language"] or "") if reference else ""
    words_in_it = bool(reference) and not wordless(reference or "", likely)
    language = language_of(stated, reference, row["language"])
    if row.get("scoring") == language and row["reference"] == reference:
        return row
    raw = row["raw_text"]
    read, heard = _both(reference or "", raw or "", language) if reference or raw else ("", "")
    counts = _counts(read, heard, language) if words_in_it and raw is not None else None
    words, word_errors, chars, char_errors = counts or (None, None, None, None)
    return {
        **row,
        "raw_text": raw,
        "text": None if raw is None else clean(raw),
        "normalised": None if raw is None else heard,
        "reference": reference,
        "reference_normalised": read if reference else None,
        "words": words,
        "word_errors": word_errors,
        "chars": chars,
        "char_errors": char_errors,
        "scoring": language,
    }


def total(scores: Iterable[Score]) -> Score:
    """The sum of counts; its rates are those of the whole set."""
    return Score(*map(sum, zip(Score(0, 0, 0, 0), *scores, strict=True)))
