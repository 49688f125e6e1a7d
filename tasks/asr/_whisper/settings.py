"""Settings of the recogniser faster_whisper."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import Field

from ...base import language_codes
from ...settings import StageSettings, Transient
from ...settings.base import WORDS
from .. import Transcript, Word

if TYPE_CHECKING:
    from opencc import OpenCC


# One script for Mandarin texts.
#
# Whisper mixes simplified and traditional characters, and a corpus of both has two units for one
# character. Simplified is the default because recognisers are trained and scored with it:
# AISHELL, WenetSpeech and WeNet use it. Cantonese stays as it is; it is written in traditional
# characters, some of which (嘅, 冇) no conversion knows.

Script = Literal["as_heard", "simplified", "traditional"]
MANDARIN = "zh"
#: OpenCC's names; it picks by the word where a character has several forms.
_CONFIGURATIONS = {"simplified": "t2s", "traditional": "s2t"}


@lru_cache(maxsize=2)
def _converter(script: str) -> OpenCC:
    from opencc import OpenCC

    return OpenCC(_CONFIGURATIONS[script])


def in_script(heard: Transcript, script: Script) -> Transcript:
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


Size = Annotated[int, Field(ge=1)]
Value = TypeVar("Value")
DEFAULT = "default"
#: On a CPU, beam search of 4 clips shares its reads of the weights; 8 take more memory and save no
#: time.
AUTO_SIZE = {"cpu": 4, "cuda": 16}
#: Codes that lists use, and Whisper's for the same language.
ALIASES = {"jv": "jw", "nb": "no", "cmn": "zh", "iw": "he", "fil": "tl", "in": "id"}


class Settings(StageSettings):
    # Transient: the recipe has the model's hash (`weights`), whatever its folder.
    model: str = Transient(
        "base",
        "base (bundled), the folder of a CTranslate2 Whisper model, or the name of one "
        "that the local Hugging Face cache holds.",
    )
    sha256: str | None = Transient(
        None, "Expected sha256 of model.bin; any other is refused.", pattern="^[0-9a-f]{64}$"
    )
    device: Literal["auto", "cpu", "cuda"] = Transient(
        "auto",
        "auto: a GPU where there is one. Texts may differ between devices; those "
        "already stored are kept.",
    )
    compute_type: str = Field(
        "auto",
        description="auto: float16 on a GPU, int8 on a CPU; else CTranslate2's name.",
        json_schema_extra=WORDS,
    )
    beam_size: int = Field(5, ge=1, le=50, description="Hypotheses kept in beam search.")
    language: str | None = Field(
        None,
        description="Forces a language on clips whose source forces none.",
        json_schema_extra=WORDS,
    )
    prompt: str | dict[str, str] | None = Field(
        None,
        description="Text before each clip that sets the style; or one per language.",
        json_schema_extra=WORDS,
    )
    short_windows: Literal["auto"] | bool = Field(
        "auto",
        description="Pad a clip to 10, 15, 20, 25 or 30 s, as its length needs, instead of always "
        "to the 30 s that Whisper was trained on: half the CPU time for clips of about 10 s. auto: "
        "only with the bundled model base, whose texts were measured to be as good.",
    )
    share_windows: bool = Field(
        True,
        description="Transcribe consecutive utterances of a recording in windows of up to "
        "29 s, each after the text of the one before, for four minutes at a time: fewer errors on "
        "long recordings, in about the same CPU time. Not where the source gives segments. false: "
        "each utterance by itself.",
    )
    chinese: Script = Field(
        "simplified",
        description="Script of Mandarin texts: simplified or traditional (OpenCC), or as_heard, "
        "which mixes both. Cantonese stays as Whisper writes it.",
    )
    word_timestamps: bool = Field(
        False, description="Also store when each word was said, in s: the column word_times."
    )
    batch_size: Literal["auto"] | Size | dict[str, Size] = Transient(
        "auto",
        "Clips of up to 30 s at once, or one number per forced language and `default`; "
        "auto: 4 on a CPU, 16 on a GPU. Halved for good when memory runs out.",
        mark=WORDS,
    )
    threads: int | None = Transient(
        None, "CPU threads of a worker; default: OMP_NUM_THREADS, which workers set to 1.", ge=1
    )

    def languages(self) -> dict[str, str]:
        """The languages in the settings, by name of the setting."""
        named = {"language": self.language} if self.language is not None else {}
        if isinstance(self.prompt, dict):
            named |= {f"prompt.{key}": key for key in self.prompt}
        if isinstance(self.batch_size, dict):
            named |= {f"batch_size.{key}": key for key in self.batch_size if key != DEFAULT}
        return named

    def prompt_of(self, language: str) -> str | None:
        """Text before each clip of a language."""
        if isinstance(self.prompt, dict):
            return _by_code(self.prompt).get(language)
        return self.prompt

    def size_of(self, language: str | None, device: str) -> int:
        """Clips of a forced language (None: not known yet) in one batch."""
        auto = AUTO_SIZE[device]
        if isinstance(self.batch_size, dict):
            sizes = _by_code(self.batch_size)
            return sizes.get(language or DEFAULT, sizes.get(DEFAULT, auto))
        return auto if self.batch_size == "auto" else self.batch_size


def _by_code(mapping: dict[str, Value]) -> dict[str, Value]:
    return {code(key): value for key, value in mapping.items()}


def code(language: str) -> str:
    """Whisper's code of a language: `en` for `en-US`; an unknown language stays as it is."""
    plain = language_codes.base(language)
    return ALIASES.get(plain, plain)
