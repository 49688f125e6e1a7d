"""Drops utterances whose reference is not the text that was spoken.

The character error rate distinguishes an unrelated text from a badly recognised one. Two unrelated
English sentences differ in 0.7 and more of their characters, in scripts without spaces in nearly
all, so each kind has its column and limit. `max_wer` is for users who want good agreement.

Nothing is judged without a reference; nor, except by `max_wer`, with the recogniser `fake` or a
reference so short (one word, or four characters without spaces) that one misheard word is all of
it.
"""

from ..scoring import UNSPACED_CHARACTER, said
from . import Limit, Rule, ScoredTranscript, StageSettings, Threshold, words

COLUMNS = {
    "error_rate_spaced": ("1", "CER against a reference in a script with spaces"),
    "error_rate_unspaced": ("1", "CER against a reference in a script without spaces"),
}
LEAST_WORDS = {"spaced": 2, "unspaced": 5}


class Settings(StageSettings):
    max_spaced: float | None = Threshold(
        0.6, "Largest character error rate in scripts with spaces.", ge=0
    )
    max_unspaced: float | None = Threshold(
        0.8, "Largest character error rate in scripts without spaces.", ge=0
    )
    max_wer: float | None = Threshold(
        None, "Largest word error rate; characters, where a script has no spaces.", ge=0
    )


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    rates: dict[str, float | None] = dict.fromkeys(COLUMNS)
    if heard.cer is None or heard.reference is None or not heard.listened:
        return rates
    spoken = words(said(heard.reference, heard.language))
    letters = "".join(spoken)
    unspaced = 0 if letters.isascii() else len(UNSPACED_CHARACTER.findall(letters))
    kind = "unspaced" if 2 * unspaced > len(letters) else "spaced"
    if len(spoken) >= LEAST_WORDS[kind]:
        rates[f"error_rate_{kind}"] = heard.cer
    return rates


def verdict(settings: Settings) -> tuple[Rule, ...]:
    reason = "high_error_rate"
    return (
        Limit("error_rate_spaced", max=settings.max_spaced, high=reason, detail="CER"),
        Limit("error_rate_unspaced", max=settings.max_unspaced, high=reason, detail="CER"),
        Limit("wer", max=settings.max_wer, high=reason, detail="WER"),
    )
