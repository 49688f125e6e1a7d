"""A file object as decoders get it."""

from __future__ import annotations

import errno
import os
from typing import BinaryIO


class Nameless:
    """Without a name, so that decoders judge by content only; and it raises nothing, because both
    would print an exception on the terminal, and PyAV would raise it at another file.

    A failed read is the end of the file to them; who opened the file knows better
    (`container.failure`). A damaged header may lead to a place that no file has: they take a
    negative number for an error.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.tell = file, file.tell

    def read(self, size: int = -1) -> bytes:
        try:
            return self._file.read(size)
        except OSError:
            return b""

    def readinto(self, buffer: memoryview) -> int:
        try:
            return self._file.readinto(buffer)  # type: ignore[attr-defined, no-any-return]
        except OSError:
            return 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return self._file.seek(offset, whence)
        except (OSError, ValueError):
            return -errno.EINVAL
