"""Settings of the recogniser onnx_asr, and the families of models that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from tasks.settings import StageSettings, Transient
from tasks.settings.base import WORDS

#: Names of the library onnx-asr (0.12), as `model_type` in a model's config.json has them.
Family = Literal[
    "nemo-conformer-ctc",
    "nemo-conformer-rnnt",
    "nemo-conformer-tdt",
    "nemo-conformer-aed",
    "gigaam-v2-ctc",
    "gigaam-v2-rnnt",
    "gigaam-v3-e2e-ctc",
    "gigaam-v3-e2e-rnnt",
    "gigaam-multilingual-ctc",
    "kaldi-rnnt",
    "vosk",
    "whisper",
    "whisper-ort",
]


@dataclass(frozen=True, slots=True)
class Kind:
    """`longest`: most audio at once, s. `step`: seconds between two tokens' times; 0: it gives no
    times. `scored`: it gives log-probabilities. `alone`: a batch would change a text. `asked`: it
    is told the language."""

    longest: float
    step: float = 0.0
    scored: bool = True
    alone: bool = False
    asked: bool = False


# NeMo's Parakeet was trained on up to 40 s, Canary too; GigaAM's limit is 25 s; Whisper's window
# is 30 s. A Canary decoder goes on with clips of a batch that have ended, and
# GigaAM's features at the end of a clip depend on the padding: each of those is heard alone.
KINDS: Mapping[str, Kind] = {
    "nemo-conformer-ctc": Kind(40.0, 0.08),
    "nemo-conformer-rnnt": Kind(40.0, 0.08),
    "nemo-conformer-tdt": Kind(40.0, 0.08),
    "nemo-conformer-aed": Kind(40.0, alone=True, asked=True),
    "gigaam-v2-ctc": Kind(25.0, 0.04, alone=True),
    "gigaam-v2-rnnt": Kind(25.0, 0.04, alone=True),
    "gigaam-v3-e2e-ctc": Kind(25.0, 0.04, alone=True),
    "gigaam-v3-e2e-rnnt": Kind(25.0, 0.04, alone=True),
    "gigaam-multilingual-ctc": Kind(25.0, 0.04, alone=True),
    "kaldi-rnnt": Kind(30.0, 0.04),
    "vosk": Kind(30.0, 0.04),
    "whisper": Kind(30.0, scored=False, asked=True),
    "whisper-ort": Kind(30.0, scored=False, asked=True),
}


class Settings(StageSettings):
    model: str | None = Transient(
        None, "Folder of the model: its ONNX graphs, vocabulary and config.json."
    )
    family: Family | None = Field(
        None, description="Kind of model; default: model_type in its config.json."
    )
    quantization: str | None = Transient(
        None,
        "Which graphs of the folder: int8 takes encoder-model.int8.onnx, say.",
        pattern=r"^[A-Za-z0-9_-]+$",
    )
    language: str | None = Field(
        None,
        description="Language of clips whose source forces none: ISO 639-1. Only for Whisper and "
        "Canary; Canary defaults to English.",
        json_schema_extra=WORDS,
    )
    max_seconds: float | None = Field(
        None,
        ge=1,
        description="Most audio at once, s; longer clips are cut where it is quietest. Default: 25 "
        "(GigaAM), 30 (Whisper, Zipformer) or 40 (NeMo).",
    )
    word_timestamps: bool = Field(
        False,
        description="Also store when each word was said, in s: the column word_times. Whisper and "
        "Canary give no times.",
    )
    device: Literal["auto", "cpu", "cuda"] = Transient(
        "auto", "auto: a GPU where there is one and ONNX Runtime can use it."
    )
    batch_size: int = Transient(8, "Clips at once; halved for good when memory runs out.", ge=1)
    threads: int = Transient(1, "CPU threads of a worker.", ge=1)
