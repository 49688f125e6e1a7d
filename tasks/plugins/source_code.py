"""Hashes of the source code that a job runs: this package's, and that of a user's plug-ins."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from ..settings.job import Job
from .loading import chosen_plugins, module

HOME = Path(__file__).parents[1]


def _ours() -> list[Path]:
    """Code, and data that decides as code does."""
    return [path for path in HOME.rglob("*") if path.suffix in (".py", ".toml", ".json", ".txt")]


@cache
def of_package() -> str:
    """Hash of this package: changes with a new release or a developer's edit."""
    sha = hashlib.sha256()
    for path in sorted(_ours()):
        sha.update(f"{path.relative_to(HOME)}\0".encode() + path.read_bytes())
    return sha.hexdigest()


def of_own_plugins(job: Job) -> list[str]:
    """Hashes of plug-ins from outside this package, and of the modules beside them."""
    return [*map(_of_file, _own_files(job))]


def by_file(job: Job) -> dict[str, str]:
    """Hash of each file of this package, by its path in it, and of each of `of_own_plugins`."""
    ours = {str(path.relative_to(HOME.parent)): path for path in _ours()}
    named = ours | {f"{path.parent.name}/{path.name}": path for path in _own_files(job)}
    return {name: _of_file(path) for name, path in named.items()}


def _own_files(job: Job) -> list[Path]:
    files = set[Path]()
    for shelf, plugin in chosen_plugins(job):
        if "." in plugin.use and (file := module(shelf, plugin.use).__file__):
            files.update(Path(file).parent.glob("*.py"))
    return sorted(files)


def _of_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
