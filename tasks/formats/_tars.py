"""Formats of plain USTAR tars: the members of each clip adjacent, in the order of the rows.

Members have mode 0644, uid and gid 0, no owner's name and mtime 0, as WeNet's: equal members give
equal bytes, whatever the machine, the clock or Python's release. A member's content is bytes, or a
row, which stands for its clip's audio.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from ..base.arrays import Int64s
from ..base.schema import ClipRow
from ..storage.local import HashedFile
from . import Output, ReadPcm, Rows, _clips

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
        self.file = HashedFile(self._raw)

    def add(self, name: str, *parts: bytes | memoryview) -> None:
        size = sum(map(len, parts))
        self.file.write(b"".join((header(name, size), *parts, _ZEROS[: -size % BLOCK])))

    def __enter__(self) -> Tar:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._raw:
            if kind is None:
                end = 2 * BLOCK
                self.file.write(bytes(end + -(self.file.size + end) % RECORD))
                self._hashes[self._path] = (self.file.sha.hexdigest(), self.file.size)


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


#: The members of a row by name, in order, given the suffix of its audio.
Members = Callable[[ClipRow, _clips.Suffix], Mapping[str, bytes | ClipRow]]
#: Of a member, or what is wrong with the bytes of one that does not follow from its row.
Expected: TypeAlias = bytes | ClipRow | Callable[[memoryview], str | None]


def write(
    out: Output, path: str, rows: Rows, pcm: ReadPcm, members: Members, encoding: _clips.Encoding
) -> list[int]:
    """Write a tar. Returns the byte at which each row's members begin, and the last ones end."""
    edges = [0]
    with Tar(out, path) as tar:
        for row in rows:
            for name, content in members(row, encoding.suffix).items():
                if isinstance(content, bytes):
                    tar.add(name, content)
                else:
                    tar.add(name, *_clips.parts(content, pcm, encoding))
            edges.append(tar.file.size)
    return edges


def check(
    out: Output,
    path: str,
    rows: Rows,
    members: Callable[[ClipRow, _clips.Suffix], Mapping[str, Expected]],
    encoding: _clips.Encoding,
) -> tuple[list[str], list[int]]:
    """The faults of a tar: names, order, headers, bytes and decoded PCM; and the edges that `write`
    returns, up to the first wrong name.

    It is compared with its recorded digest, too; a tar without one gets it recorded.
    """
    digest = hashlib.sha256()
    stored = read(out.home / path, digest)
    faults, edges, end = list[str](), [0], 0
    for row in rows:
        for name, content in members(row, encoding.suffix).items():
            member = next(stored, None)
            if member is None:
                return [*faults, f"{path}: ends before {name}"], edges
            if member.name != name:
                return [*faults, f"{path}: {member.name} stands where {name} should"], edges
            place = f"{path}: {name}"
            if not member.plain:
                faults.append(f"{place} has another owner, mode or time")
            if isinstance(content, bytes):
                faults += [] if member.data == content else [f"{place} differs from its row"]
            elif callable(content):
                faults += [f"{place} {fault}"] if (fault := content(member.data)) else []
            else:
                faults += _clips.faults(content, place, member.data, encoding)
            end = member.end
        edges.append(end)
    if extra := next(stored, None):
        return [*faults, f"{path}: {extra.name} is in no row"], edges
    current = digest.hexdigest(), (out.home / path).stat().st_size
    if out.hashes.setdefault(path, current) != current:
        faults.append(f"{path} is not what was written")
    return faults, edges


class Member(NamedTuple):
    name: str
    data: memoryview
    plain: bool  # its header is the one that `Tar` writes
    end: int  # offset of what follows


def read(path: Path, digest: hashlib._Hash | None = None) -> Iterator[Member]:
    """Members of a tar, in order; `digest`, if given, is updated with all its bytes. ValueError for
    a file that is not a complete USTAR tar."""
    update = digest.update if digest else len
    with path.open("rb", buffering=0) as file:
        whole = os.fstat(file.fileno()).st_size
        end, head = 0, file.read(BLOCK)
        update(head)
        while head.strip(b"\0"):
            name, size = head[:100].rstrip(b"\0").decode("ascii"), int(head[124:135], 8)
            padding = -size % BLOCK
            end += BLOCK + size + padding
            if size < 0 or end > whole:
                raise ValueError(f"{path.name}: {name} is cut off")
            data = memoryview(file.read(size + padding + BLOCK))  # and the next header
            update(data)
            if bytes(data[size : size + padding]).strip(b"\0"):
                raise ValueError(f"{path.name}: there are bytes after {name}")
            yield Member(name, data[:size], head == header(name, size), end)
            head = bytes(data[size + padding :])
        rest = file.read()
        update(rest)
        if whole % RECORD or whole - end < 2 * BLOCK or rest.strip(b"\0"):
            raise ValueError(f"{path.name} does not end with the end mark of a tar")


INDEX = ".idx"  # suffix of a file's index


def index(edges: Sequence[int]) -> bytes:
    """`<file>.idx`: where each sample of a file begins and the last one ends, for random access, in
    unsigned 64-bit integers, little-endian, as lhotse and Energon read them."""
    return np.array(edges, "<u8").tobytes()


def index_faults(out: Output, path: str, right: bytes) -> list[str]:
    same = (out.home / path).read_bytes() == right
    return [] if same else [f"{path} does not match the positions in its file"]
