"""Drops texts that recognisers are known to invent without speech: credits of subtitles, thanks.

Credits ("subtitles by the amara.org community") count as the whole text or as its end, "thanks for
watching" only as the whole text; "thank you" if it would be spoken very slowly and the recogniser
was not sure. A repeated phrase counts like a single one. Texts of references are not judged. The
phrases are in `hallucinations.txt`.
"""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

from . import Exemption, Limit, Rule, ScoredTranscript, Threshold, sure, words

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
        "A mean log-probability of this or more confirms an ordinary sentence; null: none does.",
        le=0,
    )


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    if heard.text_source != "asr" or not heard.words:
        return dict.fromkeys(COLUMNS)
    spoken = _without_year(heard.words)
    lists = _lists()
    ends = any(spoken[-len(p) :] == p for p in lists["credits"].get(spoken[-1], ()))
    credit = ends or _is_one(spoken, lists["channels"])
    pace = heard.seconds / len(spoken) if _is_one(spoken, lists["ordinary"]) else 0.0
    return {"hallucination_credits": float(credit), "hallucination_pace": pace}


@lru_cache(maxsize=1)
def _lists() -> dict[str, Phrases]:
    """The phrases of each kind."""
    phrases: dict[str, Phrases] = {}
    kind = ""
    for line in (
        files("uttermill.tasks.text").joinpath("hallucinations.txt").read_text("utf-8").splitlines()
    ):
        if line.startswith("["):
            kind = line.strip("[]")
        elif line and not line.startswith("#"):
            phrase = _without_year(words(line))
            phrases.setdefault(kind, {}).setdefault(phrase[-1], set()).add(phrase)
    return phrases


def _without_year(spoken: Sequence[str]) -> tuple[str, ...]:
    """Words without numbers at the end; a text of numbers alone stays unchanged."""
    end = len(spoken)
    while end > 1 and spoken[end - 1].isdigit():
        end -= 1
    return tuple(spoken[:end])


def _is_one(spoken: tuple[str, ...], phrases: Phrases) -> bool:
    """Whether a text is one of the phrases, once or several times."""
    return any(
        len(spoken) % len(phrase) == 0 and phrase * (len(spoken) // len(phrase)) == spoken
        for phrase in phrases.get(spoken[-1], ())
    )


def verdict(settings: Settings) -> tuple[Rule, ...]:
    s, unless, reason = settings, settings.confirmed, "hallucination"
    likely = (*sure(s.unless_logprob), *unless)
    return (
        Limit("hallucination_credits", max=s.max_credits, high=reason, unless=unless),
        Limit("hallucination_pace", max=s.max_pace, high=reason, unless=likely),
    )
