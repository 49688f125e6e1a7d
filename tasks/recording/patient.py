"""Containers that are read while sources are listed: a read that fails because a disk, a share or a
store does is made again, from the file opened anew (`tasks.recording.unreachable`)."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from functools import partial
from typing import BinaryIO, TypeVar, cast

from tasks.base.errors import ItemError
from tasks.recording import unreachable
from tasks.storage import Away, urls

Result = TypeVar("Result")


def opened(path: str) -> BinaryIO:
    """A file or object, opened for reading. Opening and reading raise ItemError `unreachable` if
    they fail in the end, `unreadable` for what does not pass; Away where a store fails."""
    return cast(BinaryIO, _Patient(path))


class _Patient(io.RawIOBase):
    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._file: BinaryIO | None = None
        self._at = 0
        self._patiently(lambda file: file)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._patiently(lambda file: file.fileno())

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            base = self._patiently(lambda file: file.seek(0, os.SEEK_END))
        else:
            base = self._at if whence == os.SEEK_CUR else 0
        self._at = max(base + offset, 0)
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        data = self._patiently(partial(_read, position=self._at, size=-1 if size is None else size))
        self._at += len(data)
        return data

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._forget()
        super().close()

    def _patiently(self, work: Callable[[BinaryIO], Result]) -> Result:
        try:
            return self._once(work)  # of a million sound reads, none costs more than that
        except (ItemError, Away) as error:
            if not unreachable.passes(error):
                raise
        try:
            return unreachable.patience.read(partial(self._once, work))
        except ItemError as error:
            if isinstance(error.__cause__, Away):  # its other containers are away, too
                raise error.__cause__ from None
            raise

    def _once(self, work: Callable[[BinaryIO], Result]) -> Result:
        try:
            with unreachable.listed():
                if self._file is None:
                    self._file = urls.streamed(self._path)
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
