"""Drops utterances with an empty text, or with a reference that holds no words (`[inaudible]`)."""

from . import Limit, Rule, StageSettings, Threshold


class Settings(StageSettings):
    min_chars: int = Threshold(1, "Fewest characters of text.", ge=1)


def verdict(settings: Settings) -> tuple[Rule, ...]:
    empty = Limit("text_chars", min=settings.min_chars, low="empty_text")
    return (empty, Limit("words", min=1, low="no_words_in_reference"))
