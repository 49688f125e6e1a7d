"""Acoustic fingerprints: what a clip sounds like, in 100 bytes per second.

After Haitsma and Kalker, "A Highly Robust Audio Fingerprinting System" (ISMIR 2002): each bit says
whether the energy difference of two neighbouring bands rises or falls from one frame to a later
one. Gain, filters and most of what a codec does preserve that sign. Differences from the paper
(measured on speech, see `tests/filters/test_duplicates.py`):

- 17 mel bands from 300 to 3000 Hz, 16 bits per frame: a telephone passes no more.
- Frames of 64 ms every 20 ms instead of 370 every 12, compared over 40 ms: two recordings of one
  sentence differ in timing, which long frames do not resolve.
- Log energies have a floor 35 dB below the loudest frame. Frames 30 dB below it are silent: their
  word is 0 and is not compared, as what a codec makes of a pause is chance.
- Clips are not looked up by these words, since one bit in 32 is soon wrong. Keys for the look-up,
  "anchors", use 8 wide bands over 60 ms, 7 bits at three moments, only at places where the least
  certain of the 21 bits is a local maximum of certainty.

Layout, little-endian: 28 bytes, 2 per frame and 6 per anchor:

    version uint8, anchors uint8, 0 uint16, frames uint32, duration in ms uint32, digest 16 bytes,
    a uint16 word per frame from the clip's start to the last that sounds,
    per anchor, in order of time, three uint16: low and high half of its key, its frame
"""

import hashlib
import struct
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..audio import Clip
from ..base.arrays import (
    RATE,
    Float32s,
    Float64s,
    Int32s,
    Int64s,
    UInt16s,
)
from ..storage.sorted_keys import first_of_runs
from . import _derived as derived

LAYOUT = 1
HEAD = np.dtype(
    {
        "names": ("layout", "anchors", "frames", "milliseconds", "digest"),
        "formats": ("u1", "u1", "<u4", "<u4", ("<u8", 2)),
        "offsets": (0, 1, 4, 8, 12),
    }
)
FRAME = 1024  # samples: 64 ms
HOP = 320  # samples: 20 ms
HOP_SECONDS = HOP / RATE
BATCH = 512  # frames per FFT call
BANDS = 17
LOWEST, HIGHEST = 300.0, 3000.0  # Hz
LAG = 2  # frames over which energies are compared
FLOOR_DB, SILENT_DB = 35.0, 30.0  # below the loudest frame
BITS = BANDS - 1
MAX_ANCHORS = 24  # the most certain ones
KEY_BANDS, KEY_BAND_STEP = 3, 2  # bands in a wide band, and from one to the next
KEY_FRAMES, KEY_LAG = 3, 4  # frames summed, and over which energies are compared
KEY_STEPS = (0, 5, 10)  # frames: the three moments of a key
MAX_FRAMES = 30_000  # 600 s: frame numbers of anchors fit 16 bits
FAINTEST = 1e-12  # power in the loudest frame's bands below which a clip is silence


def fingerprint(clip: Clip, seconds: float) -> bytes:
    """Of the first `seconds` of a clip, with the digest of all of it."""
    most = min(MAX_FRAMES, int(seconds / HOP_SECONDS))
    words, anchors = encode(_energies(derived.blocks_16k(clip), most))
    milliseconds = min(round(1000 * clip.num_samples / clip.rate), 2**32 - 1)
    return stored(words, anchors, milliseconds, digest(clip))


def stored(words: UInt16s, anchors: UInt16s, milliseconds: int, digest: bytes) -> bytes:
    head = np.zeros(1, HEAD)
    head[0] = LAYOUT, len(anchors), len(words), milliseconds, np.frombuffer(digest, "<u8")
    return head.tobytes() + words.astype("<u2").tobytes() + anchors.astype("<u2").tobytes()


