"""Finds spoken personal data: e-mail addresses, numbers of phones, cards, accounts, people.

Written and spoken forms ("john dot smith at gmail dot com", "four one five …"), in the languages
for which CLDR has words for numbers. `action: mask` writes `<PHONE>` in its place into all texts
that are published or shown; `drop` drops the clip. With `mute`, the audio of these words is
silence, where the recogniser gives times of words (`word_timestamps`); the column `muted` says
where. Checkpoints in OUT (`manifests`, `audio`) keep the original.

`python -m tests.bench.pii` measures what it misses: names and street addresses always. Needs `pip
install 'uttermill[pii]'`. Not among the defaults.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from ..plugins.contracts.text import Hidden
from . import WORDS, Limit, Rule, ScoredTranscript, StageSettings, Threshold, _personal_data

Kind = Literal["email", "account", "id", "card", "phone"]
COLUMNS = {
    "pii": ("1", "personal data found in the text, or in what was heard"),
    "pii_email": ("1", "e-mail addresses among it"),
    "pii_account": ("1", "numbers of accounts among it"),
    "pii_id": ("1", "numbers of persons among it"),
    "pii_card": ("1", "numbers of cards among it"),
    "pii_phone": ("1", "numbers of phones among it"),
    "pii_untimed": ("1", "places that were not found among words with times; null unless muted"),
}
ENGINES = {"phonenumbers": "parse"}


class Settings(StageSettings):
    action: Literal["mask", "drop"] = Threshold(
        "mask", "mask: write a mask in its place; drop: drop the clip as `pii`."
    )
    kinds: tuple[Kind, ...] = Threshold(
        ("email", "account", "id", "card", "phone"),
        "Kinds of personal data to look for.",
        min_length=1,
    )
    mute: bool = Threshold(
        False, "With mask: also silence the words, by the recogniser's times of words."
    )
    untimed: Literal["drop", "keep"] = Threshold(
        "drop", "With mute: drop clips whose words have no times, as `pii_untimed`, or keep them."
    )
    masks: dict[Kind, str] = Threshold(
        {}, "Masks by kind, in place of <EMAIL>, <ACCOUNT>, <ID>, <CARD>, <PHONE>.", mark=WORDS
    )


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    texts = {heard.text, heard.hypothesis or "", heard.reference or ""}
    texts |= {text for text, _ in heard.hypotheses}
    counts = [Counter(hit.kind for hit in _personal_data.hits(t, heard.language)) for t in texts]
    most = {
        f"pii_{kind}": max(count[kind] for count in counts) if kind in settings.kinds else 0
        for kind in _personal_data.KINDS
    }
    count = sum(most.values())
    untimed = None
    if settings.mute:
        timed = " ".join(word.strip() for word in heard.timed_words or ())
        untimed = float(max(count - len(hide(timed, heard.language, settings, count > 0)), 0))
    numbers = {name: float(number) for name, number in most.items()}
    return {"pii": float(count), **numbers, "pii_untimed": untimed}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    strict = 0 if settings.mute and settings.untimed == "drop" else None
    return (
        Limit("pii", max=0 if settings.action == "drop" else None, high="pii"),
        Limit("pii_untimed", max=strict, high="pii_untimed"),
    )


def mutes(settings: Settings) -> bool:
    return settings.mute and settings.action == "mask"


def hide(
    text: str, language: str | None, settings: Settings, thorough: bool = False
) -> Sequence[Hidden]:
    """Places to mask; `thorough`: also what only resembles personal data."""
    return [
        Hidden(hit.start, hit.end, settings.masks.get(hit.kind, f"<{hit.kind.upper()}>"))
        for hit in _personal_data.hits(text, language, thorough)
        if hit.kind in settings.kinds
    ]
