"""The container files (tar, Parquet) of a source: one file, a glob, or a folder of any depth."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .. import storage
from ..base.errors import ConfigError
from ..recording import Ignored
from ..recording.names import display_text, recording_name
from ..storage import urls
from ._objects import walk
from ._paths import skip_reason, source_root

#: (relative name, absolute path), or a skipped file.
Entries = Iterator[tuple[str, str] | Ignored]


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
    if glob.has_magic(path) and (storage.is_url(path) or not os.path.lexists(path)):
        listed = _matching(urls.checked(path))
    else:
        root, status = source_root(path)
        if not stat.S_ISDIR(status.st_mode):
            return Containers([(os.path.basename(root), root)])
        listed = _objects(root) if storage.is_url(root) else _walk(root)
    result = Containers()
    for entry in listed:
        if isinstance(entry, Ignored):
            result.ignored.append(entry)
        elif wanted(entry[0]):
            result.files.append(entry)
        else:
            result.ignored.append(Ignored(recording_name(entry[0]), "extension"))
    if not result.files:
        raise ConfigError(f"source {display_text(path)!r} holds no {what}; check the source's path")
    result.files.sort(key=lambda pair: os.fsencode(pair[0]))
    result.ignored.sort(key=lambda item: item.path)
    return result


def _matching(pattern: str) -> Entries:
    """The files that match a pattern, local or a URL (`s3://bucket/a/*.tar`)."""
    base = _base(pattern)
    if storage.is_url(pattern):
        for url in urls.matching(pattern):
            yield url[len(base) :].lstrip("/"), url
        return
    for name in map(os.path.abspath, glob.iglob(pattern, recursive=True)):
        if not os.path.isdir(name):
            yield os.path.relpath(name, os.path.abspath(base)), name


def _base(pattern: str) -> str:
    """The folder above a pattern's first wildcard."""
    while glob.has_magic(pattern):
        pattern = os.path.dirname(pattern)
    return pattern or "."


def _objects(root: str) -> Entries:
    for entry in walk(root):
        yield entry if isinstance(entry, Ignored) else (entry.relative, entry.url)


def _walk(root: str) -> Entries:
    def refuse(error: OSError) -> None:
        folder = display_text(str(error.filename))
        raise ConfigError(f"source folder {folder!r} cannot be listed ({error.strerror})")

    for folder, folders, files in os.walk(root, onerror=refuse):
        for name in folders[:]:
            path = os.path.join(folder, name)
            if reason := skip_reason(name) or ("linked_folder" if os.path.islink(path) else None):
                folders.remove(name)
                yield Ignored(recording_name(os.path.relpath(path, root)), reason)
        for name in files:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, root)
            reason = skip_reason(name)
            yield Ignored(recording_name(relative), reason) if reason else (relative, path)
