"""Moonshine tiny: a small English recogniser that comes complete in one wheel.

A second opinion beside Whisper, with another architecture, other training data and another runtime.
It transcribes English only, and returns neither scores nor a language. It copes worse with silence
and noise than Whisper, and without `no_speech_probability` the filters `silence` and `speech_ratio`
have to keep them out.

The engine's own voice detector is off. It keeps state between clips, so that a text would depend on
earlier clips, and its cuts lose words: on 41 clips of LibriSpeech, 18.9 % WER against 13.0 %. Clips
of more than 20 s are cut here, at the quietest place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from ..base import environment, language_codes
from ..base.arrays import RATE
from ..base.errors import ConfigError
from ..models import model_files, registry
from ..settings import StageSettings, Transient
from . import Abilities, SpeechClip, Transcript, _pieces
from ._pieces import EngineResult, Piece

if TYPE_CHECKING:
    from moonshine_voice.transcriber import Transcriber

VERSION = 1
FILES = ("encoder_model.ort", "decoder_model_merged.ort", "tokenizer.bin")
#: Samples per step of the engine's (idle) voice detector; the engine drops an incomplete last step.
STEP = 256
SHORTEST = RATE // 2  # samples; its convolutions fail below 0.1 s, so shorter clips are padded
#: Samples. It was trained on up to 30 s, but pieces of 13 to 20 s do better: on 140 s of joined
#: LibriSpeech, 7.2 % WER against 10.1 %.
LONGEST = 20 * RATE
_REMEDY = "pip install 'uttermill[moonshine]'"


class Settings(StageSettings):
    max_tokens_per_second: float = Field(
        6.5, gt=0, description="Most tokens per second of audio; ends a text that runs in a loop."
    )
    all_cores: bool = Transient(
        False, "One thread per core instead of one in total: for a single worker."
    )


def weights(settings: Settings) -> str:
    """sha256 over the sha256 of each file, in the order of FILES. ConfigError when the wheel is
    missing or incomplete."""
    folder = locate()
    if lacking := [name for name in FILES if not (folder / name).is_file()]:
        raise ConfigError(
            f"the package moonshine-voice lacks {', '.join(lacking)}: {_REMEDY} --force-reinstall"
        )
    hashes = (bytes.fromhex(model_files.sha256(folder / name)) for name in FILES)
    return hashlib.sha256(b"".join(hashes)).hexdigest()


def model_bytes(settings: Settings) -> int:
    return registry.MOONSHINE.size


def abilities(settings: Settings) -> Abilities:
    return Abilities(("en",), LONGEST / RATE, (), "MIT")


def language_fault(settings: Settings, language: str) -> str | None:
    english = language_codes.base(language) in ("en", "eng")
    return None if english else f"moonshine recognises English only, not {language!r}"


def locate() -> Path:
    """The model's folder in the wheel, which is not imported. ConfigError when it is missing."""
    folder = model_files.home(registry.MOONSHINE)
    if folder is None:
        raise ConfigError(f"the recogniser moonshine is not installed: {_REMEDY}")
    return folder


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._transcriber = _load(settings)
        self._engine = _pieces.Engine(self._hear, LONGEST, most=1, timed=False)

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        refusals = [language_fault(self._settings, clip.language or "en") for clip in clips]
        return self._engine.transcripts(clips, ["en"] * len(clips), refusals)

    def _hear(self, pieces: list[Piece]) -> list[EngineResult]:
        """One at a time: the engine has no batches."""
        from moonshine_voice.errors import MoonshineError

        [(samples, _)] = pieces
        if not samples.any():
            return [EngineResult("")]
        whole = -(-max(len(samples), SHORTEST) // STEP) * STEP
        try:
            heard = self._transcriber.transcribe_without_streaming(
                _pieces.padded(samples, whole).tolist(), RATE
            )
        except MoonshineError as error:
            return [_pieces.failed(error)]
        return [EngineResult(" ".join(" ".join(line.text for line in heard.lines).split()))]


def _load(settings: Settings) -> Transcriber:
    """The native engine. ConfigError when its library cannot be loaded."""
    weights(settings)
    options = {
        "vad_threshold": "0",
        "return_audio_data": "false",
        "max_tokens_per_second": str(settings.max_tokens_per_second),
    }
    try:
        from moonshine_voice.moonshine_api import ModelArch
        from moonshine_voice.transcriber import Transcriber

        # The engine reads it when it creates sessions, and has no option for it.
        single = {} if settings.all_cores else {"MOONSHINE_ORT_SINGLE_THREAD": "1"}
        with environment.setting(single):
            return Transcriber(str(locate()), ModelArch.TINY, options=options)
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigError(f"the recogniser moonshine cannot be loaded: {error}") from error
