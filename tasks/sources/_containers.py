"""The container files (tar, Parquet) of a source: one file, a glob, or a folder of any depth."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from tasks import storage
from tasks.errors import ConfigError
from tasks.recording import Ignored
from tasks.recording.names import display_text, recording_name
from tasks.sources._objects import walk
from tasks.sources._paths import skip_reason, source_root
from tasks.storage import urls


@dataclass
class Containers:
    """(relative name, absolute path) in the byte order of the names, and what was skipped."""

    files: list[tuple[str, str]] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)


def containers(path: str, wanted: Callable[[str], bool], what: str) -> Containers:
    """The containers whose names `wanted` accepts. ConfigError if there are none.

    A path that exists is taken literally, even if it contains `*`. Links to folders are not
    followed. `what` names the kind of container in the message.
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
                found.ignored.append(Ignored(recording_name(relative), "extension"))
    else:
        absolute, status = source_root(path)
        if stat.S_ISDIR(status.st_mode):
            _walk(absolute, wanted, found)
        else:
            found.files = [(os.path.basename(absolute), absolute)]
    if not found.files:
        raise ConfigError(f"source {display_text(path)!r} holds no {what}; check the source's path")
    return found


def _base(pattern: str) -> str:
    """The folder above a pattern's first wildcard."""
    while glob.has_magic(pattern):
        pattern = os.path.dirname(pattern)
    return pattern or "."


def _objects(path: str, wanted: Callable[[str], bool], found: Containers) -> None:
    """`containers` for a URL or a URL pattern (`s3://bucket/a/*.tar`)."""
    if glob.has_magic(path):
        base = _base(path)
        there = [(url[len(base) :].lstrip("/"), url) for url in urls.matching(path)]
    else:
        root, status = source_root(path)
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
            found.ignored.append(Ignored(recording_name(relative), "extension"))


def _walk(root: str, wanted: Callable[[str], bool], found: Containers) -> None:
    def refuse(error: OSError) -> None:
        folder = display_text(str(error.filename))
        raise ConfigError(f"source folder {folder!r} cannot be listed ({error.strerror})")

    for folder, folders, files in os.walk(root, onerror=refuse):
        for name in folders[:]:
            path = os.path.join(folder, name)
            if reason := skip_reason(name) or ("linked_folder" if os.path.islink(path) else None):
                folders.remove(name)
                relative = os.path.relpath(path, root)
                found.ignored.append(Ignored(recording_name(relative), reason))
        for name in files:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            if reason := skip_reason(name) or ("" if wanted(name) else "extension"):
                found.ignored.append(Ignored(recording_name(relative), reason))
            else:
                found.files.append((relative, path))
    found.files.sort(key=lambda pair: os.fsencode(pair[0]))
    found.ignored.sort(key=lambda item: item.path)
