"""Finds the files of a known model, and checks their hashes."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from tasks.base import environment
from tasks.base.errors import ConfigError
from tasks.models.entries import Model

State = Literal["ok", "missing", "damaged"]


def cache() -> Path:
    """Folder of models that were fetched or joined: `$XDG_CACHE_HOME/uttermill/models`, else below
    `~/.cache`."""
    return environment.cache() / "uttermill" / "models"


def home(model: Model) -> Path | None:
    """The folder of a model's files; None if the package that holds them is not installed.
    Imports nothing."""
    if model.package is None:
        return cache() / model.folder
    package = package_folder(model.package)
    return package / model.folder if package else None


def package_folder(name: str) -> Path | None:
    """The folder of an installed package, which is not imported; None if it is not installed."""
    spec = find_spec(name)
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def state(model: Model) -> State:
    """Whether all files of a model are there with their hashes."""
    place = home(model)
    if place is None or not all((place / file.name).is_file() for file in model.files):
        return "missing"
    right = all(sha256(place / file.name) == file.sha256 for file in model.files)
    return "ok" if right else "damaged"


def sha256(path: Path) -> str:
    """Hash of a file, in hex; read once for each state of the file."""
    facts = path.stat()
    return _hashed(path, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=64)
def _hashed(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def located(model: Model, asked_by: str, folder: str | None = None) -> Path:
    """A model's only file, checked. `asked_by`: the setting that needs it; `folder`: where the
    user keeps it, if not in the cache.

    ConfigError, naming the command that fetches it, if the file is missing or a different one.
    """
    [file] = model.files
    place = Path(folder) if folder is not None else home(model)
    if place is None or not (place / file.name).is_file():
        where = "" if folder is None else f" in {folder}"
        raise ConfigError(
            f"{asked_by} needs the model {model.name}, which is not there{where}: "
            f"type `{model.get}`"
        )
    path = place / file.name
    try:
        right = sha256(path) == file.sha256
    except OSError as error:
        raise ConfigError(f"{asked_by}: {path} cannot be read: {error.strerror}") from error
    if not right:
        raise ConfigError(
            f"{asked_by}: {path} is not the model {model.name} (its sha256 is another one): "
            f"type `{model.get}`"
        )
    return path
