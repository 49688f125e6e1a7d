"""Which checkpoints there were when the last run ended, so that one that is gone is noticed.

A damaged file is found by the hash in its name; of a deleted one nothing is left to be found.
`OUT/manifests/inventory.txt` holds one relative path a line. It decides nothing: what is missing
is made again with or without it; it only lets a run say so.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from pathlib import Path

from tasks import storage
from tasks.storage import write_atomic

log = logging.getLogger("uttermill")

ROOTS = ("manifests", "audio")
NAMED = 5  # files that a message names


def _path(out: Path) -> Path:
    return out / "manifests" / "inventory.txt"


def there(out: Path) -> list[str]:
    """Committed files, relative to OUT, sorted."""
    found: list[str] = []
    for root in ROOTS:
        names = (f"{root}/{name}" for name in storage.of(out).tree(out / root))
        found += filter(_committed, names)
    return sorted(found)


def _committed(name: str) -> bool:
    """Whether a file is a checkpoint: what lies in `package` is none."""
    return name.endswith((".parquet", ".pcm")) and name.split("/")[-2] != "package"


def forget(out: Path, gone: Collection[str]) -> None:
    """Take files off the list that are about to be removed on purpose, relative to OUT; before they
    are, so that a kill in between leaves nothing to report. Only while holding OUT's lock."""
    known = _known(out)
    if not known.isdisjoint(gone):
        _write(out, sorted(known.difference(gone)))


def missing(out: Path) -> list[str]:
    """Say in the log, and return, what was there when the last run ended and is gone now."""
    gone = lost(out)
    if gone:
        more = f" and {len(gone) - NAMED} more" if len(gone) > NAMED else ""
        log.warning(
            "%d checkpoint files are gone since the last run (%s%s); what they held is made again",
            len(gone), ", ".join(gone[:NAMED]), more,
        )  # fmt: skip
    return gone


def lost(out: Path) -> list[str]:
    """What was there when the last run ended and is gone now, sorted."""
    return sorted(_known(out).difference(there(out)))


def note(out: Path) -> None:
    """Write down what is there now; only while holding OUT's lock."""
    _write(out, there(out))


def _known(out: Path) -> set[str]:
    try:
        return set(storage.read(_path(out)).decode().splitlines())
    except (OSError, UnicodeDecodeError):
        return set()


def _write(out: Path, names: list[str]) -> None:
    text = "".join(f"{name}\n" for name in names).encode()
    path = _path(out)
    if not storage.exists(path) or storage.read(path) != text:
        write_atomic(path, text)
