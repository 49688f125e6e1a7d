"""Writes plain USTAR tars, directly: packaging spends most of its time here.

Members have mode 0644, uid and gid 0, no owner's name and mtime 0, as WeNet's: equal members give
equal bytes, whatever the machine, the clock or Python's release.
"""

from __future__ import annotations

import hashlib
import os

from ..base.arrays import Int64s
from . import Output

Data = bytes | memoryview

BLOCK = 512
RECORD = 20 * BLOCK  # a tar's length is a multiple of it
LONGEST_NAME = 100  # bytes
LONGEST_SUFFIX = 5  # with its dot
SMALL = 4096  # bytes; smaller parts of a member are joined before they are written
CHUNK = 1 << 15  # bytes per write: writes of 64 KiB take Linux 1.5 times as long


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
    """Writes a tar into an output folder without copying what `add` gets, and records its digest
    in `out.hashes` when it is complete."""

    def __init__(self, out: Output, path: str) -> None:
        target = out.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._hashes, self._digest = path, out.hashes, hashlib.sha256()
        self._file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self._small = b""  # goes out with the next part: each write costs as much as a kilobyte
        self._waiting: list[Data] = []
        self._held = 0
        self._size = 0

    def tell(self) -> int:
        """Where the next member begins."""
        return self._size + self._held + len(self._small)

    def add(self, name: str, *parts: Data) -> None:
        """Add a member whose data are these buffers, one after the other."""
        size = sum(map(len, parts))
        self._small += header(name, size)
        for part in parts:
            if len(part) < SMALL:
                self._small += part
            else:
                self._put(part)
        self._small += _ZEROS[: -size % BLOCK]
        if len(self._small) >= SMALL:
            self._put(b"")

    def _put(self, part: Data) -> None:
        small, self._small = self._small, b""
        for data in (small, part):
            self._digest.update(data)
            self._write(data)

    def _write(self, data: Data) -> None:
        """In whole chunks, aligned in the file: the cheapest way to write."""
        room = CHUNK - self._held
        if len(data) < room:
            self._waiting.append(data)
            self._held += len(data)
            return
        rest = memoryview(data)
        self._waiting.append(rest[:room])
        self._held = CHUNK
        self._flush()
        end = len(rest) - (len(rest) - room) % CHUNK
        for start in range(room, end, CHUNK):
            _write_all(self._file, rest[start : start + CHUNK])
        self._size += end - room
        self._waiting.append(rest[end:])
        self._held = len(rest) - end

    def _flush(self) -> None:
        done = os.writev(self._file, self._waiting)
        if done < self._held:  # a nearly full disk
            _write_all(self._file, b"".join(self._waiting)[done:])
        self._size += self._held
        self._waiting, self._held = [], 0

    def __enter__(self) -> Tar:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                size = self._size + self._held + len(self._small) + 2 * BLOCK
                self._put(bytes(2 * BLOCK + -size % RECORD))
                self._flush()
                self._hashes[self._path] = (self._digest.hexdigest(), self._size)
        finally:
            os.close(self._file)


def _write_all(file: int, data: Data) -> None:
    while (done := os.write(file, data)) < len(data):
        data = data[done:]


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
