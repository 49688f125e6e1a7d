"""Pairs of clips that may be copies: those that share a key, and whose words agree at a few places.

The keys of all clips are sorted twice, by duration within a key and by place in the clip, and each
is paired with the next few that agree in both. Of a key that is too common, only the nearest are
paired. So the time is O(n log n) and the memory O(n).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.filters import _fingerprint
from tasks.filters._duplicates_table import (
    Fingerprints,
    Ints,
    Pairs,
    Reals,
    Thresholds,
    first_of_runs,
)

Codes = NDArray[np.uint64]

NEIGHBOURS = 12  # keys after each one, in either order, that it is paired with
#: Frames compared and the highest bit error rate that passes; two unlike clips have 0.46.
QUICK_CHECKS = ((6, 0.44), (24, 0.40))
SEARCH_FRAMES = 64  # frames compared at each alignment if none is known
PAIRS_AT_ONCE = 1 << 17


def candidates(fingerprints: Fingerprints, clips: Ints, thresholds: Thresholds) -> Pairs:
    """Pairs that share a key, each at the best alignment of those at which they do."""
    many = fingerprints.anchors[clips]
    clip = np.repeat(clips, many).astype(np.uint32)
    ends = np.cumsum(many)
    within = np.arange(len(clip)) - np.repeat(ends - many, many)
    at = (fingerprints.first + fingerprints.frames)[clip] + 3 * within
    del within
    key = fingerprints.words[at + 1].astype(np.uint64) << np.uint64(16) | fingerprints.words[at]
    frame = fingerprints.words[at + 2]
    del at
    if (frame >= _fingerprint.MAX_FRAMES).any():
        raise ValueError("a fingerprint is damaged: an anchor is outside of it")
    duration = np.minimum(fingerprints.seconds * 64, 2**20 - 1).astype(np.uint64)[clip]
    place = frame.astype(np.uint64)
    codes = [np.empty(0, np.uint64)]
    for sortable in (
        key << np.uint64(40) | duration << np.uint64(16) | place,
        key << np.uint64(40) | place << np.uint64(20) | duration,
    ):
        order = np.argsort(sortable, kind="stable")
        codes.append(_neighbours(fingerprints, key[order], clip[order], frame[order], thresholds))
        del sortable, order
    found = _unique(np.concatenate(codes))
    kept = []
    for begin in range(0, len(found), PAIRS_AT_ONCE):
        pairs = _decoded(found[begin : begin + PAIRS_AT_ONCE])
        for frames, max_error in QUICK_CHECKS:
            error = quick_error(fingerprints, pairs, frames)
            good = error <= max_error
            pairs, error = pairs.take(good), error[good]
        kept.append(_best_alignment(pairs, error))
    return Pairs.joined(kept)


def _neighbours(
    fingerprints: Fingerprints,
    key: Codes,
    clip: NDArray[np.uint32],
    frame: NDArray[np.uint16],
    thresholds: Thresholds,
) -> Codes:
    """Pair sorted keys with the next few; see `_encoded` for the result, each pair once."""
    seconds = fingerprints.seconds.astype(np.float32)[clip]
    max_difference = thresholds.max_padding + 1e-3
    codes = [np.empty(0, np.uint64)]
    same = np.ones(len(key), bool)
    for step in range(1, NEIGHBOURS + 1):
        same = same[:-1] & (key[step:] == key[:-step])
        good = same & (np.abs(seconds[step:] - seconds[:-step]) <= max_difference)
        left = np.flatnonzero(good)
        offset = frame[left].astype(np.int64) - frame[left + step]
        near = np.abs(offset) <= thresholds.max_offset
        left, offset = left[near], offset[near]
        codes.append(_unique(_encoded(clip[left], clip[left + step], offset)))
    return _unique(np.concatenate(codes))


def _encoded(left: NDArray[np.uint32], right: NDArray[np.uint32], offset: Ints) -> Codes:
    """(better clip, other clip, offset + 128) in 28, 28 and 8 bits."""
    one, other = left.astype(np.uint64), right.astype(np.uint64)
    offset = np.where(one > other, -offset, offset)
    one, other = np.minimum(one, other), np.maximum(one, other)
    code = one << np.uint64(36) | other << np.uint64(8) | (offset + 128).astype(np.uint64)
    return np.asarray(code[one != other], np.uint64)


def _decoded(codes: Codes) -> Pairs:
    return Pairs(
        (codes >> np.uint64(36)).astype(np.int64),
        ((codes >> np.uint64(8)) & np.uint64(2**28 - 1)).astype(np.int64),
        (codes & np.uint64(255)).astype(np.int64) - 128,
    )


def _unique(codes: Codes) -> Codes:
    """Sorted unique codes; np.unique uses a hash table, which is slow for many."""
    codes = np.sort(codes)
    return codes[first_of_runs(codes)]


def _best_alignment(pairs: Pairs, error: Reals) -> Pairs:
    """Each pair once, at the offset with the fewest errors."""
    order = np.lexsort((np.abs(pairs.offset), error, pairs.other, pairs.one))
    return pairs.take(order[first_of_runs(pairs.one[order], pairs.other[order])])


def quick_error(fingerprints: Fingerprints, pairs: Pairs, frames: int) -> Reals:
    """Bit error rate at `frames` places spread over each pair; 1 if nothing sounds in both."""
    start = np.maximum(pairs.offset, 0)
    length = (
        np.minimum(fingerprints.frames[pairs.one], fingerprints.frames[pairs.other] + pairs.offset)
        - start
    )
    wrong, seen = np.zeros(len(start)), np.zeros(len(start))
    for step in range(frames):
        at = start + np.maximum(length - 1, 0) * (2 * step + 1) // (2 * frames)
        ok = length > 0
        first = fingerprints.words[np.where(ok, fingerprints.first[pairs.one] + at, 0)]
        second = fingerprints.words[
            np.where(ok, fingerprints.first[pairs.other] + at - pairs.offset, 0)
        ]
        both = (first != 0) & (second != 0) & ok
        wrong += np.where(both, np.bitwise_count(first ^ second), 0)
        seen += both
    return np.where(seen > 0, wrong / np.maximum(seen * _fingerprint.BITS, 1), 1.0)


def aligned(fingerprints: Fingerprints, one: Ints, other: Ints, thresholds: Thresholds) -> Pairs:
    """Pairs that share no key, at the best of all alignments."""
    best, offset = np.full(len(one), np.inf), np.zeros(len(one), np.int64)
    if len(one):
        reach = thresholds.max_offset
        for shift in sorted(range(-reach, reach + 1), key=abs):
            pairs = Pairs(one, other, np.full(len(one), shift, np.int64))
            error = quick_error(fingerprints, pairs, SEARCH_FRAMES)
            better = error < best
            best[better], offset[better] = error[better], shift
    return Pairs(one, other, offset)
