"""Files that are compared as a whole: those whose bytes do not follow from their rows to the last
one, because a library encodes them."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tasks import storage
from tasks.formats import Hashes


def note(path: str, data: bytes, hashes: Hashes) -> None:
    """These are the bytes that are written to `path`."""
    hashes[path] = (hashlib.sha256(data).hexdigest(), len(data))


def faults(home: Path, path: str, hashes: Hashes) -> list[str]:
    """Whether the file is another than `hashes` know; afterwards they know what it is."""
    known, found = hashes.get(path), storage.hashed(home / path)
    hashes[path] = found
    return [] if known in (None, found) else [f"{path} is not what was written"]
