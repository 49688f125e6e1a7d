"""The objects under a URL, listed like the files of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from ..base.errors import ConfigError, RunError
from ..recording import Ignored
from ..recording.names import display_text, recording_name
from ..storage import store_errors, urls
from ..storage.containment import OUT_FOLDERS
from ._paths import OUT_SIGN, RESULTS, skip_reason


class Object(NamedTuple):
    """One object: its name relative to the root, size in bytes, and guard."""

    relative: str
    url: str
    size: int
    guard: str


def walk(root: str, system_folders: bool = False) -> Iterator[Object | Ignored]:
    """Objects below a URL in the byte order of their names. ConfigError if it cannot be listed.

    A skipped folder (a hidden one, say) is reported once, however many objects it holds.
    """
    skipped: set[str] = set()
    files, key = urls.files_of(root)
    try:
        objects = store_errors.under(files, key)
    except (FileNotFoundError, RunError) as error:
        raise ConfigError(f"source {display_text(root)!r} cannot be listed ({error})") from None
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
