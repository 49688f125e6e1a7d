"""Dataset versions on disk: staged beside, published by one rename, never changed after.

datasets/.staging/     being written; removed by the next run when its run died
datasets/v0001/        complete, or not there
datasets/latest        a link to the newest, moved last
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from tasks.manifest import fsync_folder


def home(out: Path) -> Path:
    return out / "datasets"


def number(version: Path) -> int:
    return int(version.name[1:])


def all_of(out: Path) -> list[Path]:
    """Published versions, oldest first."""
    if not home(out).is_dir():
        return []
    found = [p for p in home(out).iterdir() if p.name[:1] == "v" and p.name[1:].isdigit()]
    return sorted(found, key=number)


def newest(out: Path) -> Path | None:
    found = all_of(out)
    return found[-1] if found else None


def described(version: Path) -> dict[str, Any]:
    """dataset.json of a version."""
    data: dict[str, Any] = json.loads((version / "dataset.json").read_text())
    return data


def stage(out: Path) -> Path:
    """An empty staging folder; whatever a dead run left in it is gone."""
    staging = home(out) / ".staging"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    return staging


def publish(out: Path, staging: Path, version: int) -> Path:
    """Make everything durable, rename staging to its version, then move `latest`."""
    for folder, _, names in os.walk(staging):
        for name in names:
            _fsync(Path(folder) / name)
        fsync_folder(Path(folder))
    final = home(out) / f"v{version:04d}"
    os.rename(staging, final)
    fsync_folder(home(out))
    point_latest(out)
    return final


def point_latest(out: Path) -> None:
    """Let `latest` name the newest version; a run that died between rename and link is mended."""
    last = newest(out)
    link = home(out) / "latest"
    if last is None or (link.is_symlink() and os.readlink(link) == last.name):
        return
    temp = home(out) / ".latest.tmp"
    temp.unlink(missing_ok=True)
    temp.symlink_to(last.name)
    os.replace(temp, link)
    fsync_folder(home(out))


def clean(out: Path) -> None:
    """Remove the staging folder of a dead run; only while holding OUT's lock."""
    shutil.rmtree(home(out) / ".staging", ignore_errors=True)


def link(old: Path, new: Path, sha256: str, size: int) -> bool:
    """Let `new` be the file `old` of a published version, by a hard link or else a copy; False
    when `old` is not the file that it was. Its bytes are read: damage does not spread."""
    try:
        if hash_file(old) != (sha256, size):
            return False
    except OSError:
        return False
    new.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(old, new)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(old, new)
    return True


def hash_file(path: Path) -> tuple[str, int]:
    """(sha256, bytes) of a file, read in blocks."""
    with path.open("rb", buffering=0) as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
        return digest, handle.tell()


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
