"""Dataset versions on disk: staged beside, published by one rename, never changed after.

datasets/.staging/     being written; removed by the next run when its run died
datasets/v0001/        complete, or not there
datasets/latest        a link to the newest, moved last

On an object store: see `remote_versions.py`.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks import storage
from tasks.checkpoints.manifest import fsync
from tasks.dataset import remote_versions


def home(out: Path) -> Path:
    return out / "datasets"


def number(version: Path) -> int:
    return int(version.name[1:])


def all_of(out: Path) -> list[Path]:
    """Published versions, oldest first."""
    if storage.is_remote(out):
        return [*remote_versions.whole(home(out))][::-1]
    if not home(out).is_dir():
        return []
    found = [p for p in home(out).iterdir() if p.name[:1] == "v" and p.name[1:].isdigit()]
    return sorted(found, key=number)


def newest(out: Path) -> Path | None:
    if storage.is_remote(out):
        return next(remote_versions.whole(home(out)), None)
    found = all_of(out)
    return found[-1] if found else None


def described(version: Path) -> dict[str, Any]:
    """dataset.json of a version."""
    data: dict[str, Any] = json.loads(storage.read(version / "dataset.json"))
    return data


def follow(path: Path) -> Path:
    """The version itself where `latest` was named."""
    return remote_versions.follow(path) if storage.is_remote(path) else path.resolve()


def named(place: Path) -> Path:
    """The version that a place means: itself, what `latest` is, or the newest of an OUT."""
    version, latest = follow(place), home(place) / "latest"
    there = storage.exists(latest) if storage.is_remote(latest) else latest.exists()
    return follow(latest) if there and not storage.exists(version / "dataset.json") else version


def stage(out: Path, version: int) -> Path:
    """An empty staging folder; whatever a dead run left in it is gone. A remote one was cleaned by
    the run itself: a worker cannot tell whether OUT's lock is lost."""
    if storage.is_remote(out):
        return home(out) / f"v{version:04d}"
    staging = home(out) / ".staging"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    return staging


@contextmanager
def finishing(
    staging: Path, read: Iterable[str], sizes: Mapping[str, int | None], scratch: Path | None
) -> Iterator[Path]:
    """A local folder in which the last files of a version are written: the staging folder itself,
    or one that has the files `read` of it, and the folders and known sizes of others."""
    if not storage.is_remote(staging):
        yield staging
        return
    with remote_versions.mirror(staging, read, sizes, scratch) as mirrored:
        yield mirrored


def publish(
    out: Path, staging: Path, version: int, finished: Path, staged: Collection[str]
) -> Path:
    """Make everything durable, rename staging to its version, then move `latest`. `finished` is
    what `finishing` gave, `staged` names what was in the staging folder before."""
    if storage.is_remote(out):
        remote_versions.publish(out, home(out), staging, finished, staged)
        return staging
    for folder, _, names in os.walk(staging):
        for name in names:
            fsync(Path(folder) / name)
        fsync(Path(folder))
    final = home(out) / f"v{version:04d}"
    os.rename(staging, final)
    fsync(home(out))
    point_latest(out)
    return final


def point_latest(out: Path) -> None:
    """Let `latest` name the newest version; a run that died between rename and link is mended."""
    if storage.is_remote(out):
        remote_versions.point_latest(home(out))
        return
    last = newest(out)
    link = home(out) / "latest"
    if last is None or (link.is_symlink() and os.readlink(link) == last.name):
        return
    temp = home(out) / ".latest.tmp"
    temp.unlink(missing_ok=True)
    temp.symlink_to(last.name)
    os.replace(temp, link)
    fsync(home(out))


def clean(out: Path) -> None:
    """Remove the staging folder of a dead run; only while holding OUT's lock."""
    if storage.is_remote(out):
        remote_versions.clean(out, home(out))
        return
    shutil.rmtree(home(out) / ".staging", ignore_errors=True)


def link(old: Path, new: Path, sha256: str, size: int) -> bool:
    """Let `new` be the file `old` of a published version, by a hard link or else a copy; False
    when `old` is not the file that it was. Its bytes are read: damage does not spread. An object
    is copied within its store."""
    if storage.is_remote(old):
        return storage.copy_unchanged(old, new, sha256, size)
    try:
        if storage.hashed(old) != (sha256, size):
            return False
    except OSError:
        return False
    new.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(old, new)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(old, new)
    return True
