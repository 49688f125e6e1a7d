"""Finds copies among many fingerprints: CPU seconds, memory and recall as the corpus grows.

    python -m tests.bench.duplicates [CLIPS ...] [--same-length] [--seconds 5]

The fingerprints are synthetic: words and keys are drawn from those of noise with the spectrum and
rhythm of speech, so that keys are as common as in speech. Clips last 1 to 11 s; a tenth are copies
of others with 6 % wrong bits and up to 0.1 s of padding. With `--same-length`, all last 4 s, so
that durations exclude no pair. Fingerprints are made a few thousand at a time; their creation does
not count. Each number of clips runs in a process of its own.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tests.bench._measured import MIB
from tests.bench.scale import in_process
from uttermill.tasks.filters import duplicate
from uttermill.tasks.filters._duplicates import fingerprinting
from uttermill.tasks.filters._duplicates.fingerprints import StoredFingerprints
from uttermill.tasks.filters._duplicates.search import Copies, find_copies

COPIES = 0.1
WRONG = 0.06  # of the bits of a copy
LOST = 0.6  # of the anchors of a copy have another key or another place
VARIETY = 14
POOL = 6000  # clips that words and keys are drawn from
AT_ONCE = 5000  # prints that are made together

Words = NDArray[np.uint16]
Codes = NDArray[np.uint64]
Ints = NDArray[np.int64]


def pool() -> tuple[Words, Words]:
    """Words [n] and keys [m, 2] of noise whose band energies change as those of speech do."""
    chance = np.random.default_rng(0)
    words, keys = [], []
    bands = fingerprinting.BANDS
    shape = np.linspace(0, -4, bands)
    for _ in range(POOL):
        steps = chance.standard_normal((120, bands)) @ np.tri(bands) * 0.5
        for at in range(1, len(steps)):  # correlated over about 100 ms
            steps[at] += 0.85 * steps[at - 1]
        syllables = 2 * np.sin(2 * np.pi * np.arange(120) / 12)[:, None]
        energies = np.exp((shape + syllables + steps * 0.5).clip(-15, 8)).astype(np.float32)
        found, anchors = fingerprinting.encode(energies)
        words.append(found[found != 0])
        keys.append(anchors[:, :2])
    found = np.concatenate(keys)
    # Noise has less variety than speech: its keys alone agree once in 2^12.5.
    return np.concatenate(words), np.concatenate([found ^ np.uint16(n) for n in range(VARIETY)])


def drawn(names: NDArray[np.int64], what: int) -> Codes:
    """A number for each name, always the same (SplitMix64)."""
    codes = names.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(what)
    codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return codes ^ (codes >> np.uint64(31))


def copied(count: int) -> Ints:
    """Of which row each is a copy, or -1."""
    chance = np.random.default_rng(1)
    copy_of = np.full(count, -1)
    copies = np.arange(count) >= count - int(COPIES * count)
    copy_of[copies] = chance.integers(0, count - copies.sum(), copies.sum())
    return copy_of


def corpus(copy_of: Ints, most: float, same_length: bool) -> Iterator[pa.LargeBinaryArray]:
    """The prints, of clips of 1 s to `most` and a second more."""
    words, keys = pool()
    _, times = np.unique(keys, axis=0, return_counts=True)
    bits = -np.log2((times / len(keys)) @ ((times - 1) / (len(keys) - 1)))
    print(f"two keys agree once in 2^{bits:.1f}; on the corpus once in 2^16.4", flush=True)
    for low in range(0, len(copy_of), AT_ONCE):
        rows = np.arange(low, min(low + AT_ONCE, len(copy_of)))
        root = np.where(copy_of[rows] >= 0, copy_of[rows], rows)
        frames = 50 + (drawn(root, 1) % np.uint64(50 * most)).astype(np.int64)
        frames = np.full(len(rows), 200) if same_length else frames
        yield some(rows, root, frames, words, keys)


def some(rows: Ints, root: Ints, frames: Ints, words: Words, keys: Words) -> pa.LargeBinaryArray:
    chance = np.random.default_rng(rows[0])
    k = fingerprinting.MAX_ANCHORS
    row = np.repeat(np.arange(len(rows)), frames)
    within = np.arange(len(row)) - np.repeat(np.cumsum(frames) - frames, frames)
    copy = root != rows
    padding = np.where(copy, chance.integers(0, 6, len(rows)), 0)
    source = (within - padding[row]) % frames[row]
    sound = words[(drawn(root[row] << 16 | source, 2) % np.uint64(len(words))).astype(np.int64)]
    changed = np.flatnonzero(copy[row])
    flips = (chance.random((len(changed), 16), np.float32) < WRONG) @ (1 << np.arange(16))
    sound[changed] = np.maximum(sound[changed] ^ flips.astype(np.uint16), 1)
    sound[within < padding[row]] = 0
    name = (root[:, None] << 16) | np.arange(k)
    key = keys[(drawn(name, 3) % np.uint64(len(keys))).astype(np.int64)]
    lost = copy[:, None] & (chance.random((len(rows), k)) < LOST)
    key = np.where(lost[:, :, None], key ^ np.uint16(1), key)
    at = np.sort((drawn(name, 4) % (frames[:, None] - 20).astype(np.uint64)).astype(np.int64))
    at = at + padding[:, None]
    heads = b"".join(
        fingerprinting.HEADER.pack(
            fingerprinting.LAYOUT, k, 0, n, 20 * (n + p), r.to_bytes(16, "little")
        )
        for n, p, r in zip(frames.tolist(), padding.tolist(), rows.tolist(), strict=True)
    )
    head = fingerprinting.HEADER.size // 2  # words
    offsets = np.r_[0, np.cumsum(head + frames + 3 * k)]
    cells = np.empty(offsets[-1], np.uint16)
    first = offsets[:-1]
    cells[first[:, None] + np.arange(head)] = np.frombuffer(heads, "<u2").reshape(-1, head)
    cells[first[row] + head + within] = sound
    anchors = np.concatenate([key, at[:, :, None].astype(np.uint16)], axis=2).reshape(len(rows), -1)
    cells[(first + head + frames)[:, None] + np.arange(3 * k)] = anchors
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(rows), [None, pa.py_buffer(2 * offsets), pa.py_buffer(cells)]
    )


def find(count: int, most: float, same_length: bool) -> tuple[Copies, float, float, int]:
    """The copies, CPU and wall seconds, and bytes of prints."""
    size, cpu, wall = 0, 0.0, 0.0
    with StoredFingerprints() as prints:
        for array in corpus(copied(count), most, same_length):
            size += array.nbytes
            began, cpu_then = time.perf_counter(), time.process_time()
            prints.add(array)
            wall, cpu = wall + time.perf_counter() - began, cpu + time.process_time() - cpu_then
        began, cpu_then = time.perf_counter(), time.process_time()
        prints.finish()
        found = find_copies(prints, np.arange(count), duplicate.Settings().thresholds())
        wall, cpu = wall + time.perf_counter() - began, cpu + time.process_time() - cpu_then
    return found, cpu, wall, size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clips", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--same-length", action="store_true")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    for count in options.clips:
        result, _, rss = in_process(find, count, options.seconds, options.same_length)
        found, cpu, wall, size = result
        copy_of = copied(count)
        right = copy_of[found.row] == found.original
        print(
            f"{count} prints of {size / MIB:.0f} MiB: {cpu:.1f} CPU s, {wall:.1f} s, "
            f"{cpu / count * 1e6:.0f} us of CPU each; peak {rss / MIB:.0f} MiB; "
            f"found {right.sum() / max((copy_of >= 0).sum(), 1):.4f} of the copies, "
            f"{(copy_of[found.row] < 0).sum()} false",
            flush=True,
        )


if __name__ == "__main__":
    main()
