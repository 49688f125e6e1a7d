"""Reads the tars that `_tar` writes, and compares them with the rows they were written from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tasks.formats import Output
from tasks.formats._tar import BLOCK, RECORD, header


class Member(NamedTuple):
    name: str
    offset: int  # of its header
    data: memoryview
    plain: bool  # its header is the one that `_tar` writes
    end: int  # offset of what follows


def read(path: Path, digest: hashlib._Hash | None = None) -> Iterator[Member]:
    """Members of a tar, in order; `digest`, if given, is updated with all its bytes. ValueError for
    a file that is not a complete USTAR tar."""
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
                raise ValueError(f"{path.name}: there are bytes after {name}")
            yield Member(name, at, data[:size], head == header(name, size), after)
            at, head = after, bytes(data[size + padding :])
        rest = file.read()
        update(rest)
        if whole % RECORD or whole - at < 2 * BLOCK or rest.strip(b"\0"):
            raise ValueError(f"{path.name} does not end as a tar does")


def compare(
    out: Output, path: str, names: Sequence[str], faults: list[str], exact: bool
) -> Iterator[Member]:
    """Members of a tar as long as they are those in `names`, in order. Adds to `faults` a member
    that is missing, out of place, not plain or unexpected.

    With `exact`, the caller compares every byte of the members' data itself. Otherwise a tar with a
    recorded digest is compared with that; one without gets its digest recorded.
    """
    known = out.hashes.get(path)
    digest = hashlib.sha256() if known is None or not exact else None
    members = read(out.home / path, digest)
    for name in names:
        member = next(members, None)
        if member is None:
            faults.append(f"{path}: ends before {name}")
            return
        if member.name != name:
            faults.append(f"{path}: {member.name} stands where {name} should")
            return
        if not member.plain:
            faults.append(f"{path}: {name} has another owner, mode or time")
        yield member
    extra = next(members, None)
    if extra is not None:
        faults.append(f"{path}: {extra.name} is in no row")
        return
    size = (out.home / path).stat().st_size
    found = digest.hexdigest() if digest else None
    if known is not None and known != (found or known[0], size):
        faults.append(f"{path} is not what was written")
    elif found:
        out.hashes[path] = (found, size)
