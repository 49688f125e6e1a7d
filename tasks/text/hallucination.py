"""Drops texts that recognisers are known to invent without speech: credits of subtitles, thanks.

Credits ("subtitles by the amara.org community") count as the whole text or as its end, "thanks for
watching" only as the whole text. "Thank you", which people also say alone, counts if it would be
spoken very slowly and the recogniser was not sure. A repeated phrase counts like a single one.
Texts of references are not judged. The phrases are in `_hallucinations.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tasks.plugins.rules import Limit, Rule, Within
from tasks.settings import Threshold
from tasks.text import Exemption, ScoredTranscript, _hallucinations, words

COLUMNS = {
    "hallucination_credits": ("1", "1 where the text is a credit or ends with one, else 0"),
    "hallucination_pace": ("s", "audio for each word of a text that may be one, else 0"),
}
Phrases = dict[str, set[tuple[str, ...]]]  # by their last word


class Settings(Exemption):
    max_credits: float | None = Threshold(0, "0 drops credits, 1 keeps them.", ge=0)
    max_pace: float | None = Threshold(
        0.8, "Most seconds for each word of an ordinary sentence that may be one.", ge=0
    )
    unless_logprob: float | None = Threshold(
        -0.5,
        "A mean log-probability from here on says that an ordinary sentence was said; "
        "null: none does.",
        le=0,
    )


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    if heard.text_source != "asr" or not heard.words:
        return dict.fromkeys(COLUMNS)
    said = _without_year(heard.words)
    ends, whole, ordinary = _lists()
    credit = any(said[-len(p) :] == p for p in ends.get(said[-1], ())) or _is_one(said, whole)
    pace = heard.seconds / len(said) if _is_one(said, ordinary) else 0.0
    return {"hallucination_credits": float(credit), "hallucination_pace": pace}


@lru_cache(maxsize=1)
def _lists() -> tuple[Phrases, ...]:
    kinds = (_hallucinations.CREDITS, _hallucinations.CHANNELS, _hallucinations.ORDINARY)
    return tuple(_by_last_word(kind.values()) for kind in kinds)


def _by_last_word(groups: Iterable[tuple[str, ...]]) -> Phrases:
    found: Phrases = {}
    for text in (text for group in groups for text in group):
        phrase = _without_year(words(text))
        found.setdefault(phrase[-1], set()).add(phrase)
    return found


def _without_year(said: Sequence[str]) -> tuple[str, ...]:
    """Words without numbers at the end; a text of numbers alone stays unchanged."""
    end = len(said)
    while end > 1 and said[end - 1].isdigit():
        end -= 1
    return tuple(said[:end])


def _is_one(said: tuple[str, ...], phrases: Phrases) -> bool:
    """Whether a text is one of the phrases, once or several times."""
    return any(
        len(said) % len(phrase) == 0 and phrase * (len(said) // len(phrase)) == said
        for phrase in phrases.get(said[-1], ())
    )


def verdict(settings: Settings) -> tuple[Rule, ...]:
    sure = settings.unless_logprob
    likely = () if sure is None else (Within("avg_logprob", min=sure),)
    unless = settings.confirmed
    return (
        Limit(
            "hallucination_credits", max=settings.max_credits, high="hallucination", unless=unless
        ),
        Limit(
            "hallucination_pace",
            max=settings.max_pace,
            high="hallucination",
            unless=(*likely, *unless),
        ),
    )
