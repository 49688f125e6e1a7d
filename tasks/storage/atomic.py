"""Files under their final names only when complete and durable: temp file, fsync, rename."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_UNKNOWN = (errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.ENOTSUP)


class HashedFile:
    """A binary file that hashes what is written to it (sequential writes only)."""

    def __init__(self, raw: BinaryIO) -> None:
        self.raw = raw
        self.sha = hashlib.sha256()
        self.size = 0
        self.closed = False  # pyarrow reads it; the owner closes `raw`

    def write(self, data: ReadableBuffer) -> int:
        view = memoryview(data).cast("B")
        self.raw.write(view)
        self.sha.update(view)
        self.size += len(view)
        return len(view)

    @property
    def name(self) -> str:
        """The first 16 hex digits of the sha256 of the bytes written."""
        return self.sha.hexdigest()[:16]


@contextmanager
def staged(folder: Path) -> Iterator[tuple[HashedFile, Callable[[Callable[[str], str]], Path]]]:
    """A temp file in a local folder, and `publish`, which fsyncs and renames it."""
    folder.mkdir(parents=True, exist_ok=True)
    temp = folder / f".{secrets.token_hex(8)}.tmp"
    with temp.open("xb") as raw:  # never through a link, and with the umask's rights
        handle = HashedFile(raw)

        def publish(name_of: Callable[[str], str]) -> Path:
            raw.flush()
            os.fsync(raw.fileno())
            final = folder / name_of(handle.name)
            # The folder is not synced: a power cut that undoes a rename costs work, never a wrong
            # result. A version's folders are synced when it is published.
            os.replace(temp, final)
            return final

        try:
            yield handle, publish
        finally:
            temp.unlink(missing_ok=True)


def fsync(path: Path) -> None:
    """Make a file's bytes, or the renames in a folder, durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        # SMB and FUSE may not support fsync of a folder: they make renames durable by themselves,
        # or cannot at all.
        if error.errno not in _UNKNOWN or not stat.S_ISDIR(os.fstat(fd).st_mode):
            raise
    finally:
        os.close(fd)
