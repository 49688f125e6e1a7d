"""Dataset versions on an object store, where nothing can be renamed.

datasets/v0002/…               put object by object; a version is there when its dataset.json is
datasets/v0002/dataset.json    put last, and exclusively: of two runs one publishes a number
datasets/latest                names the newest version, put after it

What a dead run left is a number without a dataset.json; it is removed before the next version is
begun, and while OUT's lock is not lost. Every object is put exclusively, so a worker that was
thought dead writes over nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tasks import storage
from tasks.errors import RunError
from tasks.storage import lease, transfers

DESCRIPTION = "dataset.json"
LATEST = "latest"


def names(home: Path) -> Iterator[str]:
    """Names of versions, whole or not, the newest first."""
    found = (name for name in storage.folders(home) if name[:1] == "v" and name[1:].isdigit())
    return iter(sorted(found, key=lambda name: -int(name[1:])))


def whole(home: Path) -> Iterator[Path]:
    """Published versions, the newest first."""
    return (home / name for name in names(home) if storage.exists(home / name / DESCRIPTION))


def follow(path: Path) -> Path:
    """The version that `latest` names; any other place as it is."""
    if path.name != LATEST:
        return path
    try:
        return path.parent / storage.read(path).decode().strip()
    except FileNotFoundError:
        return path


def unfinished(home: Path) -> Iterator[Path]:
    """What dead runs, and a dead prune, left of versions."""
    found = (home / name for name in names(home))
    return (path for path in found if not storage.exists(path / DESCRIPTION))


def clean(out: Path, home: Path) -> None:
    """Remove it."""
    lease.check(out)
    for path in unfinished(home):
        storage.remove_tree(path)


def remove(version: Path) -> None:
    """It goes at once, with its dataset.json; the rest is what `clean` finds after a kill."""
    storage.remove(version / DESCRIPTION)
    storage.remove_tree(version)


@contextmanager
def mirror(
    staging: Path, read: Iterable[str], sizes: Mapping[str, int | None], scratch: Path | None
) -> Iterator[Path]:
    """A local folder for what comes last: it has the staged files `read`, the folders of all those
    in `sizes`, and as if they were there those with a size, which hold nothing but zeros."""
    with transfers.reading(staging, read, scratch) as home:
        for folder in {(home / name).parent for name in sizes}:
            folder.mkdir(parents=True, exist_ok=True)
        for name, size in sizes.items():
            if size is not None and not (home / name).exists():
                with (home / name).open("wb") as file:
                    file.truncate(size)
        yield home


def publish(out: Path, home: Path, staging: Path, mirrored: Path, staged: Collection[str]) -> None:
    """Put what is in the mirror but was not `staged`, prove that all is there, then the
    dataset.json."""
    text = (mirrored / DESCRIPTION).read_bytes()
    files: dict[str, dict[str, Any]] = json.loads(text)["files"]
    transfers.uploaded(mirrored, staging, but={*staged, DESCRIPTION})
    _check(staging, files, new=files.keys() - {*staged})
    lease.check(out)
    try:
        storage.put(staging / DESCRIPTION, text, exclusive=True)
    except FileExistsError:
        # A put whose answer was lost is tried again by the library, and finds itself.
        if storage.read(staging / DESCRIPTION) != text:
            raise RunError(
                f"another run has published {staging.name} meanwhile; nothing was changed: run it "
                "again"
            ) from None
    try:
        _check(staging, files, new=(), beside=(DESCRIPTION,))
    except RunError:  # a run that holds OUT by now has begun the same number
        with suppress(FileNotFoundError):
            if storage.read(staging / DESCRIPTION) == text:  # else that run has published it
                storage.remove(staging / DESCRIPTION)
        raise
    point_latest(home)


def point_latest(home: Path) -> None:
    """Let `latest` name the newest version, which another run may have published by now."""
    last = next(whole(home), None)
    if last is not None and follow(home / LATEST) != last:
        storage.put(home / LATEST, last.name.encode())


def _check(
    staging: Path, files: dict[str, dict[str, Any]], new: Iterable[str],
    beside: Collection[str] = (),
) -> None:  # fmt: skip
    """RunError where what lies in the store is not what the version is to hold. `new` files are
    read back; the others were when they were written."""
    there = storage.tree(staging)
    wanted = {name: entry["bytes"] for name, entry in files.items()}
    faults = sorted(name for name in {*there, *wanted} - {*beside}
                    if there.get(name) != wanted.get(name))  # fmt: skip
    for name in new:
        if name in there and storage.hashed(staging / name)[0] != files[name]["sha256"]:
            faults.append(name)
    if faults:
        raise RunError(
            f"{staging} does not hold what was written ({', '.join(faults[:3])}); does another run "
            "write there? run it again"
        )
