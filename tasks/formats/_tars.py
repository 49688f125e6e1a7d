"""Formats of tars: the members of each clip adjacent, in the order of the rows.

A member's content is bytes, or a row, which stands for its clip's audio.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ..base.schema import ClipRow
from . import Output, ReadPcm, Rows, _clips
from ._tar import BLOCK, RECORD, Tar, header

#: The members of a row by name, in order, given the suffix of its audio.
Members = Callable[[ClipRow, _clips.Suffix], Mapping[str, bytes | ClipRow]]


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
                    tar.add(name, *_clips.parts(pcm(content), content["sample_rate"], encoding))
            edges.append(tar.tell())
    return edges


def check(
    out: Output, path: str, rows: Rows, members: Members, encoding: _clips.Encoding
) -> tuple[list[str], list[int]]:
    """The faults of a tar: names, order, headers, bytes and decoded PCM; and the edges that `write`
    returns, up to the first wrong name.

    Every byte of a tar of WAV files is compared with the rows. One of encoded audio is compared
    with its recorded digest; a tar without one gets it recorded.
    """
    recorded = out.hashes.get(path)
    digest = hashlib.sha256() if recorded is None or encoding.suffix != "wav" else None
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
            if not isinstance(content, bytes):
                faults += _clips.faults(content, place, member.data, encoding)
            elif member.data != content:
                faults.append(f"{place} differs from its row")
            end = member.end
        edges.append(end)
    if extra := next(stored, None):
        return [*faults, f"{path}: {extra.name} is in no row"], edges
    size = (out.home / path).stat().st_size
    if recorded is not None and recorded != (digest.hexdigest() if digest else recorded[0], size):
        faults.append(f"{path} is not what was written")
    elif digest:
        out.hashes[path] = (digest.hexdigest(), size)
    return faults, edges


class Member(NamedTuple):
    name: str
    data: memoryview
    plain: bool  # its header is the one that `_tar` writes
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
