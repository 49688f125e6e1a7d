"""Container files (tar, Parquet) of a source: one file, a glob, or a folder at any depth."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from tasks import storage
from tasks.errors import ConfigError
from tasks.recording import Ignored
from tasks.sources._objects import walk
from tasks.sources._shared import left_out, name_of, text_of, top
from tasks.storage import urls


@dataclass
class Containers:
    """(relative name, absolute path) in the byte order of the names, and what was left out."""

    files: list[tuple[str, str]] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)


def containers(path: str, wanted: Callable[[str], bool], what: str) -> Containers:
    """ConfigError where nothing is found: a source of containers without one is a mistake.

    A path that exists is taken as it stands, even if it holds `*`. Links to folders are not
    followed here.
    """
    found = Containers()
    if storage.is_url(path):
        _objects(path, wanted, found)
    elif not os.path.lexists(path) and glob.has_magic(path):
        base = os.path.abspath(_base(path))
        names = sorted(map(os.path.abspath, glob.iglob(path, recursive=True)), key=os.fsencode)
        for name in names:
            relative = os.path.relpath(name, base)
            if os.path.isdir(name):
                continue
            if wanted(name):
                found.files.append((relative, name))
            else:
                found.ignored.append(Ignored(name_of(relative), "extension"))
    else:
        absolute, status = top(path)
        if stat.S_ISDIR(status.st_mode):
            _walk(absolute, wanted, found)
        else:
            found.files = [(os.path.basename(absolute), absolute)]
    if not found.files:
        raise ConfigError(f"source {text_of(path)!r} holds no {what}; check the source's path")
    return found


def _base(pattern: str) -> str:
    """The folder above a pattern's first wildcard."""
    while glob.has_magic(pattern):
        pattern = os.path.dirname(pattern)
    return pattern or "."


def _objects(path: str, wanted: Callable[[str], bool], found: Containers) -> None:
    """The same of a URL, which may be a pattern, too (`s3://bucket/a/*.tar`)."""
    if glob.has_magic(path):
        base = _base(path)
        there = [(url[len(base) :].lstrip("/"), url) for url in urls.matching(path)]
    else:
        root, status = top(path)
        if not stat.S_ISDIR(status.st_mode):
            found.files = [(os.path.basename(root), root)]
            return
        seen = [*walk(root)]
        found.ignored += [each for each in seen if isinstance(each, Ignored)]
        there = [(each.relative, each.url) for each in seen if not isinstance(each, Ignored)]
    for relative, url in there:
        if wanted(relative):
            found.files.append((relative, url))
        else:
            found.ignored.append(Ignored(name_of(relative), "extension"))


def _walk(root: str, wanted: Callable[[str], bool], found: Containers) -> None:
    def refuse(error: OSError) -> None:
        raise ConfigError(
            f"source folder {text_of(str(error.filename))!r} cannot be listed ({error.strerror})"
        )

    for folder, folders, files in os.walk(root, onerror=refuse):
        for name in folders[:]:
            path = os.path.join(folder, name)
            if reason := left_out(name) or ("linked_folder" if os.path.islink(path) else None):
                folders.remove(name)
                relative = os.path.relpath(path, root)
                found.ignored.append(Ignored(name_of(relative), reason))
        for name in files:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if reason := left_out(name) or ("" if wanted(name) else "extension"):
                found.ignored.append(Ignored(name_of(relative), reason))
            else:
                found.files.append((relative, path))
    found.files.sort(key=lambda pair: os.fsencode(pair[0]))
    found.ignored.sort(key=lambda item: item.path)
