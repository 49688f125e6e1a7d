"""The fingerprints of a corpus in temporary files, with some 50 bytes of each clip in memory.

Words lie in one file, which is mapped into memory. Anchors lie in another, in parts by their keys,
so that clips that share a key meet. Of ten million clips of five seconds, the files take some 11
GB.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...base.arrays import Bools, Float64s, Int32s, Int64s, UInt16s, UInt32s, UInt64s
from ...storage.sorted_keys import first_of_runs
from . import fingerprinting

# Fingerprints as arrays, and pairs of clips to compare.
#
# Clips are numbered best first: published before any other, then highest in rank, then smallest id.
# So the smaller number of a pair is the better clip.

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
    """The fingerprints of all clips, by their numbers."""

    words: UInt16s
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
    """Fingerprints without nulls. ValueError if one is damaged or of another version."""
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


ANCHOR = np.dtype([("key", "<u4"), ("row", "<u4"), ("frame", "<u2")])
KEY_PARTS = 256
SORTED_BITS = 24  # of a key, which anchors are sorted by: a real one has 21


class StoredFingerprints(ExitStack):
    """Fingerprints by row, added some rows at a time; after `finish`, they are read."""

    first: Int64s  # where a row's words begin in the file; -1 without a fingerprint
    frames: UInt32s  # number of its words
    milliseconds: UInt32s
    anchored: Bools  # whether it has anchors
    same: Int32s  # equal for equal samples; -1 without a fingerprint

    def __init__(self) -> None:
        super().__init__()
        self._words = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._anchors = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._edges: list[Int64s] = []  # of the parts in each piece of the file of anchors
        self._end, self._anchors_end = 0, 0  # words and anchors written
        self._added: list[tuple[Int64s, UInt32s, UInt32s, Bools]] = []
        self._digests = [np.empty((0, 2), np.uint64)]
        self._rows = 0

    def add(self, prints: pa.Array | pa.ChunkedArray) -> None:
        """The fingerprints of the next rows, null if a row has none. ValueError if one is
        damaged or of another version."""
        whole = prints.cast(pa.large_binary())
        blob = whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
        present = blob.is_valid().to_numpy(zero_copy_only=False)
        fingerprints = parsed(blob.drop_null())
        places = _runs(fingerprints.first, fingerprints.frames)
        self._words.write(fingerprints.words[places].data)
        first = np.full(len(present), -1, np.int64)
        first[present] = self._end + np.cumsum(fingerprints.frames) - fingerprints.frames
        frames, milliseconds = np.zeros((2, len(present)), np.uint32)
        frames[present], milliseconds[present] = fingerprints.frames, fingerprints.milliseconds
        anchored = np.zeros(len(present), bool)
        anchored[present] = fingerprints.anchors > 0
        self._added.append((first, frames, milliseconds, anchored))
        self._digests.append(fingerprints.digest)
        self._add_anchors(fingerprints, self._rows + np.flatnonzero(present))
        self._end += len(places)
        self._rows += len(present)

    def _add_anchors(self, fingerprints: Parsed, rows: Int64s) -> None:
        places = _runs(fingerprints.first + fingerprints.frames, 3 * fingerprints.anchors)
        words = fingerprints.words[places].reshape(-1, 3)
        anchors = np.empty(len(words), ANCHOR)
        anchors["key"] = words[:, 1].astype(np.uint32) << np.uint32(16) | words[:, 0]
        anchors["row"] = np.repeat(rows, fingerprints.anchors)
        anchors["frame"] = words[:, 2]
        if (anchors["frame"] >= fingerprinting.MAX_FRAMES).any():
            raise ValueError("a fingerprint is damaged: an anchor is outside of it")
        mixed = (anchors["key"] << np.uint32(32 - SORTED_BITS)) * np.uint32(0x9E3779B1)
        part = (mixed >> np.uint32(24)).astype(np.uint16)
        order = np.argsort(part, kind="stable")  # of 16 bits: a radix sort
        edges = np.searchsorted(part, np.arange(KEY_PARTS + 1), sorter=order)
        self._anchors.write(anchors[order].data)
        self._edges.append(self._anchors_end + edges)
        self._anchors_end += len(order)

    def finish(self) -> None:
        """All rows have been added."""
        none = np.empty(0, np.uint32)
        columns = zip((none.astype(np.int64), none, none, none > 0), *self._added, strict=True)
        self.first, self.frames, self.milliseconds, self.anchored = map(np.concatenate, columns)
        self._added.clear()
        digest = np.concatenate(self._digests)
        self._digests.clear()
        order = np.lexsort((digest[:, 1], digest[:, 0]))
        begins = first_of_runs(digest[order, 0], digest[order, 1])
        number = np.empty(len(order), np.int32)
        number[order] = np.cumsum(begins) - 1
        self.same = np.full(self._rows, -1, np.int32)
        self.same[self.first >= 0] = number
        self._words.write(bytes(2))  # an empty file cannot be mapped
        self._words.flush()

    def __len__(self) -> int:
        return self._rows

    def of_rows(self, rows: Int32s) -> Fingerprints:
        """The fingerprints of clips whose numbers are their places in `rows`."""
        words = np.asarray(np.memmap(self._words, np.uint16, "r"))
        frames, seconds = self.frames[rows].astype(np.int64), self.milliseconds[rows] / 1000
        return Fingerprints(words, self.first[rows], frames, seconds)

    def anchors(self, part: int) -> NDArray[np.void]:
        """The anchors (ANCHOR) of a part of the keys, in the order of rows."""
        pieces = [edges[part : part + 2].tolist() for edges in self._edges]
        anchors = np.empty(sum(high - low for low, high in pieces), ANCHOR)
        filled = 0
        for low, high in pieces:
            if high > low:
                self._anchors.seek(low * ANCHOR.itemsize)
                self._anchors.readinto(anchors[filled : filled + high - low].data.cast("B"))
                filled += high - low
        return anchors


def _runs(first: Int64s, length: Int64s) -> Int64s:
    """The places of runs, one after another."""
    ends = np.cumsum(length)
    return np.repeat(first - (ends - length), length) + np.arange(int(length.sum()))
