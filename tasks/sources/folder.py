"""A folder of audio files, at any depth; or one audio file.

Recordings come in the byte order of their relative paths, under a URL too. Links to files are
followed, and links to folders unless that would visit a folder twice: a link into the tree itself
is ignored, so that adding one never renames a recording. Results of uttermill are not recordings.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from tasks import storage
from tasks.base.errors import ConfigError
from tasks.recording import Ignored, Locator, Recording
from tasks.recording.extensions import known
from tasks.recording.guard import stat_error
from tasks.recording.names import display_text, recording_name, safe_name
from tasks.settings import SourceSettings
from tasks.sources._lists import failed, of_file
from tasks.sources._objects import walk
from tasks.sources._paths import RESULTS, is_results, results_above, skip_reason, source_root
from tasks.storage.local import stat_guard

#: Kinds of sources that read one file, by its ending.
_KINDS = {".tar": "tar", ".jsonl": "jsonl", ".parquet": "hf_parquet"}
_PACKED = (".zip", ".7z", ".rar", ".gz", ".tgz", ".bz2", ".xz", ".zst")
MOST_LOOKED = 50_000  # entries that are looked at to find branches

#: A folder's relative path with its `/`, and whether what lies below belongs to it.
Branch = tuple[str, bool]


class Settings(SourceSettings):
    kind: Literal["folder"] = "folder"
    system_folders: bool = Field(
        False, description="Also take what lies in recycle bins, snapshots and thumbnail folders."
    )


def recordings(settings: Settings) -> Iterator[Recording | Ignored]:
    """Walks lazily. ConfigError at once if the path cannot be read."""
    root, status = source_root(settings.path)
    if storage.is_url(root):
        return _objects(root, settings) if stat.S_ISDIR(status.st_mode) else _object(root, settings)
    if results := results_above(root):
        raise ConfigError(
            f"source {display_text(settings.path)!r} lies in {display_text(results)}, which holds "
            "results of uttermill; name the folder of the recordings they were made from"
        )
    if stat.S_ISDIR(status.st_mode):
        try:
            os.scandir(root).close()
        except OSError as error:
            raise ConfigError(
                f"source {display_text(settings.path)!r} cannot be listed ({error.strerror})"
            ) from None
        return _walk(root, status, settings)
    if stat.S_ISREG(status.st_mode) and known(os.path.basename(root)):
        return iter([_recording(os.path.basename(root), root, status)])
    raise ConfigError(
        f"source {display_text(settings.path)!r} is neither a folder nor an audio file{_hint(root)}"
    )


def _hint(path: str) -> str:
    """What to do about a file that is no folder; empty where its name does not tell."""
    ending = os.path.splitext(path)[1].lower()
    if ending in _PACKED:
        return "; unpack it first"
    return f"; give the source kind: {_KINDS[ending]}" if ending in _KINDS else ""


def branches(settings: Settings, least: int) -> Sequence[Branch] | None:
    """Folders without those below them, and whole trees: at least so many, or None."""
    root, status = source_root(settings.path)
    if storage.is_url(root) or not stat.S_ISDIR(status.st_mode):
        return None
    trees, alone, looked = [""], [], 0
    while trees and len(trees) < least and looked < MOST_LOOKED:
        above = trees.pop(0)
        alone.append(above)
        try:
            with os.scandir(f"{root}/{above}") as found:
                entries = sorted(found, key=_order)
        except OSError:
            return None
        looked += len(entries)
        trees += [f"{above}{each.name}/" for each in entries if _is_tree(each, settings)]
    if len(trees) < least:
        return None
    return sorted([(each, False) for each in alone] + [(each, True) for each in trees])


def branch(settings: Settings, branch: Branch) -> Iterator[Recording | Ignored] | None:
    """None if a folder is a link or lies on another disk: it may be reached on two ways, and
    only who sees all of them knows which comes first."""
    root, status = source_root(settings.path)
    try:
        return iter(list(_walk_apart(root, status, settings, *branch)))
    except _Linked:
        return None


class _Linked(Exception):
    """A folder that may lie in two branches."""


def _is_tree(entry: os.DirEntry[str], settings: Settings) -> bool:
    return not skip_reason(entry.name, settings.system_folders) and entry.is_dir(
        follow_symlinks=False
    )


def _walk_apart(
    root: str, status: os.stat_result, settings: Settings, below: str, deep: bool
) -> Iterator[Recording | Ignored]:
    stack = [below]
    while stack:
        above = stack.pop()
        path = f"{root}/{above}".rstrip("/")
        try:
            entries = _entries(path)
        except OSError as error:
            yield _unlisted(above.rstrip("/"), path, error)
            continue
        trees = []
        for entry in entries:
            relative = above + entry.name
            if reason := skip_reason(entry.name, settings.system_folders):
                yield Ignored(recording_name(relative), reason)
            elif not _is_folder(entry):
                yield _file(relative, entry)
            elif entry.is_symlink() or os.stat(entry.path).st_dev != status.st_dev:
                raise _Linked
            elif deep:
                trees.append(relative + "/")
        stack += reversed(trees)


def _unlisted(relative: str, path: str, error: OSError) -> Recording:
    detail = f"the folder cannot be listed: {error.strerror}"
    return failed(recording_name(relative), display_text(path), path, "unreadable", detail)


def _objects(root: str, settings: Settings) -> Iterator[Recording | Ignored]:
    for found in walk(root, settings.system_folders):
        if isinstance(found, Ignored):
            yield found
        elif known(found.relative):
            name = safe_name(found.relative)
            yield Recording(
                name, display_text(found.url), Locator(found.url), found.size, found.guard
            )
        else:
            yield Ignored(recording_name(found.relative), "extension")


def _object(url: str, settings: Settings) -> Iterator[Recording | Ignored]:
    name = os.path.basename(url)
    if not known(name):
        raise ConfigError(f"source {display_text(settings.path)!r} is not an audio file")
    return iter([of_file(recording_name(name), url)])


def _recording(relative: str, path: str, status: os.stat_result) -> Recording:
    return Recording(
        recording_name(relative),
        display_text(path),
        Locator(path),
        status.st_size,
        stat_guard(status),
    )


def _order(entry: os.DirEntry[str]) -> bytes:
    """A folder sorts as `name/`, so that the walk follows the byte order of whole paths."""
    name = os.fsencode(entry.name)
    return name + b"/" if _is_folder(entry) else name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a circular link
        return False


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(path) as found:
        return iter(sorted(found, key=_order))


def _reached_anyway(path: str, real_root: str, settings: Settings) -> bool:
    """Whether a linked folder is inside the tree, where the walk visits it anyway."""
    real = os.path.realpath(path)
    if real == real_root:
        return True
    prefix = real_root.rstrip("/") + "/"
    inside = real.startswith(prefix)
    parts = real[len(prefix) :].split("/")
    return inside and not any(skip_reason(part, settings.system_folders) for part in parts)


def _walk(root: str, status: os.stat_result, settings: Settings) -> Iterator[Recording | Ignored]:
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
        if reason := skip_reason(entry.name, settings.system_folders):
            yield Ignored(recording_name(relative), reason)
            continue
        try:
            if not _is_folder(entry):
                yield _file(relative, entry)
                continue
            if results_above(entry.path) if entry.is_symlink() else is_results(entry.path):
                yield Ignored(recording_name(relative), RESULTS)
                continue
            if entry.is_symlink() and _reached_anyway(entry.path, real_root, settings):
                yield Ignored(recording_name(relative), "duplicate_folder")
                continue
            # Not entry.stat(): at a mount point it gives the inode below the mounted disk.
            folder_status = os.stat(entry.path)
            if (folder_status.st_dev, folder_status.st_ino) in visited:
                yield Ignored(recording_name(relative), "duplicate_folder")
                continue
            visited.add((folder_status.st_dev, folder_status.st_ino))
            stack.append((relative + "/", _entries(entry.path)))
        except OSError as error:
            yield _unlisted(relative, entry.path, error)


def _file(relative: str, entry: os.DirEntry[str]) -> Recording | Ignored:
    is_link = entry.is_symlink()
    if not is_link and not known(entry.name):
        return Ignored(recording_name(relative), "extension")
    try:
        status = entry.stat()
    except OSError as error:  # a dangling link, or deleted since the folder was listed
        code, reason = stat_error(error)
        detail = f"{'a link to nothing' if is_link else 'gone since it was listed'}: {reason}"
        if code != "missing":
            detail = reason
        return failed(recording_name(relative), display_text(entry.path), entry.path, code, detail)
    if not known(entry.name):
        return Ignored(recording_name(relative), "extension")
    if not stat.S_ISREG(status.st_mode):
        return Ignored(recording_name(relative), "not_a_file")
    if is_link and results_above(entry.path):
        return Ignored(recording_name(relative), RESULTS)
    return _recording(relative, entry.path, status)
