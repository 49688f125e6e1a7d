"""Parakeet, Canary, GigaAM, Zipformer and Whisper as ONNX graphs, by the library onnx-asr.

The model is a folder on this machine; nothing is downloaded. Clips of similar length share a batch.
Transducers and CTC models give the time and the log-probability of each token; Whisper's graphs
give neither. Clips longer than a model takes at once are cut at the quietest place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import Field

from ..base import environment, language_codes
from ..base.arrays import RATE
from ..base.errors import ConfigError
from ..base.json_types import parsed
from ..models import onnx_session
from ..settings import StageSettings, Transient
from ..settings.base import WORDS
from . import Abilities, SpeechClip, Transcript, _model_folder, _pieces
from ._pieces import EngineResult, Piece
from ._words import mean, words

if TYPE_CHECKING:
    from onnx_asr.asr import TimestampedResult

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
    """`longest`: most audio at once, s. `step`: resolution of the tokens' times, s, 0 without
    times. `scored`: it returns log-probabilities. `alone`: a batch would change a text. `asked`: it
    takes the language as an input."""

    longest: float
    step: float = 0.0
    scored: bool = True
    alone: bool = False
    asked: bool = False


# NeMo's Parakeet was trained on up to 40 s, Canary too; GigaAM's limit is 25 s; Whisper's window is
# 30 s. A Canary decoder goes on with clips of a batch that have ended, and GigaAM's features at the
# end of a clip depend on the padding: each of those runs alone.
_OF_FAMILIES = {
    "nemo-conformer-aed": Kind(40.0, alone=True, asked=True),
    "nemo": Kind(40.0, 0.08),
    "gigaam": Kind(25.0, 0.04, alone=True),
    "kaldi": Kind(30.0, 0.04),
    "vosk": Kind(30.0, 0.04),
    "whisper": Kind(30.0, scored=False, asked=True),
}
#: By the first of these with which its name begins.
KINDS: Mapping[str, Kind] = {
    name: next(kind for head, kind in _OF_FAMILIES.items() if name.startswith(head))
    for name in get_args(Family)
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


VERSION = 1
SHORTEST = RATE // 2  # samples; features of a shorter clip may have no frame, so it is padded
WORD_FILES = (".json", ".txt")  # suffixes of files of words and settings
ENGINES = {"onnx_asr": "load_model", "onnxruntime": "InferenceSession"}
EXAMPLE = "istupakov/parakeet-tdt-0.6b-v3-onnx"
_TOKEN = re.compile(r"<\|([a-z]{2,3})\|>")


def wants_gpu(settings: Settings) -> bool:
    return settings.device == "cuda" or (settings.device == "auto" and gpu_fault(settings) is None)


def gpu_fault(settings: Settings) -> str | None:
    from ..plugins import gpu

    return gpu.onnxruntime_fault()


def abilities(settings: Settings) -> Abilities:
    kind = KINDS.get(settings.family or _stated(settings) or "")
    licence, languages = _model_folder.card(settings.model)
    if kind is None:
        return Abilities(languages, settings.max_seconds, (), licence)
    scores = {"avg_logprob": kind.scored, "word_times": bool(kind.step)}
    given = tuple(name for name, has in scores.items() if has)
    return Abilities(languages, settings.max_seconds or kind.longest, given, licence)


def weights(settings: Settings) -> str:
    return _model_folder.identity(_files(settings).values())


def model_bytes(settings: Settings) -> int:
    return _model_folder.size(_files(settings).values())


def language_fault(settings: Settings, language: str) -> str | None:
    """Only models that take the language as an input refuse one: if they have no token for it."""
    if not KINDS[family(settings)].asked:
        return None
    lists = [path for path in _files(settings).values() if path.suffix in WORD_FILES]
    codes = {code for path in lists for code in _TOKEN.findall(_model_folder.text_of(path))}
    accepted = not codes or language_codes.base(language) in codes
    return None if accepted else language_codes.unknown(language)


def _stated(settings: Settings) -> str | None:
    """`model_type` of the model's config.json."""
    path = Path(settings.model or "").expanduser() / "config.json"
    stated = None
    with suppress(OSError, ValueError, AttributeError):
        stated = parsed(_model_folder.text_of(path)).get("model_type")
    return stated if isinstance(stated, str) else None


