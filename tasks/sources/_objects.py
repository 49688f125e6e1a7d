"""What lies under a URL, as the walk over a folder gives it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from tasks.errors import ConfigError, RunError
from tasks.recording import Ignored
from tasks.sources._shared import left_out, name_of, text_of
from tasks.storage import answers, urls


class Object(NamedTuple):
    """`relative` to what was walked; `mark` is the guard of recordings in it."""

    relative: str
    url: str
    size: int
    mark: str


def walk(root: str) -> Iterator[Object | Ignored]:
    """Objects below a URL, in the byte order of their names; ConfigError where it is away.

    A hidden folder, say, is one thing left aside, whatever lies in it.
    """
    told: set[str] = set()
    files, key = urls.files_of(root)
    try:
        found = answers.under(files, key)
    except (FileNotFoundError, RunError) as error:
        raise ConfigError(f"source {text_of(root)!r} cannot be listed ({error})") from None
    for relative in sorted(found, key=os.fsencode):
        parts = relative.split("/")
        part = next((n for n, name in enumerate(parts) if left_out(name)), None)
        if part is None:
            yield Object(relative, f"{root}/{relative}", *found[relative])
            continue
        name = "/".join(parts[: part + 1])
        if name not in told:
            told.add(name)
            yield Ignored(name_of(name), left_out(parts[part]) or "")
