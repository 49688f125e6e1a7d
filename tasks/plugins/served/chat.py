"""Requests to `/v1/chat/completions`, and the text of an answer."""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ... import scoring
from ...base import masking
from ...base.errors import shortened
from ...base.json_types import JsonObject
from ...settings.transcribe import LlmText
from ..contracts.text import words
from . import client
from .client import Body, Client, Failed, Server, Service

ANSWER = "answer"  # key of a constrained reply
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"\A```[^\n`]*\n(.*?)\n?```\Z", re.DOTALL)
#: Pairs of marks that models put around a whole answer.
_AROUND = tuple(
    pair.split()
    for pair in ('" "', "“ ”", "„ “", "« »", "' '", "‘ ’", "「 」", "` `", "** **", "__ __", "* *")
)


def sent(
    model: str | None,
    temperature: float | None,
    instruction: str,
    text: str,
    wav: bytes | None = None,
    answers: Sequence[str] = (),
) -> Body:
    """A request about one text and, if given, its recording. With `answers`, the server must
    restrict the model to one of these: `{"answer": "news"}`."""
    content: str | list[JsonObject] = text
    if wav is not None:
        audio = {"data": base64.b64encode(wav).decode("ascii"), "format": "wav"}
        content = [
            {"type": "text", "text": text},
            {"type": "input_audio", "input_audio": audio},
        ]
    request: JsonObject = {
        "model": model,
        "messages": [
            {"role": "system", "content": instruction},
            {"role": "user", "content": content},
        ],
    }
    if temperature is not None:
        request["temperature"] = temperature
    if answers:
        one_of = {
            "type": "object",
            "properties": {ANSWER: {"type": "string", "enum": [*answers]}},
            "required": [ANSWER],
            "additionalProperties": False,
        }
        request["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": ANSWER, "strict": True, "schema": one_of},
        }
    return {"json": request}


def chosen(reply: str) -> str:
    """The choice in a reply to a request with `answers`; the reply itself if it is not such
    JSON."""
    try:
        return str(json.loads(bare(reply, ""))[ANSWER])
    except (ValueError, LookupError, TypeError):
        return reply


def parse(body: bytes) -> str:
    """The text of the first choice. ValueError if the body is not a chat completion."""
    answer = json.loads(body)
    try:
        content = answer["choices"][0]["message"]["content"]
    except (LookupError, TypeError):
        raise ValueError("no chat completion") from None
    if not isinstance(content, str | None):
        raise ValueError("no text")
    return content or ""


def bare(answer: str, asked: str) -> str:
    """An answer to the text `asked`: without a `<think>` part, and without a code fence or quotes
    around the whole."""
    text = _THOUGHTS.sub("", answer).strip()
    if fenced := _FENCE.match(text):
        text = fenced[1].strip()
    for first, last in _AROUND:
        inner = text.removeprefix(first).removesuffix(last)
        around = len(inner) == len(text) - len(first) - len(last)
        # The text's own first and last words may be quoted.
        if around and not asked.startswith(first) and first not in inner and last not in inner:
            text = inner.strip()
    return text


# Punctuation and case by a language model behind `/v1/chat/completions`. Its answer is used only
# if it has the same words as the text and no characters but letters, digits and punctuation.


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


SERVICE = Service(WHERE, "language model's server", "texts", LlmText.PATH, parse)


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
        return sent(settings.model, settings.temperature, settings.prompt, text)


def judged(asked: str, answer: str, language: str) -> Written:
    """The answer's text, if both texts have the same words in the form of `text_form:
    normalised`."""
    text = scoring.clean(bare(answer, asked))
    if not text:
        return Written(answer, None, "empty_answer")
    odd = {char for char in text if char in MARKUP or unicodedata.category(char)[0] == "S"}
    if odd := odd - {*asked}:
        return Written(answer, None, "odd_marks", " ".join(sorted(odd)))
    before, after = (words(scoring.training_text(form, language)) for form in (asked, text))
    if before != after:
        return Written(answer, None, "words_changed", shortened(text))
    return Written(answer, text)
