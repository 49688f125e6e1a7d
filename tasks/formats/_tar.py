"""Plain USTAR tars, written and read without a detour: this is most of what packaging does.

Members have mode 0644, uid and gid 0, no owner's name and mtime 0, as WeNet's: equal members give
equal bytes, whatever the machine, the clock or Python's release.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tasks.formats import Hashes

Data = bytes | memoryview

BLOCK = 512
RECORD = 20 * BLOCK  # a tar's length is a multiple of it
LONGEST_NAME = 100  # bytes
LONGEST_SUFFIX = 5  # with its dot
SMALL = 4096  # bytes; such parts of a member are joined
CHUNK = 1 << 15  # bytes written at once: 64 KiB take Linux half as long again


class Member(NamedTuple):
    name: str
    offset: int  # of its header
    data: memoryview
    plain: bool  # its header is the one that is written here


def key(utterance: str) -> str:
    """An id as the stem of a member's name: itself, or, of one so long that no suffix fits beside
    it, its beginning and a hash."""
    if len(utterance) <= LONGEST_NAME - LONGEST_SUFFIX:
        return utterance
    return f"{utterance[:70]}-{hashlib.sha256(utterance.encode()).hexdigest()[:16]}"


def size_of(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bytes that members of `size` bytes take in a tar: header and data, padded to blocks."""
    return BLOCK + -(-size // BLOCK) * BLOCK


class Tar:
    """The tar `path` below `home` that is being written; makes its folder, and notes in `hashes`
    what it is once it is whole. What `add` gets is copied nowhere."""

    def __init__(self, home: Path, path: str, hashes: Hashes) -> None:
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        self._path, self._hashes, self._digest = path, hashes, hashlib.sha256()
        self._file = os.open(home / path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self._small = b""  # is put with what follows: each put costs as much as a kilobyte
        self._waiting: list[Data] = []
        self._held = 0
        self._size = 0

    def add(self, name: str, *parts: Data) -> None:
        """A member whose data are these buffers of bytes, one after the other."""
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
        """In whole chunks that begin at a multiple of one, which is cheapest."""
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
        for at in range(room, end, CHUNK):
            _write_all(self._file, rest[at : at + CHUNK])
        self._size += end - room
        self._waiting.append(rest[end:])
        self._held = len(rest) - end

    def _flush(self) -> None:
        done = os.writev(self._file, self._waiting)
        if done < self._held:  # a disk that is nearly full
            _write_all(self._file, b"".join(self._waiting)[done:])
        self._size += self._held
        self._waiting, self._held = [], 0

    def __enter__(self) -> Tar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
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
    """512 bytes as POSIX.1-1988 has them: octal numbers, and the sum of all bytes."""
    raw = name.encode("ascii")
    if len(raw) > LONGEST_NAME or size >= 8**11:
        raise ValueError(f"{name} of {size} bytes does not fit into a USTAR header")
    head = b"%b0000644\0%b%b%011o\0%011o\0" % (raw.ljust(100, b"\0"), _NOBODY, _NOBODY, size, 0)
    return b"%b%06o\0 %b" % (head, sum(head) + _TAIL_SUM, _TAIL)


_ZEROS = bytes(BLOCK)
_NOBODY = b"0000000\0"
_TAIL = b"0".ljust(101, b"\0") + b"ustar\x0000" + bytes(BLOCK - 148 - 8 - 101 - 8)
_TAIL_SUM = sum(_TAIL) + 8 * ord(" ")  # the sum counts its own field as blanks


def read(path: Path, digest: Any = None) -> Iterator[Member]:
    """Members of a tar as it is written here, in order; ValueError where it is no such tar. All its
    bytes go through `digest`, where one is given."""
    update = digest.update if digest else len
    with path.open("rb", buffering=0) as file:
        whole = os.fstat(file.fileno()).st_size
        at, head = 0, file.read(BLOCK)
        update(head)
        while head.strip(b"\0"):
            name, size = head[:100].rstrip(b"\0").decode("ascii"), int(head[124:135], 8)
            padding = -size % BLOCK
            after = at + BLOCK + size + padding
            if size < 0 or after > whole:
                raise ValueError(f"{path.name}: {name} is cut off")
            data = memoryview(file.read(size + padding + BLOCK))  # and the next header
            update(data)
            if bytes(data[size : size + padding]).strip(b"\0"):
                raise ValueError(f"{path.name}: something stands behind {name}")
            yield Member(name, at, data[:size], head == header(name, size))
            at, head = after, bytes(data[size + padding :])
        rest = file.read()
        update(rest)
        if whole % RECORD or whole - at < 2 * BLOCK or rest.strip(b"\0"):
            raise ValueError(f"{path.name} does not end as a tar does")


def expect(
    home: Path, path: str, names: Sequence[str], faults: list[str], hashes: Hashes, exact: bool
) -> Iterator[Member]:
    """The members of a tar as long as they are those of `names`, in order; adds to `faults` what
    is missing, in another place, not plain or too much.

    A tar that `hashes` knows is compared with that, unless the caller is `exact`: it compares every
    byte of the members' data with what was to be written. Of another one `hashes` gets what it is.
    """
    known = hashes.get(path)
    digest = hashlib.sha256() if known is None or not exact else None
    members = read(home / path, digest)
    for name in names:
        member = next(members, None)
        if member is None or member.name != name:
            faults.append(
                f"{path}: {member.name} stands where {name} should"
                if member
                else f"{path}: ends before {name}"
            )
            return
        if not member.plain:
            faults.append(f"{path}: {name} has another owner, mode or time")
        yield member
    extra = next(members, None)
    if extra is not None:
        faults.append(f"{path}: {extra.name} is in no row")
        return
    size = (home / path).stat().st_size
    found = digest.hexdigest() if digest else None
    if known is not None and known != (found or known[0], size):
        faults.append(f"{path} is not what was written")
    elif found:
        hashes[path] = (found, size)
