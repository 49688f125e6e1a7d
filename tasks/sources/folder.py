"""A folder of audio files, at any depth; or one audio file.

Recordings come in the byte order of their relative paths. Links to files are followed; links to
folders too, except where that would visit a folder twice: a link to a place inside the tree is
left to the walk itself, so that adding such a link never renames a recording. Under a URL objects
are listed, and come in the same order.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Literal

from tasks import storage
from tasks.errors import ConfigError
from tasks.recording import Ignored, Locator, Recording, guard
from tasks.recording.extensions import known
from tasks.settings import SourceSettings
from tasks.sources._objects import walk
from tasks.sources._shared import failed, find, left_out, name_of, sane_name, text_of, top, trouble


class Settings(SourceSettings):
    kind: Literal["folder"] = "folder"


def recordings(settings: Settings) -> Iterator[Recording | Ignored]:
    """Lists at the first step; ConfigError at once if the path cannot be read."""
    root, status = top(settings.path)
    if storage.is_url(root):
        return _objects(root) if stat.S_ISDIR(status.st_mode) else _object(root, settings)
    if stat.S_ISDIR(status.st_mode):
        try:
            os.scandir(root).close()
        except OSError as error:
            raise ConfigError(
                f"source {text_of(settings.path)!r} cannot be listed ({error.strerror})"
            ) from None
        return _walk(root, status)
    if stat.S_ISREG(status.st_mode) and known(os.path.basename(root)):
        return iter([_recording(os.path.basename(root), root, status)])
    raise ConfigError(f"source {text_of(settings.path)!r} is neither a folder nor an audio file")


def _objects(root: str) -> Iterator[Recording | Ignored]:
    for found in walk(root):
        if isinstance(found, Ignored):
            yield found
        elif known(found.relative):
            name = sane_name(found.relative)
            yield Recording(name, text_of(found.url), Locator(found.url), found.size, found.mark)
        else:
            yield Ignored(name_of(found.relative), "extension")


def _object(url: str, settings: Settings) -> Iterator[Recording | Ignored]:
    name = os.path.basename(url)
    if not known(name):
        raise ConfigError(f"source {text_of(settings.path)!r} is no audio file")
    found = find(url)
    return iter([Recording(name_of(name), text_of(url), Locator(url), found.size, found.guard)])


def _recording(relative: str, path: str, status: os.stat_result) -> Recording:
    return Recording(name_of(relative), text_of(path), Locator(path), status.st_size, guard(status))


def _order(entry: os.DirEntry[str]) -> bytes:
    """A folder sorts as `name/`: then the walk's order is the byte order of whole paths."""
    name = os.fsencode(entry.name)
    return name + b"/" if _is_folder(entry) else name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads round in a circle
        return False


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(path) as found:
        return iter(sorted(found, key=_order))


def _reached_anyway(path: str, real_root: str) -> bool:
    """Whether a linked folder lies in the tree, where the walk comes to it on its own."""
    real = os.path.realpath(path)
    if real == real_root:
        return True
    prefix = real_root.rstrip("/") + "/"
    inside = real.startswith(prefix)
    return inside and not any(left_out(part) for part in real[len(prefix) :].split("/"))


def _walk(root: str, status: os.stat_result) -> Iterator[Recording | Ignored]:
    real_root = os.path.realpath(root)
    visited = {(status.st_dev, status.st_ino)}
    # A stack of open listings, not recursion: a tree may be deeper than Python's limit.
    stack = [("", _entries(root))]
    while stack:
        above, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        relative = above + entry.name
        if reason := left_out(entry.name):
            yield Ignored(name_of(relative), reason)
            continue
        try:
            if not _is_folder(entry):
                yield _file(relative, entry)
                continue
            if entry.is_symlink() and _reached_anyway(entry.path, real_root):
                yield Ignored(name_of(relative), "duplicate_folder")
                continue
            # Not entry.stat(): its inode is that of the mount point where another disk begins.
            here = os.stat(entry.path)
            if (here.st_dev, here.st_ino) in visited:
                yield Ignored(name_of(relative), "duplicate_folder")
                continue
            visited.add((here.st_dev, here.st_ino))
            stack.append((relative + "/", _entries(entry.path)))
        except OSError as error:
            detail = f"the folder cannot be listed: {error.strerror}"
            path = entry.path
            yield failed(name_of(relative), text_of(path), path, "unreadable", detail)


def _file(relative: str, entry: os.DirEntry[str]) -> Recording | Ignored:
    is_link = entry.is_symlink()
    if not is_link and not known(entry.name):
        return Ignored(name_of(relative), "extension")
    try:
        status = entry.stat()
    except OSError as error:  # a dangling link, or deleted since the folder was listed
        code, reason = trouble(error)
        detail = f"{'a link to nothing' if is_link else 'gone since it was listed'}: {reason}"
        if code != "missing":
            detail = reason
        return failed(name_of(relative), text_of(entry.path), entry.path, code, detail)
    if not known(entry.name):
        return Ignored(name_of(relative), "extension")
    if not stat.S_ISREG(status.st_mode):
        return Ignored(name_of(relative), "not_a_file")
    return _recording(relative, entry.path, status)
