"""SenseVoice and Paraformer, by the library sherpa-onnx from a local folder.

SenseVoice (Chinese, Cantonese, English, Japanese, Korean) detects the language itself; a language
that a source forces is passed to it, and each one needs its own copy of the model in memory.
Paraformer transcribes Chinese and English. Nothing is downloaded. The engine runs on CPUs: PyPI's
build has no CUDA, and a second CUDA build of ONNX Runtime in one process crashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from ..base import language_codes
from ..base.arrays import RATE
from ..base.errors import ConfigError
from ..models import onnx_session
from ..settings import StageSettings, Transient
from . import Abilities, SpeechClip, Transcript, _model_folder, _pieces
from ._pieces import EngineResult, Piece
from ._words import mean, words

if TYPE_CHECKING:
    from sherpa_onnx import OfflineRecognizer

VERSION = 1
SHORTEST = RATE // 2  # samples; the engine stacks 7 frames of 25 ms, and shorter clips crash it
ENGINES = {"sherpa_onnx": "OfflineRecognizer"}
EXAMPLES = {
    "sense_voice": "csukuangfj/sherpa-onnx-sense-voice-zh-en-ja-ko-yue-2024-07-17",
    "paraformer": "csukuangfj/sherpa-onnx-paraformer-zh-2023-09-14",
}
LANGUAGES = {"sense_voice": ("zh", "yue", "en", "ja", "ko"), "paraformer": ("zh", "en")}
STEP = 0.06  # s between two frames of either model: six frames of 10 ms
#: Metadata that the engine reads of a graph; without one of them it ends the process.
_SHARED = ("vocab_size", "lfr_window_size", "lfr_window_shift", "neg_mean", "inv_stddev")
_LANGUAGES = tuple(f"lang_{code}" for code in ("auto", *LANGUAGES["sense_voice"]))
METADATA = {
    "sense_voice": (*_SHARED, "normalize_samples", "with_itn", "without_itn", *_LANGUAGES),
    "paraformer": _SHARED,
}
_LANGUAGE = re.compile(r"<\|(\w{2,3})\|>")


class Settings(StageSettings):
    model: str | None = Transient(
        None, "Folder of the model: model.onnx or model.int8.onnx, and tokens.txt."
    )
    family: Literal["sense_voice", "paraformer"] = Field(
        "sense_voice", description="Kind of model."
    )
    int8: bool = Transient(False, "Take model.int8.onnx of a folder that has both.")
    language: Literal["zh", "yue", "en", "ja", "ko"] | None = Field(
        None,
        description="Language of clips whose source forces none; default: SenseVoice detects it.",
    )
    itn: bool = Field(True, description="SenseVoice writes punctuation, and numbers as figures.")
    max_seconds: float = Field(
        30.0, ge=1, description="Most audio at once, s; longer clips are cut where it is quietest."
    )
    word_timestamps: bool = Field(
        False,
        description="Also store when each word was said, in s: the column word_times; some "
        "Paraformers give no times.",
    )
    batch_size: int = Transient(8, "Clips at once.", ge=1)
    threads: int = Transient(1, "CPU threads of a worker.", ge=1)


def abilities(settings: Settings) -> Abilities:
    licence, _ = _model_folder.card(settings.model)
    return Abilities(LANGUAGES[settings.family], settings.max_seconds, ("word_times",), licence)


def language_fault(settings: Settings, language: str | None) -> str | None:
    languages, code = LANGUAGES[settings.family], _base(language)
    if not code or code in languages:
        return None
    return f"{settings.family} recognises {', '.join(languages)} only, not {code!r}"


def weights(settings: Settings) -> str:
    return _model_folder.identity(_files(settings))


def model_bytes(settings: Settings) -> int:
    return _model_folder.size(_files(settings))


def _files(settings: Settings) -> tuple[Path, Path]:
    """(graph, tokens)."""
    folder = _model_folder.folder(settings.model, "sherpa_onnx", EXAMPLES[settings.family])
    graphs = [folder / "model.onnx", folder / "model.int8.onnx"][:: -1 if settings.int8 else 1]
    graph = next((path for path in graphs if path.is_file()), None)
    tokens = folder / "tokens.txt"
    lacking = [] if graph else ["model.onnx or model.int8.onnx"]
    lacking += [] if tokens.is_file() else ["tokens.txt"]
    if graph is None or lacking:
        raise ConfigError(
            f"transcribe.backend.model {settings.model!r} lacks {' and '.join(lacking)}"
        )
    _model_folder.checked(tokens)
    return graph, tokens


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings) -> None:
        weights(settings)
        _proven(settings)
        self._settings = settings
        self._loaded: dict[str, OfflineRecognizer] = {}
        self._model(settings.language)
        self._engine = _pieces.Engine(
            self._hear,
            longest=round(settings.max_seconds * RATE),
            most=settings.batch_size,
            timed=settings.word_timestamps,
        )

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        languages = [_base(clip.language) or self._settings.language for clip in clips]
        refusals = [language_fault(self._settings, language) for language in languages]
        return self._engine.transcripts(clips, languages, refusals)

    def _model(self, language: str | None) -> OfflineRecognizer:
        """The model for `language`; None to detect it."""
        key = (language or "") if self._settings.family == "sense_voice" else ""
        if key not in self._loaded:
            self._loaded[key] = _load(self._settings, key)
        return self._loaded[key]

    def _hear(self, pieces: list[Piece]) -> list[EngineResult]:
        model = self._model(pieces[0][1])
        streams = []
        for samples, _ in pieces:
            stream = model.create_stream()
            stream.accept_waveform(RATE, _pieces.padded(samples, SHORTEST))
            streams.append(stream)
        model.decode_streams(streams)
        return [
            self._read(stream.result, len(samples) / RATE)
            for stream, (samples, _) in zip(streams, pieces, strict=True)
        ]

    def _read(self, result: Any, seconds: float) -> EngineResult:
        if self._settings.family == "sense_voice" and not result.lang:
            # It states the language of every clip; a missing one is its only sign of failure.
            return EngineResult("", error="the engine refused the clip")
        text, tokens = " ".join(result.text.split()), list(result.tokens)
        sure = list(result.ys_log_probs)
        if len(sure) != len(tokens) or mean(sure) is None:
            sure = []
        timed = words(text, tokens, list(result.timestamps), sure or None, STEP, seconds)
        tag = _LANGUAGE.fullmatch(result.lang)
        detected = tag[1] if tag and tag[1] in LANGUAGES[self._settings.family] else None
        return EngineResult(text, timed, tuple(sure), detected)


def _base(language: str | None) -> str | None:
    """`zh-CN`, `cmn` -> zh; `en_US` -> en."""
    if not language:
        return None
    code = language_codes.base(language)
    return {"cmn": "zh", "eng": "en", "zho": "zh", "jpn": "ja", "kor": "ko"}.get(code, code)


def _proven(settings: Settings) -> None:
    """Raises ConfigError if the graph is not of this family: the engine would end the process."""
    graph, _ = _files(settings)
    try:
        stated = onnx_session.session(str(graph)).get_modelmeta().custom_metadata_map
    except onnx_session.errors() as error:
        raise ConfigError(f"{graph.name} of {settings.model!r} cannot be read: {error}") from error
    if lacking := [name for name in METADATA[settings.family] if name not in stated]:
        raise ConfigError(
            f"{graph.name} of {settings.model!r} is not a {settings.family} model of sherpa-onnx: "
            f"its metadata lack {', '.join(lacking)}; set transcribe.backend.family to its kind"
        )


def _load(settings: Settings, language: str) -> OfflineRecognizer:
    """The engine. Raises ConfigError if it cannot be loaded."""
    if find_spec("sherpa_onnx") is None:
        raise ConfigError("sherpa-onnx is not installed: pip install 'uttermill[sherpa-onnx]'")
    import sherpa_onnx

    graph, tokens = _files(settings)
    common = {"tokens": str(tokens), "num_threads": settings.threads, "provider": "cpu"}
    engine = sherpa_onnx.OfflineRecognizer
    try:
        if settings.family == "paraformer":
            return engine.from_paraformer(paraformer=str(graph), **common)
        return engine.from_sense_voice(
            model=str(graph), language=language or "auto", use_itn=settings.itn, **common
        )
    except (RuntimeError, ValueError, OSError, LookupError) as error:
        raise ConfigError(
            f"the model {settings.model!r} cannot be loaded as {settings.family}: {error}"
        ) from error
