"""Drops texts that cannot have been spoken in the time: characters a second.

Letters count, punctuation and spaces do not; figures count as their words (`tasks.scoring.said`).
Scripts whose characters are syllables (Han, kana, Hangul) have a column and limits of their own; in
the others a syllable takes about three letters. Languages are spoken with 5 to 8 syllables a second
(Coupé et al. 2019, doi 10.1126/sciadv.aaw2594), fast speakers reach 10, or 30 letters; kana are
morae, up to 12. Shorter clips count as one second. The text of a reference is judged only if a
recogniser ran, which may confirm it.
"""

import re

from . import Exemption, ScoredTranscript, Threshold

COLUMNS = {
    "char_rate_alphabetic": ("1/s", "letters a second; null for texts in syllabic scripts"),
    "char_rate_syllabic": ("1/s", "Han, kana or Hangul characters a second; null for others"),
}
REASONS = dict.fromkeys(COLUMNS, ("too_slow", "too_fast"))
LEAST_SECONDS = 1.0
LETTERS = 3.0  # per syllable
_SYLLABIC = re.compile(
    "[\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]"
)


class Settings(Exemption):
    min_alphabetic: float | None = Threshold(1.0, "Fewest letters a second.", ge=0)
    max_alphabetic: float | None = Threshold(30.0, "Most letters a second.", gt=0)
    min_syllabic: float | None = Threshold(
        0.5, "Fewest Han, kana or Hangul characters a second.", ge=0
    )
    max_syllabic: float | None = Threshold(
        12.0, "Most Han, kana or Hangul characters a second.", gt=0
    )


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    rates: dict[str, float | None] = dict.fromkeys(COLUMNS)
    text = "".join(heard.spoken)
    if not text or (heard.text_source == "reference" and not heard.listened):
        return rates
    syllables = 0 if text.isascii() else len(_SYLLABIC.findall(text))
    letters = len(text) - syllables
    seconds = max(heard.seconds, LEAST_SECONDS)
    if LETTERS * syllables > letters:
        rates["char_rate_syllabic"] = (syllables + letters / LETTERS) / seconds
    else:
        rates["char_rate_alphabetic"] = (letters + LETTERS * syllables) / seconds
    return rates
