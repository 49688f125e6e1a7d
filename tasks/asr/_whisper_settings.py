"""Settings of the recogniser faster_whisper."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field

from tasks.asr._chinese import Script
from tasks.settings import TRANSIENT, StageSettings

Size = Annotated[int, Field(ge=1)]
DEFAULT = "default"
#: On a CPU, beams of 4 clips share what they read from memory; 8 take more and save no time.
AUTO_SIZE = {"cpu": 4, "cuda": 16}
#: Codes that lists use, and Whisper's for the same language.
ALIASES = {"jv": "jw", "nb": "no", "cmn": "zh", "iw": "he", "fil": "tl", "in": "id"}


class Settings(StageSettings):
    # Where the model lies does not change a text; which model it is, `weights` says to the recipe.
    model: str = Field(
        default="base", json_schema_extra=TRANSIENT,
        description="base (bundled), the folder of a CTranslate2 Whisper model, or the name of one "
        "that the local Hugging Face cache holds.",
    )  # fmt: skip
    sha256: str | None = Field(
        default=None, pattern="^[0-9a-f]{64}$", json_schema_extra=TRANSIENT,
        description="Expected sha256 of model.bin; another one is refused.",
    )  # fmt: skip
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", json_schema_extra=TRANSIENT,
        description="auto takes a GPU where there is one; texts may differ between devices, "
        "and what is stored stays.",
    )  # fmt: skip
    compute_type: str = Field(
        default="auto",
        description="auto: float16 on a GPU, int8 on a CPU; else CTranslate2's name.",
    )
    beam_size: int = Field(default=5, ge=1, le=50, description="Hypotheses kept in beam search.")
    language: str | None = Field(
        default=None, description="Forces a language on clips whose source forces none."
    )
    prompt: str | dict[str, str] | None = Field(
        default=None, description="Text before each clip that sets the style; or one per language."
    )
    short_windows: Literal["auto"] | bool = Field(
        default="auto",
        description="Pad a clip to 15, 20, 25 or 30 s, as its length needs, instead of always to "
        "the 30 s that Whisper was trained on: half the CPU time for clips of about 10 s. auto: "
        "only with the bundled model base, whose texts were measured to be as good.",
    )
    chinese: Script = Field(
        default="simplified",
        description="Script of Mandarin texts: simplified or traditional (OpenCC), or as_heard, "
        "which mixes both. Cantonese stays as it is heard.",
    )
    word_timestamps: bool = Field(
        default=False, description="Also when each word was said: the column word_times."
    )
    batch_size: Literal["auto"] | Size | dict[str, Size] = Field(
        default="auto", json_schema_extra=TRANSIENT,
        description="Clips of up to 30 s at once, or one number per forced language and `default`; "
        "auto: 4 on a CPU, 16 on a GPU. Halved for good when memory runs out.",
    )  # fmt: skip
    threads: int | None = Field(
        default=None, ge=1, json_schema_extra=TRANSIENT,
        description="CPU threads of a worker; default: OMP_NUM_THREADS, which workers set to 1.",
    )  # fmt: skip

    def languages(self) -> dict[str, str]:
        """Every language that a setting names, by the setting's name."""
        named = {"language": self.language} if self.language is not None else {}
        if isinstance(self.prompt, dict):
            named |= {f"prompt.{key}": key for key in self.prompt}
        if isinstance(self.batch_size, dict):
            named |= {f"batch_size.{key}": key for key in self.batch_size if key != DEFAULT}
        return named

    def prompt_of(self, language: str) -> str | None:
        """Text before each clip of a language."""
        if isinstance(self.prompt, dict):
            prompt: str | None = _by_code(self.prompt).get(language)
            return prompt
        return self.prompt

    def size_of(self, language: str | None, device: str) -> int:
        """Clips of a forced language (None: not known yet) in one batch."""
        auto = AUTO_SIZE[device]
        if isinstance(self.batch_size, dict):
            sizes = _by_code(self.batch_size)
            return int(sizes.get(language or DEFAULT, sizes.get(DEFAULT, auto)))
        return auto if self.batch_size == "auto" else self.batch_size


def _by_code(mapping: dict[str, Any]) -> dict[str, Any]:
    return {code(key): value for key, value in mapping.items()}


def code(language: str) -> str:
    """Whisper's code of a language, if it knows it: `en` for `en-US`."""
    plain = re.split("[-_]", language.strip().lower())[0]
    return ALIASES.get(plain, plain)
