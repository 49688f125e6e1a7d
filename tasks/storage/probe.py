"""Tests before any work whether the file system of OUT can do what a run needs.

Without symbolic links `datasets/latest` is a small file, without hard links files are copied, and
nothing needs chmod. The rest has no substitute: a rename makes a version appear whole, a lock keeps
two runs apart.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..base.errors import ConfigError
from . import atomic

ELSEWHERE = (
    "put OUT on a local disk or NFS, and copy the dataset from there; give a bucket that is "
    "mounted as a folder by its URL, s3://…"
)
LOCKS = (
    "so two runs could publish over each other; mount it with locks (Lustre: -o flock; NFS: with "
    "lockd), or put OUT on another disk"
)


def check(out: Path) -> None:
    """ConfigError that names the first operation that a run needs and that fails in this folder;
    OSError if nothing can be written there."""
    # Its name marks it as a file that is being written (`local.is_temporary`).
    with tempfile.TemporaryDirectory("x.tmp", ".", out, ignore_cleanup_errors=True) as name:
        home = Path(name)
        new, old, folder = home / ".new.tmp", home / ".old.tmp", home / "folder"
        for path in (new, old):
            path.write_bytes(b"probe\n")
        folder.mkdir()
        (folder / ".in.tmp").write_bytes(b"")
        with _needed(out, "write a file through to its disk"):
            atomic.fsync(new)
            atomic.fsync(home)
        with _needed(out, "rename a file over another"):
            os.replace(new, old)
        with _needed(out, "rename a folder"):
            os.rename(folder, home / "renamed")
        with _needed(out, "change a file in place"), old.open("r+b", buffering=0) as file:
            file.truncate(1)
            os.pwrite(file.fileno(), b"again", 0)
        with old.open("r+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise no_locks(out, error) from None


def no_locks(place: Path, error: OSError) -> ConfigError:
    """The error for a file system on which `flock` fails."""
    return ConfigError(f"the file system of {place} has no locks ({error.strerror}), {LOCKS}")


@contextmanager
def _needed(out: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"the file system of OUT {out} cannot {what} ({error.strerror}); {ELSEWHERE}"
        ) from None
