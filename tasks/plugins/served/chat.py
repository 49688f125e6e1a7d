"""Requests to `/v1/chat/completions`, and the text of an answer."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence

from ...base.json_types import JsonObject
from .client import Body

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
