"""What local folders contain, and which audio; the objects under a URL, listed like the files of a
folder; and the container files (tar, Parquet) of a source: one, a glob, or a folder of any
depth."""

import glob
import math
import os
import stat
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .. import storage
from ..base.errors import ConfigError, RunError
from ..recording import Ignored
from ..recording.file_kinds import known
from ..recording.names import display_text, recording_name
from ..storage import store_errors, urls
from ..storage.containment import OUT_FOLDERS
from ._lists import refusal
from ._paths import OUT_SIGN, RESULTS, Boundary, skip_reason, source_root, stem

#: (relative name, absolute path), or a skipped file.
Entries = Iterator[tuple[str, str] | Ignored]

MOST_HOMES = 1000  # folders of languages, splits or books
MOST_LOOKED = 20_000  # entries examined to see whether there are lists


def entries(folder: str) -> set[str]:
    """Names in a folder; empty if it cannot be listed."""
    try:
        return {name for name in os.listdir(folder) if not skip_reason(name)}
    except OSError:
        return set()


def only_folder(folder: str) -> str | None:
    """The only folder in a folder without audio; None if there is no such."""
    names = sorted(entries(folder))
    inside = [path for name in names if os.path.isdir(path := os.path.join(folder, name))]
    alone = len(inside) == 1 and not os.path.islink(inside[0]) and not any(map(known, names))
    return inside[0] if alone else None


def homes(folder: str) -> list[str]:
    """`""` for the folder itself, and `<name>/` of the folders in it, sorted, if these are few."""
    try:
        with os.scandir(folder) as scanned:
            inside = [f"{e.name}/" for e in scanned if not skip_reason(e.name) and e.is_dir()]
    except OSError:
        inside = []
    return ["", *sorted(inside, key=os.fsencode)] if len(inside) <= MOST_HOMES else [""]


def files_below(
    folder: str, wanted: Callable[[str], bool], aside: Sequence[str] = (), depth: int = 6
) -> list[str]:
    """Relative paths of the files that `wanted` accepts, sorted; skips folders named in `aside` and
    those deeper than `depth`. Empty if the first MOST_LOOKED entries have none."""
    if next(some_below(folder, wanted, aside, depth), None) is None:
        return []
    return sorted(some_below(folder, wanted, aside, depth, math.inf), key=os.fsencode)


def some_below(
    folder: str,
    wanted: Callable[[str], bool],
    aside: Sequence[str] = (),
    depth: int = 6,
    most: float | None = None,
) -> Iterator[str]:
    """Relative paths of the regular files that `wanted` accepts, as far as a look at so many
    entries finds them."""
    folders, looked = deque([""]), 0
    while folders:
        before = folders.popleft()
        with suppress(OSError), os.scandir(f"{folder}/{before}") as scanned:
            for entry in scanned:
                looked += 1
                if looked > (most or MOST_LOOKED):
                    return
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not wanted(entry.name):  # as most are, and cheap to tell
                    continue
                if skip_reason(entry.name) or entry.name in aside:
                    continue
                if not is_folder:
                    with suppress(OSError):
                        if entry.is_file():
                            yield before + entry.name
                elif before.count("/") + 1 < depth:
                    folders.append(f"{before}{entry.name}/")


def audio_below(folder: str, below: str = "") -> Iterator[str]:
    """Relative paths of audio files, in the byte order of their folders."""
    for home, folders, files in os.walk(os.path.join(folder, below)):
        folders[:] = sorted((f for f in folders if not skip_reason(f)), key=os.fsencode)
        relative = os.path.relpath(home, folder)
        before = "" if relative == "." else f"{relative}/"
        for name in sorted(files, key=os.fsencode):
            if known(name) and not skip_reason(name):
                yield f"{before}{name}"


def key_of(folder: str, audio: object) -> int:
    """A hash of a file's path from the folder, however it is written; 0 for what is no text."""
    if not isinstance(audio, str):
        return 0
    audio = audio.strip().removeprefix(folder.rstrip("/") + "/")
    if not audio.isascii() or "\\" in audio:
        audio = unicodedata.normalize("NFC", audio.replace("\\", "/"))
    # Most paths are normal already.
    odd = "./" in audio or "//" in audio or audio.endswith(("/", "/."))
    return hash(os.path.normpath(audio) if odd else audio)


def not_listed(folder: str, named: ArrayLike) -> Iterator[Ignored]:
    """Audio below a folder that no list names. `named`: `key_of` each file that one does."""
    keys = np.unique(np.asarray(named, np.int64))
    for path in audio_below(folder):
        key = key_of(folder, path)
        place = int(np.searchsorted(keys, key))
        if place == len(keys) or keys[place] != key:
            yield Ignored(recording_name(path), "not_listed")


def by_stem(folder: str, below: str = "") -> dict[str, str]:
    """The relative path of each audio file by its name without extension; the first of several."""
    paths: dict[str, str] = {}
    for relative in audio_below(folder, below):
        paths.setdefault(stem(relative), relative)
    return paths


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
