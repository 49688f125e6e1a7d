"""One script for Mandarin texts.

Whisper mixes simplified and traditional characters, and a corpus of both has two units for one
character. Simplified is the default because recognisers are trained and scored with it: AISHELL,
WenetSpeech and WeNet use it. Cantonese stays as it is; it is written in traditional characters,
some of which (嘅, 冇) no conversion knows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from tasks.asr import Transcript, Word

if TYPE_CHECKING:
    from opencc import OpenCC

Script = Literal["as_heard", "simplified", "traditional"]
MANDARIN = "zh"
#: OpenCC's names; it picks by the word where a character has several forms.
_CONFIGURATIONS = {"simplified": "t2s", "traditional": "s2t"}


@lru_cache(maxsize=2)
def _converter(script: str) -> OpenCC:
    from opencc import OpenCC

    return OpenCC(_CONFIGURATIONS[script])


def written(heard: Transcript, script: Script) -> Transcript:
    """The transcript in a script; other languages as they are."""
    if script == "as_heard" or heard.language != MANDARIN or not heard.text:
        return heard
    text: str = _converter(script).convert(heard.text)
    return replace(heard, text=text, words=_words(heard, text, script))


def _words(heard: Transcript, text: str, script: str) -> tuple[Word, ...] | None:
    """Words cut from the converted text; converted one by one where its length changed."""
    if not heard.words:
        return heard.words
    if len(text) != len(str(heard.text)):
        convert = _converter(script).convert
        return tuple(replace(word, word=convert(word.word)) for word in heard.words)
    converted = []
    first = heard.words[0].word
    position = len(first.lstrip()) - len(first)  # the text has no space before its first word
    for word in heard.words:
        end = position + len(word.word)
        space = " " * max(0, -position)
        converted.append(replace(word, word=space + text[max(0, position) : end]))
        position = end
    return tuple(converted)
