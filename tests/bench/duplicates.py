"""Copies found among many prints: seconds, memory and recall as the corpus grows.

    python -m tests.bench.duplicates [CLIPS ...]

The prints are made up: words and keys are drawn from what noise with the spectrum and the rhythm
of speech gives, so that keys are as common as they are there. Clips last 1 to 11 s; a tenth are
copies of others with 6 % wrong bits and up to 0.1 s of padding. With `--same-length` all last 4 s:
then the duration tells nothing apart.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.filters import _fingerprint, duplicate
from tasks.filters._duplicates import find_copies

COPIES = 0.1
WRONG = 0.06  # of the bits of a copy
LOST = 0.6  # of the anchors of a copy have another key or another place
VARIETY = 14
POOL = 6000  # clips that words and keys are drawn from


corpus_said: list[bool] = []


def pool() -> tuple[NDArray[np.uint16], NDArray[np.uint16]]:
    """Words [n] and keys [m, 2] of noise whose band energies change as those of speech do."""
    chance = np.random.default_rng(0)
    words, keys = [], []
    shape = np.linspace(0, -4, _fingerprint.BANDS)
    for _ in range(POOL):
        steps = chance.standard_normal((120, _fingerprint.BANDS)) @ np.tri(_fingerprint.BANDS) * 0.5
        for at in range(1, len(steps)):  # correlated over about 100 ms
            steps[at] += 0.85 * steps[at - 1]
        syllables = 2 * np.sin(2 * np.pi * np.arange(120) / 12)[:, None]
        energies = np.exp((shape + syllables + steps * 0.5).clip(-15, 8)).astype(np.float32)
        found, anchors = _fingerprint.encode(energies)
        words.append(found[found != 0])
        keys.append(anchors[:, :2])
    found = np.concatenate(keys)
    # Noise has less variety than speech: its keys alone agree once in 2^12.5.
    return np.concatenate(words), np.concatenate([found ^ np.uint16(n) for n in range(VARIETY)])


def corpus(count: int, same_length: bool) -> tuple[pa.Array, NDArray[np.int64]]:
    """Prints, and of which row each is a copy, or -1."""
    chance = np.random.default_rng(1)
    words, keys = pool()
    if not corpus_said:
        corpus_said.append(True)
        _, times = np.unique(keys, axis=0, return_counts=True)
        bits = -np.log2((times / len(keys)) @ ((times - 1) / (len(keys) - 1)))
        print(f"two keys agree once in 2^{bits:.1f}; on the corpus once in 2^16.4", flush=True)
    copy_of = np.full(count, -1)
    copies = np.arange(count) >= count - int(COPIES * count)
    copy_of[copies] = chance.integers(0, count - copies.sum(), copies.sum())
    root = np.where(copies, copy_of, np.arange(count))
    frames = (np.full(count, 200) if same_length else chance.integers(50, 550, count))[root]
    k = _fingerprint.MAX_ANCHORS
    size = _fingerprint.HEADER.size + 2 * frames + 6 * k
    ends = np.cumsum(size)
    data = np.zeros(ends[-1], np.uint8)
    offsets = np.r_[0, ends]
    cells = data.view("<u2")
    for row in range(count):  # the slow part of the bench, not of what is measured
        source = np.random.default_rng(root[row])
        n = frames[row]
        sound = words[source.integers(0, len(words), n)]
        key = keys[source.integers(0, len(keys), k)]
        at = np.sort(source.integers(0, n - 20, k)).astype(np.uint16)
        padding = 0
        if copies[row]:
            padding = int(chance.integers(0, 6))
            flips = (chance.random((n, 16), np.float32) < WRONG) @ (1 << np.arange(16))
            sound = np.maximum(np.roll(sound, padding) ^ flips.astype(np.uint16), 1)
            sound[:padding] = 0
            key = np.where(chance.random((k, 1)) < LOST, key ^ np.uint16(1), key)
            at = at + np.uint16(padding)
        head = _fingerprint.HEADER.pack(
            _fingerprint.LAYOUT, k, 0, n, 20 * int(n + padding), row.to_bytes(16, "little")
        )
        begin = offsets[row]
        data[begin : begin + len(head)] = np.frombuffer(head, np.uint8)
        begin = (begin + len(head)) // 2
        cells[begin : begin + n] = sound
        cells[begin + n : begin + n + 3 * k] = np.column_stack([key, at]).ravel()
    array = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    return array, copy_of


def main() -> None:
    same_length = "--same-length" in sys.argv
    thresholds = duplicate.Settings().thresholds()
    for text in [a for a in sys.argv[1:] if a.isdigit()] or ["10000", "100000"]:
        count = int(text)
        prints, copy_of = corpus(count, same_length)
        ids = pa.array([f"{n:09d}" for n in range(count)])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.perf_counter()
        found = find_copies(prints, ids, np.zeros(count), np.zeros(count, bool), thresholds)
        wall = time.perf_counter() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        copies = copy_of >= 0
        print(
            f"{count} prints of {prints.nbytes / 2**20:.0f} MiB: {wall:.1f} s, "
            f"{wall / count * 1e6:.0f} us each; peak {peak / 2**20:.2f} GiB, "
            f"{(peak - before) / 2**20:.2f} above before; "
            f"found {np.mean(found.original[copies] == copy_of[copies]):.4f} of the copies, "
            f"{(found.original[~copies] >= 0).sum()} false",
            flush=True,
        )


if __name__ == "__main__":
    main()