def digest(clip: Clip) -> bytes:
    """16 bytes of SHA-256 over rate, channels and float32 samples: equal for equal PCM, whatever
    file it came in."""
    state = hashlib.sha256(struct.pack("<QQ", clip.rate, clip.channels))
    for block in clip.blocks():
        # Adding 0 turns -0 into 0: decoders differ in the sign of zeros.
        state.update(np.ascontiguousarray(block + np.float32(0), dtype="<f4").data)
    return state.digest()[:16]


def encode(energies: Float32s) -> tuple[UInt16s, UInt16s]:
    """Band energies [n, BANDS] to (words [m], anchors [k, 3]); both empty for silence."""
    totals = energies.sum(axis=1, dtype=np.float64)
    loudest = float(totals.max(initial=0.0))
    if len(energies) <= LAG or loudest < FAINTEST:
        return np.empty(0, np.uint16), np.empty((0, 3), np.uint16)
    floor = loudest * 10 ** (-FLOOR_DB / 10)
    sounds = totals > loudest * 10 ** (-SILENT_DB / 10)
    sounds = sounds[LAG:] | sounds[:-LAG]
    bits = _rises(energies + floor, LAG) > 0
    words = bits @ (1 << np.arange(BITS))
    words = np.where(sounds, np.maximum(words, 1), 0).astype(np.uint16)
    return words[: np.flatnonzero(sounds)[-1] + 1], _anchors(energies, floor)


def _rises(energies: NDArray[np.floating], lag: int) -> Float64s:
    """By how much the step from each band to the next higher one grows within `lag` frames."""
    steps = np.diff(np.log(energies.astype(np.float64)), axis=1)
    return steps[lag:] - steps[:-lag]


def _anchors(energies: Float32s, floor: float) -> UInt16s:
    """(low half of key, high half, frame) where the least certain bit is locally most certain."""
    if len(energies) < KEY_FRAMES + KEY_LAG + KEY_STEPS[-1]:
        return np.empty((0, 3), np.uint16)
    count = len(energies) - KEY_FRAMES + 1
    shifted = np.stack([energies[low : low + count] for low in range(KEY_FRAMES)])
    long = shifted.sum(axis=0, dtype=np.float64)
    starts = range(0, BANDS - KEY_BANDS + 1, KEY_BAND_STEP)
    wide = np.stack([long[:, low : low + KEY_BANDS].sum(axis=1) for low in starts], axis=1)
    rises = _rises(wide / KEY_FRAMES + floor, KEY_LAG)
    count = len(rises) - KEY_STEPS[-1]
    moments = np.concatenate([rises[low : low + count] for low in KEY_STEPS], axis=1)
    sure = np.abs(moments).min(axis=1)
    padded = np.pad(sure, 1)
    peaks = np.flatnonzero((sure > 0) & (sure >= padded[:-2]) & (sure >= padded[2:]))
    surest = np.sort(peaks[np.argsort(-sure[peaks], kind="stable")[:MAX_ANCHORS]])
    keys = (moments[surest] > 0) @ (1 << np.arange(moments.shape[1]))
    return np.stack([keys & 0xFFFF, keys >> 16, surest], axis=1).astype(np.uint16)


def _energies(blocks: Iterable[Float32s], most: int) -> Float32s:
    """Energy of each band in each frame, float32 [n, BANDS]; frame k starts at k hops.

    Only whole frames: zero padding would click if the clip has a constant offset.
    """
    window, bands = _analysis()
    energies = []
    counts = [min(BATCH, most - start) for start in range(0, most, BATCH)]
    for frames in derived.frames(blocks, FRAME, HOP, counts):
        # NaN and infinity count as silence.
        with np.errstate(over="ignore", invalid="ignore"):
            spectra = np.fft.rfft(frames * window)
            powers = (spectra.real**2 + spectra.imag**2) @ bands
        energies.append(np.nan_to_num(powers, nan=0.0, posinf=0.0).astype(np.float32))
    return np.concatenate(energies) if energies else np.empty((0, BANDS), np.float32)


