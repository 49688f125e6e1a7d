"""The objects under a URL, listed like the files of a folder; and the container files (tar,
Parquet) of a source: one file, a glob, or a folder of any depth."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .. import storage
from ..base.errors import ConfigError, RunError
from ..recording import Ignored
from ..recording.names import display_text, recording_name
from ..storage import store_errors, urls
from ..storage.containment import OUT_FOLDERS
from ._lists import refusal
from ._paths import OUT_SIGN, RESULTS, Boundary, skip_reason, source_root

#: (relative name, absolute path), or a skipped file.
Entries = Iterator[tuple[str, str] | Ignored]


@dataclass
class Containers:
    """(relative name, absolute path) in the byte order of the names, and what was skipped.
    `boundary`: of the folder in which they were found."""

    boundary: Boundary
    files: list[tuple[str, str]] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)


def containers(
    path: str, wanted: Callable[[str], bool], what: str, follow_links: bool
) -> Containers:
    """The containers whose names `wanted` accepts. ConfigError if there are none. A path that
    exists is taken literally, even if it contains `*`. `what` names the kind of container."""
    is_url = storage.is_url(path)
    listed: Entries
    if glob.has_magic(path) and (is_url or not os.path.lexists(path)):
        home = urls.checked(path)
        while glob.has_magic(home):  # the folder above the first wildcard
            home = os.path.dirname(home)
        boundary = Boundary(os.path.abspath(home), follow_links or is_url)
        if is_url:
            listed = ((url[len(home) :].lstrip("/"), url) for url in urls.matching(path))
        else:
            listed = _matching(path, boundary)
    else:
        root, status = source_root(path)
        if not stat.S_ISDIR(status.st_mode):
            boundary = Boundary(os.path.dirname(root), follow_links=True)
            return Containers(boundary, [(os.path.basename(root), root)])
        boundary = Boundary(root, follow_links or is_url)
        if is_url:
            listed = (
                one if isinstance(one, Ignored) else (one.relative, one.url)
                for one in objects_below(root)
            )
        else:
            listed = _walk(root, boundary)
    result = Containers(boundary)
    for entry in listed:
        if isinstance(entry, Ignored):
            result.ignored.append(entry)
        elif wanted(entry[0]):
            result.files.append(entry)
        else:
            result.ignored.append(Ignored(recording_name(entry[0]), "extension"))
    if not result.files:
        raise refusal(path, f"holds no {what}; check the source's path")
    result.files.sort(key=lambda pair: os.fsencode(pair[0]))
    result.ignored.sort(key=lambda item: item.path)
    return result


def _matching(pattern: str, boundary: Boundary) -> Entries:
    for path in map(os.path.abspath, glob.iglob(pattern, recursive=True)):
        if not os.path.isdir(path):
            relative = os.path.relpath(path, boundary.folder)
            yield boundary.left_out(relative, path) or (relative, path)


def _walk(root: str, boundary: Boundary) -> Entries:
    def refuse(error: OSError) -> None:
        folder = display_text(str(error.filename))
        raise ConfigError(f"source folder {folder!r} cannot be listed ({error.strerror})")

    follows = boundary.inside is None
    status = os.stat(root)
    visited = {(status.st_dev, status.st_ino)}
    for folder, folders, files in os.walk(root, onerror=refuse, followlinks=follows):
        for name in folders[:]:
            path = os.path.join(folder, name)
            aside = _skipped(name, path, boundary)
            if aside is None and os.path.islink(path) and not follows:
                aside = Ignored(recording_name(os.path.relpath(path, root)), "linked_folder")
            elif aside is None and follows:
                status = os.stat(path)
                if (status.st_dev, status.st_ino) in visited:
                    aside = Ignored(recording_name(os.path.relpath(path, root)), "duplicate_folder")
                visited.add((status.st_dev, status.st_ino))
            if aside is not None:
                folders.remove(name)
                yield aside
        for name in files:
            path = os.path.join(folder, name)
            yield _skipped(name, path, boundary) or (os.path.relpath(path, root), path)


def _skipped(name: str, path: str, boundary: Boundary) -> Ignored | None:
    relative = os.path.relpath(path, boundary.folder)
    if reason := skip_reason(name):
        return Ignored(recording_name(relative), reason)
    return boundary.left_out(relative, path) if os.path.islink(path) else None


class Object(NamedTuple):
    """One object: its name relative to the root, size in bytes, and guard."""

    relative: str
    url: str
    size: int
    guard: str


def objects_below(root: str, system_folders: bool = False) -> Iterator[Object | Ignored]:
    """Objects below a URL in the byte order of their names; a skipped folder (a hidden one, say) is
    one entry. ConfigError if it cannot be listed."""
    skipped: set[str] = set()
    files, key = urls.files_of(root)
    try:
        objects = store_errors.under(files, key)
    except (FileNotFoundError, RunError) as error:
        raise refusal(root, f"cannot be listed ({error})") from None
    signs = (name.removesuffix(OUT_SIGN) for name in objects if name.endswith(f"/{OUT_SIGN}"))
    outs = {*signs, *([""] if OUT_SIGN in objects else [])}

    def reason(parts: list[str], depth: int) -> str | None:
        if parts[depth] in OUT_FOLDERS and "".join(f"{part}/" for part in parts[:depth]) in outs:
            return RESULTS
        return skip_reason(parts[depth], system_folders)

    for relative in sorted(objects, key=os.fsencode):
        parts = relative.split("/")
        part = next((n for n in range(len(parts)) if reason(parts, n)), None)
        if part is None:
            yield Object(relative, f"{root}/{relative}", *objects[relative])
            continue
        name = "/".join(parts[: part + 1])
        if name not in skipped:
            skipped.add(name)
            yield Ignored(recording_name(name), reason(parts, part) or "")
