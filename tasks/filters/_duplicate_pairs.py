"""Pairs of clips that may be copies: those that share a key, and whose words agree at a few places.

The keys of all clips are sorted twice, by duration within a key and by place in the clip, and each
is paired with the next few that agree in both. Of too common a key, only the nearest clips are
paired. So the time is O(n log n). Keys are processed in parts, so that memory holds only the pairs
of one part, and those that agree.
"""

import numpy as np

from ..base.arrays import Float32s, Float64s, Int32s, Int64s, UInt16s, UInt32s, UInt64s
from ..storage.sorted_keys import first_of_runs
from ._fingerprints import (
    BITS,
    KEY_PARTS,
    SORTED_BITS,
    Fingerprints,
    Pairs,
    StoredFingerprints,
    Thresholds,
    pairs_of,
)

NEIGHBOURS = 12  # keys after each one, in either order, that it is paired with
#: Frames compared and the highest bit error rate that passes; two unlike clips have 0.46.
QUICK_CHECKS = ((6, 0.44), (24, 0.40))
SEARCH_FRAMES = 64  # frames compared at each alignment if none is known
PAIRS_AT_ONCE = 1 << 13  # so few that sums stay in the processor's cache


def candidates(
    prints: StoredFingerprints, clips: Fingerprints, of_row: Int32s, thresholds: Thresholds
) -> Pairs:
    """Pairs of clips that share a key and agree at a few places, each at its best alignment.

    `of_row`: the number of each row's clip, -1 to skip it.
    """
    agreeing, errors = [np.empty(0, np.uint64)], [np.empty(0)]
    for part in range(KEY_PARTS):
        shared = _sharing(prints, part, of_row, thresholds)
        for low in range(0, len(shared), PAIRS_AT_ONCE):
            codes = shared[low : low + PAIRS_AT_ONCE]
            for frames, max_error in QUICK_CHECKS:
                error = quick_error(clips, _decoded(codes), frames)
                codes, error = codes[error <= max_error], error[error <= max_error]
            agreeing.append(codes)
            errors.append(error)
    codes, error = np.concatenate(agreeing), np.concatenate(errors)
    pair = codes >> np.uint64(8)
    order = np.lexsort((codes, np.abs(_decoded(codes)["offset"]), error, pair))  # best ones first
    return _decoded(codes[order[first_of_runs(pair[order])]])


def _sharing(
    prints: StoredFingerprints, part: int, of_row: Int32s, thresholds: Thresholds
) -> UInt64s:
    """Pairs that share a key of a part; see `_encoded`."""
    anchors = prints.anchors(part)
    clip = of_row[anchors["row"]]
    looked_at = clip >= 0
    anchors, clip = anchors[looked_at], clip[looked_at].astype(np.uint32)
    milliseconds = prints.rows["milliseconds"][anchors["row"]]
    duration = np.minimum(milliseconds / 1000 * 64, 2**20 - 1).astype(np.uint64)
    seconds = (milliseconds / 1000).astype(np.float32)
    key, frame = anchors["key"].copy(), anchors["frame"].copy()
    del anchors, milliseconds
    place = frame.astype(np.uint64)
    sorted_key = key.astype(np.uint64) << np.uint64(64 - SORTED_BITS)
    codes = []
    for rest in (duration << np.uint64(16) | place, place << np.uint64(20) | duration):
        order = np.lexsort((clip, sorted_key | rest))
        codes.append(_neighbours(key[order], clip[order], frame[order], seconds[order], thresholds))
    unique = np.sort(np.concatenate(codes))  # np.unique's hash table is slow for many
    return unique[first_of_runs(unique)]


def _neighbours(
    key: UInt32s, clip: UInt32s, frame: UInt16s, seconds: Float32s, thresholds: Thresholds
) -> UInt64s:
    """Pair sorted keys with the next few; see `_encoded` for the result."""
    max_difference = thresholds.max_padding + 1e-3
    codes = [np.empty(0, np.uint64)]
    same = np.ones(len(key), bool)
    for step in range(1, NEIGHBOURS + 1):
        same = same[:-1] & (key[step:] == key[:-step])
        if not same.any():
            break  # keys are sorted: further ones differ, too
        good = same & (np.abs(seconds[step:] - seconds[:-step]) <= max_difference)
        first = np.flatnonzero(good)
        offset = frame[first].astype(np.int64) - frame[first + step]
        near = np.abs(offset) <= thresholds.max_offset
        first, offset = first[near], offset[near]
        codes.append(_encoded(clip[first], clip[first + step], offset))
    return np.concatenate(codes)


def _encoded(one_clip: UInt32s, other_clip: UInt32s, offset: Int64s) -> UInt64s:
    """(better clip, other clip, offset + 128) in 28, 28 and 8 bits."""
    one, other = one_clip.astype(np.uint64), other_clip.astype(np.uint64)
    offset = np.where(one > other, -offset, offset)
    one, other = np.minimum(one, other), np.maximum(one, other)
    code = one << np.uint64(36) | other << np.uint64(8) | (offset + 128).astype(np.uint64)
    return np.asarray(code[one != other], np.uint64)


def _decoded(codes: UInt64s) -> Pairs:
    return pairs_of(
        (codes >> np.uint64(36)).astype(np.int64),
        ((codes >> np.uint64(8)) & np.uint64(2**28 - 1)).astype(np.int64),
        (codes & np.uint64(255)).astype(np.int64) - 128,
    )


def quick_error(fingerprints: Fingerprints, pairs: Pairs, frames: int) -> Float64s:
    """Bit error rate at `frames` places (up to 255) of each pair; 1 if nothing sounds in both."""
    words, first, offset = fingerprints.words, fingerprints.first, pairs["offset"]
    start = np.maximum(offset, 0)
    one, other = fingerprints.frames[pairs["one"]], fingerprints.frames[pairs["other"]]
    length = np.minimum(one, other + offset) - start
    overlap = length > 0
    begin = np.where(overlap, first[pairs["one"]] + start, 0)
    second = np.where(overlap, first[pairs["other"]] + start - offset, 0)
    last = np.maximum(length - 1, 0).astype(np.int32)
    wrong, seen = np.zeros(len(start), np.uint16), np.zeros(len(start), np.uint8)
    for step in range(frames):
        place = last * np.int32(2 * step + 1) // np.int32(2 * frames)
        one_words, other_words = words.take(begin + place), words.take(second + place)
        both = (one_words != 0) & (other_words != 0)
        wrong += np.bitwise_count(one_words ^ other_words) * both
        seen += both
    bits = np.maximum(seen.astype(np.int64) * BITS, 1)
    return np.where(overlap & (seen > 0), wrong / bits, 1.0)


def aligned(clips: Fingerprints, one: Int64s, other: Int64s, reach: int) -> Pairs:
    """Pairs that share no key, each at the best alignment within `reach` frames."""
    best, offset = np.full(len(one), np.inf), np.zeros(len(one), np.int64)
    for shift in sorted(range(-reach, reach + 1), key=abs):
        error = quick_error(clips, pairs_of(one, other, shift), SEARCH_FRAMES)
        better = error < best
        best[better], offset[better] = error[better], shift
    return pairs_of(one, other, offset)
