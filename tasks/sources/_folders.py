"""What local folders contain, and which audio."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike

from ..recording import Ignored
from ..recording.file_kinds import known
from ..recording.names import recording_name
from ._paths import skip_reason, stem

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
                if skip_reason(entry.name) or entry.name in aside:
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    with suppress(OSError):
                        if wanted(entry.name) and entry.is_file():
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
    # Most paths are normal already.
    odd = "./" in audio or "//" in audio or audio.endswith(("/", "/."))
    return hash(os.path.normpath(audio) if odd else audio)


def not_listed(folder: str, named: ArrayLike) -> Iterator[Ignored]:
    """Audio below a folder that no list names. `named`: `key_of` each file that one does."""
    keys = np.unique(np.asarray(named, np.int64))
    for path in audio_below(folder):
        key = hash(path)
        place = int(np.searchsorted(keys, key))
        if place == len(keys) or keys[place] != key:
            yield Ignored(recording_name(path), "not_listed")


def by_stem(folder: str, below: str = "") -> dict[str, str]:
    """The relative path of each audio file by its name without extension; the first of several."""
    paths: dict[str, str] = {}
    for relative in audio_below(folder, below):
        paths.setdefault(stem(relative), relative)
    return paths
