"""Reads containers while sources are listed: a read that fails because of a disk, a share or a
store is repeated on the file opened anew (`tasks.recording.unreachable`)."""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, TypeVar, cast

from ..base.errors import ItemError
from ..storage import Away, regular, urls
from . import unreachable


class PositionedReader(io.RawIOBase):
    """A read-only file with its own position. Subclasses give its length, and the bytes at a
    position."""

    def __init__(self) -> None:
        super().__init__()
        self._position = 0

    @abstractmethod
    def _length(self) -> int:
        """Length in bytes; called only when the end is needed."""

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


Result = TypeVar("Result")


def opened(path: str, opener: regular.Opener = regular.read) -> BinaryIO:
    """A file or object, opened for reading. Opening and reading raise ItemError: `unreachable` if
    retries fail, `unreadable` if the error is permanent; Away if a store fails."""
    return cast(BinaryIO, _Patient(path, opener))


class _Patient(PositionedReader):
    def __init__(self, path: str, opener: regular.Opener) -> None:
        super().__init__()
        self._path, self._opener = path, opener
        self._file: BinaryIO | None = None
        self._patiently(lambda file: file)

    def fileno(self) -> int:
        return self._patiently(lambda file: file.fileno())

    def _length(self) -> int:
        return self._patiently(lambda file: file.seek(0, os.SEEK_END))

    def _read_at(self, position: int, size: int) -> bytes:
        return self._patiently(partial(_read, position=position, size=size))

    def close(self) -> None:
        self._forget()
        super().close()

    def _patiently(self, work: Callable[[BinaryIO], Result]) -> Result:
        try:
            return self._once(work)  # the common case: no overhead
        except (ItemError, Away) as error:
            if not unreachable.passes(error):
                raise
        try:
            return unreachable.patience.read(partial(self._once, work))
        except ItemError as error:
            if isinstance(error.__cause__, Away):  # its other containers are unreachable, too
                raise error.__cause__ from None
            raise

    def _once(self, work: Callable[[BinaryIO], Result]) -> Result:
        try:
            with unreachable.listed():
                if self._file is None:
                    self._file = urls.streamed(self._path, self._opener)
                return work(self._file)
        except (ItemError, Away):
            self._forget()  # a stale handle stays stale
            raise

    def _forget(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _read(file: BinaryIO, position: int, size: int) -> bytes:
    file.seek(position)
    return file.read(size)
