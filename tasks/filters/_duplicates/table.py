"""Fingerprints as arrays, and pairs of clips to compare.

Clips are numbered best first: published before any other, then highest in rank, then smallest id.
So of a pair the clip with the smaller number is the better one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.base.arrays import Bools, Float64s, Int64s, UInt16s, UInt32s, UInt64s
from tasks.filters._duplicates import fingerprinting

ALIGN_FRAMES = 2  # frames on both sides of an alignment that a comparison tries


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What counts as a copy; see the settings of `duplicate`."""

    max_error: float
    max_drift: float  # s
    max_padding: float  # s
    min_sound: float  # s

    @property
    def max_offset(self) -> int:
        """Frames by which copies may be offset to each other."""
        return min(round(self.max_padding / fingerprinting.HOP_SECONDS) + ALIGN_FRAMES, 127)


class Fingerprints(NamedTuple):
    """The fingerprints of some clips."""

    words: UInt16s  # of these clips, and of others
    first: Int64s  # where a clip's words begin in `words`
    frames: Int64s  # number of its words
    seconds: Float64s


class Pairs(NamedTuple):
    """Frame i of clip `one`, the better one, may match frame i - offset of clip `other`."""

    one: Int64s
    other: Int64s
    offset: Int64s

    def take(self, which: Int64s | Bools) -> Pairs:
        return Pairs(self.one[which], self.other[which], self.offset[which])

    @classmethod
    def joined(cls, parts: list[Pairs]) -> Pairs:
        none = np.empty(0, np.int64)
        return cls(*map(np.concatenate, zip(cls(none, none, none), *parts, strict=True)))


def numbers(array: NDArray[np.generic]) -> Int64s:
    """0 to the array's length."""
    return np.arange(len(array), dtype=np.int64)


class Parsed(NamedTuple):
    """Fingerprints in one buffer, as they were stored."""

    words: UInt16s  # the bytes of all as uint16
    first: Int64s  # where a clip's words begin in `words`
    frames: Int64s
    anchors: Int64s  # number of its anchors, which follow the words
    milliseconds: UInt32s
    digest: UInt64s  # [n, 2]: equal for clips of the same samples


def parsed(blob: pa.LargeBinaryArray) -> Parsed:
    """Fingerprints without nulls, without copying their words. ValueError if one is damaged or of
    another version."""
    buffers = blob.buffers()
    offsets = np.frombuffer(buffers[1], np.int64)[blob.offset : blob.offset + len(blob) + 1]
    size = fingerprinting.HEADER.size
    data = np.frombuffer(buffers[2] or b"", np.uint8)
    data = data[: len(data) // 2 * 2]
    first, length = offsets[:-1], np.diff(offsets)
    if (length < size).any() or (first % 2).any():
        raise ValueError("a fingerprint is damaged")
    heads = data[first[:, None] + np.arange(size)]
    frames = heads[:, 4:8].copy().view("<u4")[:, 0].astype(np.int64)
    anchors = heads[:, 1].astype(np.int64)
    expected = size + 2 * frames + 6 * anchors
    if (heads[:, 0] != fingerprinting.LAYOUT).any() or (length != expected).any():
        raise ValueError("a fingerprint is damaged, or of another version")
    return Parsed(
        words=data.view("<u2"),
        first=(first + size) // 2,
        frames=frames,
        anchors=anchors,
        milliseconds=heads[:, 8:12].copy().view("<u4")[:, 0],
        digest=heads[:, 12:28].copy().view("<u8"),
    )
