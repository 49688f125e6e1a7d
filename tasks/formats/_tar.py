"""Writes plain USTAR tars.

Members have mode 0644, uid and gid 0, no owner's name and mtime 0, as WeNet's: equal members give
equal bytes, whatever the machine, the clock or Python's release.
"""

from __future__ import annotations

import hashlib

from ..base.arrays import Int64s
from ..storage.atomic import HashedFile
from . import Output

Data = bytes | memoryview

BLOCK = 512
RECORD = 20 * BLOCK  # a tar's length is a multiple of it
LONGEST_NAME = 100  # bytes
LONGEST_SUFFIX = 5  # with its dot


def key(utterance: str, suffix: int = LONGEST_SUFFIX) -> str:
    """An id as the stem of members' names; an id that leaves no room for the longest suffix (bytes,
    with its dot) is shortened and gets a hash."""
    if len(utterance) <= LONGEST_NAME - suffix:
        return utterance
    return f"{utterance[:70]}-{hashlib.sha256(utterance.encode()).hexdigest()[:16]}"


def size_of(size: Int64s) -> Int64s:
    """Bytes that members with `size` bytes of data take in a tar: header and data, in blocks."""
    return BLOCK + -(-size // BLOCK) * BLOCK


class Tar:
    """Writes a tar into an output folder, and records its digest in `out.hashes` when it is
    complete."""

    def __init__(self, out: Output, path: str) -> None:
        self._path, self._hashes = path, out.hashes
        self._raw = out.create(path)
        self._file = HashedFile(self._raw)

    def tell(self) -> int:
        """Where the next member begins."""
        return self._file.size

    def add(self, name: str, *parts: Data) -> None:
        """Add a member whose data are these buffers, one after the other."""
        size = sum(map(len, parts))
        for part in (header(name, size), *parts, _ZEROS[: -size % BLOCK]):
            self._file.write(part)

    def __enter__(self) -> Tar:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._raw:
            if kind is None:
                end = 2 * BLOCK
                self._file.write(bytes(end + -(self._file.size + end) % RECORD))
                self._hashes[self._path] = (self._file.sha.hexdigest(), self._file.size)


def header(name: str, size: int) -> bytes:
    """A header of 512 bytes by POSIX.1-1988: octal numbers, and the sum of all bytes.

    ValueError for a name or size that does not fit.
    """
    raw = name.encode("ascii")
    if len(raw) > LONGEST_NAME or size >= 8**11:
        raise ValueError(f"{name} of {size} bytes does not fit into a USTAR header")
    head = b"%b0000644\0%b%b%011o\0%011o\0" % (raw.ljust(100, b"\0"), _NOBODY, _NOBODY, size, 0)
    return b"%b%06o\0 %b" % (head, sum(head) + _TAIL_SUM, _TAIL)


_ZEROS = bytes(BLOCK)
_NOBODY = b"0000000\0"
_TAIL = b"0".ljust(101, b"\0") + b"ustar\x0000" + bytes(BLOCK - 148 - 8 - 101 - 8)
_TAIL_SUM = sum(_TAIL) + 8 * ord(" ")  # its own field counts as blanks
