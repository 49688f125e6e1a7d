"""Reads that fail through no fault of the item: its disk, share, network or store is unreachable,
or a right is missing. It is read again: after a pause, and by the next run."""

import errno
import io
import os
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import BinaryIO, TypeVar, cast

from ..base.errors import UNREACHABLE, ItemError
from ..storage import Away, regular, urls
from ..storage.store_errors import Redirected

Result = TypeVar("Result")

#: Errors of a name or a file itself. All others come from what lies between.
_OWN = {
    *(errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EISDIR),
    *(errno.EINVAL, errno.EILSEQ, errno.EOVERFLOW, errno.EFBIG, errno.ENXIO),
}
_LASTING = (errno.EACCES, errno.EPERM)  # nobody grants a right within seconds
_TRIES = (0.5, 1.0, 2.0, None)  # s of pauses before a failed read is tried again
_SLOW = 10.0  # s: a read that takes this long to fail has retried by itself
_MOST = 60.0  # s of pauses per process; each successful read returns _BACK of it
_BACK = 0.1
_OUTAGE = 5  # failed items in a row after which a store counts as unreachable
_WORDS = re.compile(r"it cannot be read \((.*?)\)")


def passes(error: Exception) -> bool:
    """Whether an error may have passed at the next try."""
    if isinstance(error, ItemError):
        return error.code == UNREACHABLE
    if isinstance(error, OSError) and not isinstance(error, Redirected):
        lost = isinstance(error, ConnectionError | TimeoutError)
        return lost or (error.errno is not None and error.errno not in _OWN)
    return isinstance(error, Away)


@contextmanager
def listed() -> Iterator[None]:
    """For reads of a file that existed when it was listed: if it is missing now, its share may
    be."""
    try:
        yield
    except (ItemError, OSError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if isinstance(cause, FileNotFoundError | NotADirectoryError):
            raise ItemError(UNREACHABLE, item_error(cause).detail) from cause
        if isinstance(error, OSError):
            raise item_error(error) from error
        raise


def item_error(error: Exception) -> ItemError:
    """A failed read as `unreachable` or `unreadable`, in words, without the error number and the
    path, which callers show beside it."""
    what = f"it cannot be read ({getattr(error, 'strerror', None) or error})"
    if isinstance(error, PermissionError) and not isinstance(error, Redirected):
        what += "; let the account that runs this read it"
    return ItemError(UNREACHABLE if passes(error) else "unreadable", what)


def why(detail: str) -> str:
    """The system's words in the detail of an `item_error`."""
    match = _WORDS.match(detail)
    return match[1] if match else detail


class Patience:
    """Repeats failed reads. One object per process, so that hundreds of failures cost no more
    pauses than one: once pauses have not helped an item, none follow until a read succeeds."""

    def __init__(self) -> None:
        self._left = _MOST
        self._failed = 0  # items in a row

    def read(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, which is repeated while it raises ItemError `unreachable` or Away.
        If that does not help: the last ItemError, or Away if a store keeps failing."""
        for pause in _TRIES:
            began = time.monotonic()
            try:
                result = work()
            except (ItemError, Away) as error:
                if not passes(error):
                    raise
                slow = time.monotonic() - began > _SLOW
                if pause is None or slow or not self._waits(error, pause):
                    self._failed += 1
                    if isinstance(error, ItemError) or self._failed >= _OUTAGE:
                        raise
                    raise item_error(error) from error
            else:
                self._failed, self._left = 0, min(self._left + _BACK, _MOST)
                return result
            time.sleep(pause)
        raise AssertionError

    def _waits(self, error: Exception, pause: float) -> bool:
        """Whether to pause and try again; counts the pause."""
        cause = error.__cause__ or error
        lasting = isinstance(cause, OSError) and cause.errno in _LASTING
        if lasting or self._failed or self._left < pause:
            return False
        self._left -= pause
        return True


#: This process's only one.
patience = Patience()


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
        def read(file: BinaryIO) -> bytes:
            file.seek(position)
            return file.read(size)

        return self._patiently(read)

    def close(self) -> None:
        self._forget()
        super().close()

    def _patiently(self, work: Callable[[BinaryIO], Result]) -> Result:
        try:
            return self._once(work)  # the common case: no overhead
        except (ItemError, Away) as error:
            if not passes(error):
                raise
        try:
            return patience.read(partial(self._once, work))
        except ItemError as error:
            if isinstance(error.__cause__, Away):  # its other containers are unreachable, too
                raise error.__cause__ from None
            raise

    def _once(self, work: Callable[[BinaryIO], Result]) -> Result:
        try:
            with listed():
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