def family(settings: Settings) -> str:
    """The model's family. Raises ConfigError unless setting or config.json names one of KINDS."""
    name = settings.family or _stated(settings)
    if name is None or name not in KINDS:
        stated = f"says {name!r}" if name else "names none"
        raise ConfigError(
            f"transcribe.backend.family is missing, and config.json of {settings.model!r} {stated}:"
            f" give one of {', '.join(KINDS)}"
        )
    return name


def _files(settings: Settings) -> dict[str, Path]:
    """The model's files by their part in it; ConfigError when one is missing."""
    folder = _model_folder.folder(settings.model, "onnx_asr", EXAMPLE)
    kind = family(settings)
    if find_spec("onnx_asr") is None:
        raise ConfigError("onnx-asr is not installed: pip install 'uttermill[onnx-asr]'")
    from onnx_asr.loader import create_asr_resolver
    from onnx_asr.utils import ModelLoadingError

    try:
        resolver = create_asr_resolver(kind, folder, offline=True)
        paths = dict(resolver.resolve_model(quantization=settings.quantization))
        _model_folder.checked(*(path for path in paths.values() if path.suffix in WORD_FILES))
        return paths
    except (ModelLoadingError, OSError, ValueError) as error:
        raise ConfigError(
            f"transcribe.backend.model {settings.model!r} is not a {kind} model: {error}; "
            "`quantization` chooses between graphs of one folder"
        ) from error


class Backend:
    RATE = RATE

    def __init__(self, settings: Settings) -> None:
        weights(settings)
        self._settings = settings
        self._kind: Kind = KINDS[family(settings)]
        self._model = _load(settings, family(settings))
        self._engine = _pieces.Engine(
            self._hear,
            longest=round((settings.max_seconds or self._kind.longest) * RATE),
            most=1 if self._kind.alone else settings.batch_size,
            timed=settings.word_timestamps,
        )

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        languages = [clip.language or self._settings.language for clip in clips]
        return self._engine.transcripts(clips, languages)

    def _hear(self, pieces: list[Piece]) -> list[EngineResult]:
        language = pieces[0][1]
        asked = language if self._kind.asked else None
        options = {"language": language_codes.base(asked)} if asked else {}
        padded = [_pieces.padded(samples, SHORTEST) for samples, _ in pieces]
        try:
            results = self._model.recognize(padded, sample_rate=RATE, **options)
        except KeyError as error:  # Whisper's and Canary's name of a language
            raise ValueError(f"the model does not know {error.args[0]}") from error
        except onnx_session.errors() as error:
            raise RuntimeError(f"ONNX Runtime: {error}") from error
        return [
            self._read(result, len(samples) / RATE)
            for result, (samples, _) in zip(results, pieces, strict=True)
        ]

    def _read(self, result: TimestampedResult, seconds: float) -> EngineResult:
        text = " ".join(result.text.split())
        sure = result.logprobs if mean(result.logprobs) is not None else None
        timed = None
        if result.timestamps is not None and result.tokens is not None:
            timed = words(text, result.tokens, result.timestamps, sure, self._kind.step, seconds)
        return EngineResult(text, timed, tuple(sure or ()))


def _load(settings: Settings, kind: str) -> Any:
    """The library's model, with times. Raises ConfigError if it cannot be loaded."""
    import onnx_asr
    from onnx_asr.utils import ModelLoadingError

    fault = gpu_fault(settings)
    if settings.device == "cuda" and fault:
        raise ConfigError(f"transcribe.backend.device is cuda, but {fault}; or set device: cpu")
    hidden = environment.visible_gpus() == ""  # a worker that sees no GPU
    device = "cpu" if settings.device == "cpu" or fault or hidden else "cuda"
    # The library looks a configuration's names up in tables, and asserts what it expects of graphs.
    errors = (ModelLoadingError, OSError, ValueError, KeyError, AssertionError)
    refusals: tuple[type[Exception], ...] = (*onnx_session.errors(), *errors)
    try:
        return onnx_asr.load_model(
            kind,
            _model_folder.folder(settings.model, "onnx_asr", EXAMPLE),
            quantization=settings.quantization,
            sess_options=onnx_session.options(settings.threads),
            providers=[onnx_session.PROVIDERS[device]],
            preprocessor_config={"max_concurrent_workers": 1},
        ).with_timestamps()
    except refusals as error:
        raise ConfigError(
            f"the model {settings.model!r} cannot be loaded as {kind} on {device}: {error}"
        ) from error
