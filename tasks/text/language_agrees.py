"""Drops utterances whose text is in another language than the one spoken.

A recogniser with a forced language, or one that mistakes music for speech, writes words of another
language; a source may pair its audio with a translation. The text alone is judged, by py3langid
(byte n-grams and naive Bayes, 140 languages; `pip install 'uttermill[language-id]'`), against the
language that was detected or forced. Null for texts of fewer than 20 bytes of UTF-8, and for
languages that py3langid does not know. Not among the defaults: it takes some 0.2 ms a text, and 3 s
once a process.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ..base.errors import ConfigError
from ..scoring.normalisers import base
from . import Exemption, ScoredTranscript, Threshold

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

COLUMNS = {"language_agrees": ("1", "probability that the text is in the language that is spoken")}
REASONS = {"language_agrees": ("text_language", "")}
ENGINES = {"py3langid.langid": "LanguageIdentifier"}
LEAST_BYTES = 20
#: Languages that are written nearly alike, and Whisper's own codes beside the usual ones.
_ALIKE = "zh yue wuu; no nb nn da; hr sr bs sh; id ms; gl pt; cs sk; hi ne mr; jw jv; tl fil"
_GROUPS = [{*group.split()} for group in _ALIKE.split(";")]


class Settings(Exemption):
    min: float | None = Threshold(0.05, "Least probability kept.", ge=0, le=1)


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    return {"language_agrees": _agreement(heard.text, base(heard.language or ""))}


@lru_cache(maxsize=65536)  # every view of a shard needs it again
def _agreement(text: str, language: str) -> float | None:
    if not language or len(text.encode()) < LEAST_BYTES:
        return None
    like = next((group for group in _GROUPS if language in group), {language})
    shares = dict(_identifier().rank(text))
    codes = like & shares.keys()
    return min(sum(shares[code] for code in codes), 1.0) if codes else None


@lru_cache(maxsize=1)
def _identifier() -> LanguageIdentifier:
    """The process's only one. Raises ConfigError if the library is missing."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as error:
        raise ConfigError(
            f"the rule language_agrees needs py3langid ({error}): "
            "pip install 'uttermill[language-id]'"
        ) from error
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
