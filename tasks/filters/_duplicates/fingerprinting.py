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

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ...audio import Clip
from ...base.arrays import RATE, Float32s, Float64s, UInt16s
from .. import _derived as derived

LAYOUT = 1
HEADER = struct.Struct("<BBHII16s")
SAMPLE_RATE = RATE
FRAME = 1024  # samples: 64 ms
HOP = 320  # samples: 20 ms
HOP_SECONDS = HOP / SAMPLE_RATE
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
    """Fingerprint of the first `seconds` of a clip, with the digest of all of it.

    Memory does not grow with the clip's length.
    """
    most = min(MAX_FRAMES, int(seconds / HOP_SECONDS))
    words, anchors = encode(_energies(derived.blocks_16k(clip), most))
    milliseconds = min(round(1000 * clip.num_samples / clip.rate), 2**32 - 1)
    return pack(words, anchors, milliseconds, digest(clip))


def pack(words: UInt16s, anchors: UInt16s, milliseconds: int, digest: bytes) -> bytes:
    """The bytes of a fingerprint of words [n] and anchors [k, 3]."""
    head = HEADER.pack(LAYOUT, len(anchors), 0, len(words), milliseconds, digest)
    return head + words.astype("<u2").tobytes() + anchors.astype("<u2").tobytes()


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
    frequencies = np.arange(FRAME // 2 + 1) * SAMPLE_RATE / FRAME
    bands = np.clip(1 - np.abs(frequencies[:, None] - centres) / widths, 0, None)
    return np.hanning(FRAME).astype(np.float32), bands.astype(np.float32)
