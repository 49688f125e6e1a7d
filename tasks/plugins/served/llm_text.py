"""Punctuation and case by a language model behind `/v1/chat/completions`. Its answer is used only
if it has the same words as the text and no characters but letters, digits and punctuation."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ... import scoring
from ...base import masking
from ...base.errors import shortened
from ...settings.transcribe import LlmText
from ..contracts.text import words
from . import chat, client
from .client import Body, Client, Failed, Server, Service

WHERE = "transcribe.llm_text"
CONTROL = "hello there"  # a text that every working model answers
MARKUP = frozenset("*_#`~^|<>[]{}\\=@/")


@dataclass(frozen=True, slots=True)
class Written:
    """`answer`: the model's own; `text` to package, or None and the reason (`errors.CODES`)."""

    answer: str | None
    text: str | None
    reason: str = ""
    detail: str = ""


def check(settings: LlmText) -> None:
    """ConfigError if a setting is wrong; sends no request."""
    client.check(settings, WHERE, "llm_text")
    client.key(settings, WHERE)


SERVICE = Service(WHERE, "language model's server", "texts", LlmText.PATH, chat.parse)


class Writer:
    """A client of the model; kept by a worker process."""

    def __init__(self, settings: LlmText) -> None:
        check(settings)
        self._settings = settings
        self._client = Client(settings, SERVICE, client.key(settings, WHERE))

    def write(self, texts: Sequence[tuple[str, str]]) -> Iterator[Written]:
        """The model's result for each (text, language), in order. RunError if it cannot be used."""
        return self._client.each(texts, self._write)

    def _write(self, server: Server[str], asked: tuple[str, str]) -> Written:
        text, language = asked
        hint = f"{WHERE}.model, .prompt and .temperature (some models take none: null)"
        try:
            answer = self._client.ask(server, self._sent(text), lambda _: self._sent(CONTROL), hint)
        except Failed as fault:
            return Written(None, None, "no_answer", shortened(masking.sentence(str(fault))))
        return judged(text, answer, language)

    def _sent(self, text: str) -> Body:
        settings = self._settings
        return chat.sent(settings.model, settings.temperature, settings.prompt, text)


def judged(asked: str, answer: str, language: str) -> Written:
    """The answer's text, if both texts have the same words in the form of `text_form:
    normalised`."""
    text = scoring.clean(chat.bare(answer, asked))
    if not text:
        return Written(answer, None, "empty_answer")
    odd = {char for char in text if char in MARKUP or unicodedata.category(char)[0] == "S"}
    if odd := odd - {*asked}:
        return Written(answer, None, "odd_marks", " ".join(sorted(odd)))
    before, after = (words(scoring.training_text(form, language)) for form in (asked, text))
    if before != after:
        return Written(answer, None, "words_changed", shortened(text))
    return Written(answer, text)
