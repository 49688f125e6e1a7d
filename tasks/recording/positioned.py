"""A read-only file that keeps its own position in bytes that come from elsewhere."""

from __future__ import annotations

import io
import os
from abc import abstractmethod


class PositionedReader(io.RawIOBase):
    """Subclasses say how long it is, and what stands at a position."""

    def __init__(self) -> None:
        super().__init__()
        self._position = 0

    @abstractmethod
    def _length(self) -> int:
        """Bytes up to its end; asked only where somebody needs the end."""

    @abstractmethod
    def _read_at(self, position: int, size: int) -> bytes:
        """At most `size` bytes from `position`."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = 0
        if whence == os.SEEK_END:
            base = self._length()
        elif whence == os.SEEK_CUR:
            base = self._position
        self._position = max(base + offset, 0)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        if size is None or size < 0:
            size = max(self._length() - self._position, 0)
        data = self._read_at(self._position, size)
        self._position += len(data)
        return data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
