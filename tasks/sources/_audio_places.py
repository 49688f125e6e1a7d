"""Finds the audio that a table names by a path, or by a name without folder or extension."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .. import storage
from ..base.errors import ItemError
from ..storage import urls
from ._paths import resolve

#: Folders and extensions to try, first the name as it is.
FOLDERS = ("", "wavs/", "clips/", "wav/", "audio/", "mp3/", "data/", "../", "../wavs/", "../wav/")
EXTENSIONS = ("", ".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".WAV")
LOOKED, ASKED = 20, 3  # names to choose the place of all by; under a URL, each costs requests


@dataclass(frozen=True, slots=True)
class Place:
    """Between a name in a table and its path from the root: `<before><name><after>`."""

    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        return f"{self.before}<name>{self.after}"

    def path(self, name: str) -> str:
        return f"{self.before}{name}{self.after}"


AS_WRITTEN = Place()


def place_of(
    root: str, names: Iterable[str], folders: Sequence[str] = FOLDERS
) -> tuple[Place, int]:
    """The place of most of the first names, and how many it has; (`AS_WRITTEN`, 0) if none."""
    looked = [*names][: ASKED if storage.is_url(root) else LOOKED]
    best, most = AS_WRITTEN, 0
    for before in folders:
        for after in EXTENSIONS:
            place = Place(before, after)
            present = sum(is_there(root, place.path(name)) for name in looked)
            if present == len(looked) > 0:
                return place, present
            if present > most:
                best, most = place, present
    return best, most


def is_there(root: str, written: str) -> bool:
    try:
        urls.state(resolve(root, written))
    except (OSError, ValueError, ItemError):
        return False
    return True


def stem(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]
