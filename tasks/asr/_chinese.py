"""One script for Mandarin: Whisper writes simplified or traditional characters as it happens, and a
corpus of both has two units for one character.

Simplified is the default because the units that recognisers are trained and scored with are:
AISHELL, WenetSpeech and WeNet's own. Cantonese stays as it is heard; it is written in traditional
characters, some of which (嘅, 冇) no conversion knows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from tasks.asr import Transcript

Script = Literal["as_heard", "simplified", "traditional"]
MANDARIN = "zh"
#: OpenCC's own names; words decide where a character has several forms.
_CONFIGURATIONS = {"simplified": "t2s", "traditional": "s2t"}


@lru_cache(maxsize=2)
def _converter(script: str) -> Any:
    from opencc import OpenCC

    return OpenCC(_CONFIGURATIONS[script])


def written(heard: Transcript, script: Script) -> Transcript:
    """The transcript in a script; other languages as they are."""
    if script == "as_heard" or heard.language != MANDARIN or not heard.text:
        return heard
    text: str = _converter(script).convert(heard.text)
    return replace(heard, text=text, words=_words(heard, text, script))


def _words(heard: Transcript, text: str, script: str) -> Any:
    """Words cut out of the text that was converted whole; one by one where its length changed."""
    if not heard.words:
        return heard.words
    if len(text) != len(str(heard.text)):
        convert = _converter(script).convert
        return tuple(replace(word, word=convert(word.word)) for word in heard.words)
    found = []
    at = -_led(heard)
    for word in heard.words:
        end = at + len(word.word)
        space = " " * max(0, -at)
        found.append(replace(word, word=space + text[max(0, at) : end]))
        at = end
    return tuple(found)


def _led(heard: Transcript) -> int:
    """Spaces before the first word, which the text has not."""
    first = heard.words[0].word if heard.words else ""
    return len(first) - len(first.lstrip())
