"""A plug-in on text for tests: a label by the number of words, and each word as an event."""

from typing import Any

from uttermill.tasks.api import (
    Allowed,
    Event,
    Events,
    Label,
    Rule,
    ScoredTranscript,
    StageSettings,
    Threshold,
)

COLUMNS: dict[str, tuple[str, str]] = {}
ANNOTATIONS = {
    "moods": Label("whether the words are even or odd in number"),
    "moods_words": Events("each word, in equal parts of the clip"),
}


class Settings(StageSettings):
    allowed: tuple[str, ...] | None = Threshold(None, "Moods kept.")
    fault: bool = Threshold(False, "Give an event that is none.")


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return () if settings.allowed is None else (Allowed("moods", settings.allowed, "wrong_mood"),)


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, Any]:
    step = heard.seconds / max(len(heard.words), 1)
    events = [Event(n * step, (n + 1) * step, word) for n, word in enumerate(heard.words)]
    if settings.fault:
        events.append(Event(-1.0, 0.0, "before"))
    return {"moods": ["even", "odd"][len(heard.words) % 2], "moods_words": events}