@cache
def _analysis() -> tuple[Float32s, Float32s]:
    """Hann window [FRAME], and triangular mel bands [FRAME / 2 + 1, BANDS] (O'Shaughnessy's mel:
    2595 log10(1 + f / 700))."""
    low, high = (2595 * np.log10(1 + f / 700) for f in (LOWEST, HIGHEST))
    edges = 700 * (10 ** (np.linspace(low, high, BANDS + 1) / 2595) - 1)
    centres, widths = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    frequencies = np.arange(FRAME // 2 + 1) * RATE / FRAME
    bands = np.clip(1 - np.abs(frequencies[:, None] - centres) / widths, 0, None)
    return np.hanning(FRAME).astype(np.float32), bands.astype(np.float32)


# Fingerprints as arrays, and pairs of clips to compare.
#
# Clips are numbered best first: published before any other, then highest in rank, then smallest id.
# So the smaller number of a pair is the better clip.

ALIGN_FRAMES = 2  # frames on both sides of an alignment that a comparison tries


@dataclass(frozen=True, slots=True)
class Thresholds:
    max_error: float
    max_drift: float  # s
    max_padding: float  # s
    min_sound: float  # s

    @property
    def max_offset(self) -> int:
        """Frames by which copies may be offset to each other."""
        return min(round(self.max_padding / HOP_SECONDS) + ALIGN_FRAMES, 127)


class Fingerprints(NamedTuple):
    """The fingerprints of all clips, by their numbers."""

    words: UInt16s
    first: Int64s  # where a clip's words begin in `words`
    frames: Int64s  # number of its words
    seconds: Float64s


#: Frame i of clip `one`, the better one, may match frame i - offset of clip `other`.
PAIR = np.dtype([("one", "i8"), ("other", "i8"), ("offset", "i8")])
Pairs = NDArray[np.void]


def pairs_of(one: Int64s, other: Int64s, offset: Int64s | int) -> Pairs:
    pairs = np.empty(len(one), PAIR)
    pairs["one"], pairs["other"], pairs["offset"] = one, other, offset
    return pairs


class Parsed(NamedTuple):
    """Fingerprints in one buffer, as they were stored; anchors follow the words of each."""

    words: UInt16s  # the bytes of all as uint16
    first: Int64s  # where a clip's words begin in `words`
    heads: NDArray[np.void]  # HEAD


def parsed(blob: pa.LargeBinaryArray) -> Parsed:
    """Fingerprints without nulls. ValueError if one is damaged or of another version."""
    buffers = blob.buffers()
    offsets = np.frombuffer(buffers[1], np.int64)[blob.offset : blob.offset + len(blob) + 1]
    data = np.frombuffer(buffers[2] or b"", np.uint8)
    data = data[: len(data) // 2 * 2]
    first, length = offsets[:-1], np.diff(offsets)
    if (length < HEAD.itemsize).any() or (first % 2).any():
        raise ValueError("a fingerprint is damaged")
    heads = data[first[:, None] + np.arange(HEAD.itemsize)].view(HEAD)[:, 0]
    expected = HEAD.itemsize + 2 * heads["frames"].astype(np.int64) + 6 * heads["anchors"]
    if (heads["layout"] != LAYOUT).any() or (length != expected).any():
        raise ValueError("a fingerprint is damaged, or of another version")
    return Parsed(data.view("<u2"), (first + HEAD.itemsize) // 2, heads)


ANCHOR = np.dtype([("key", "<u4"), ("row", "<u4"), ("frame", "<u2")])
KEY_PARTS = 256
SORTED_BITS = 24  # of a key, which anchors are sorted by: a real one has 21
#: Of each clip: where its words begin in the file, -1 without a fingerprint; how many they are;
#: whether it has anchors; and a number that clips of the same samples share.
ROW = np.dtype(
    [
        *(("first", "i8"), ("frames", "u4"), ("milliseconds", "u4")),
        *(("anchored", "?"), ("same", "i4"), ("digest", "u8", 2)),
    ]
)


class StoredFingerprints(ExitStack):
    """The fingerprints of a corpus by row: some rows are added at a time, and read after `finish`.

    Words lie in a temporary file, which is mapped into memory; anchors in another, in parts by
    their keys, so that clips that share a key meet. Memory holds some 50 bytes of each clip; of ten
    million clips of five seconds, the files take some 11 GB.
    """

    rows: NDArray[np.void]  # ROW

    def __init__(self) -> None:
        super().__init__()
        self._words = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._anchors = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._edges: list[Int64s] = []  # of the parts in each piece of the file of anchors
        self._end, self._anchors_end = 0, 0  # words and anchors written
        self._added = [np.empty(0, ROW)]
        self._count = 0  # rows

    def add(self, prints: pa.Array | pa.ChunkedArray) -> None:
        """The fingerprints of the next rows, null if a row has none. ValueError if one is
        damaged or of another version."""
        whole = prints.cast(pa.large_binary())
        blob = whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
        present = np.flatnonzero(blob.is_valid().to_numpy(zero_copy_only=False))
        fingerprints = parsed(blob.drop_null())
        heads, frames = fingerprints.heads, fingerprints.heads["frames"].astype(np.int64)
        places = _runs(fingerprints.first, frames)
        self._words.write(fingerprints.words[places].data)
        rows = np.zeros(len(blob), ROW)
        rows["first"] = rows["same"] = -1
        rows["first"][present] = self._end + np.cumsum(frames) - frames
        for name in ("frames", "milliseconds", "digest"):
            rows[name][present] = heads[name]
        rows["anchored"][present] = heads["anchors"] > 0
        self._added.append(rows)
        self._add_anchors(fingerprints, self._count + present)
        self._end += len(places)
        self._count += len(rows)

    def _add_anchors(self, fingerprints: Parsed, rows: Int64s) -> None:
        counts = fingerprints.heads["anchors"].astype(np.int64)
        places = _runs(fingerprints.first + fingerprints.heads["frames"], 3 * counts)
        words = fingerprints.words[places].reshape(-1, 3)
        anchors = np.empty(len(words), ANCHOR)
        anchors["key"] = words[:, 1].astype(np.uint32) << np.uint32(16) | words[:, 0]
        anchors["row"] = np.repeat(rows, counts)
        anchors["frame"] = words[:, 2]
        if (anchors["frame"] >= MAX_FRAMES).any():
            raise ValueError("a fingerprint is damaged: an anchor is outside of it")
        mixed = (anchors["key"] << np.uint32(32 - SORTED_BITS)) * np.uint32(0x9E3779B1)
        part = (mixed >> np.uint32(24)).astype(np.uint16)
        order = np.argsort(part, kind="stable")  # of 16 bits: a radix sort
        edges = np.searchsorted(part, np.arange(KEY_PARTS + 1), sorter=order)
        self._anchors.write(anchors[order].data)
        self._edges.append(self._anchors_end + edges)
        self._anchors_end += len(order)

    def finish(self) -> None:
        self.rows = np.concatenate(self._added)
        self._added.clear()
        present = np.flatnonzero(self.rows["first"] >= 0)
        low, high = self.rows["digest"][present].T
        order = np.lexsort((high, low))
        self.rows["same"][present[order]] = np.cumsum(first_of_runs(low[order], high[order])) - 1
        self._words.write(bytes(2))  # an empty file cannot be mapped
        self._words.flush()

    def __len__(self) -> int:
        return self._count

    def of_rows(self, rows: Int32s) -> Fingerprints:
        """The fingerprints of clips whose numbers are their places in `rows`."""
        words = np.asarray(np.memmap(self._words, np.uint16, "r"))
        chosen = self.rows[rows]
        frames, seconds = chosen["frames"].astype(np.int64), chosen["milliseconds"] / 1000
        return Fingerprints(words, chosen["first"], frames, seconds)

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
    ends = np.cumsum(length)
    return np.repeat(first - (ends - length), length) + np.arange(int(length.sum()))
