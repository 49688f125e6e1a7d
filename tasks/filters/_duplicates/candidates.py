"""Pairs of clips that may be copies: those that share a key, and whose words agree at a few places.

The keys of all clips are sorted twice, by duration within a key and by place in the clip, and each
is paired with the next few that agree in both. Of too common a key, only the nearest clips are
paired. So the time is O(n log n). Keys are processed in parts, and pairs by the blocks of their
clips, so that memory is some tens of bytes a clip.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...base.arrays import (
    Float32s,
    Float64s,
    Int32s,
    Int64s,
    UInt16s,
    UInt32s,
    UInt64s,
)
from ...storage.sorted_keys import first_of_runs
from . import fingerprinting
from .fingerprints import (
    KEY_PARTS,
    SORTED_BITS,
    Fingerprints,
    Pairs,
    PartitionedRecords,
    StoredFingerprints,
    Thresholds,
    numbers,
)

NEIGHBOURS = 12  # keys after each one, in either order, that it is paired with
#: Frames compared and the highest bit error rate that passes; two unlike clips have 0.46.
QUICK_CHECKS = ((6, 0.44), (24, 0.40))
SEARCH_FRAMES = 64  # frames compared at each alignment if none is known
PAIRS_AT_ONCE = 1 << 17
IN_CACHE = 1 << 13  # pairs
CODES_AT_ONCE = 1 << 20


class Numbered:
    """Fingerprints whose clips are numbered best first: `row` of each clip."""

    def __init__(self, prints: StoredFingerprints, row: Int32s) -> None:
        self.prints = prints
        self.row = row
        self._at = np.empty(len(row), np.int32)

    def part_of(self, pairs: Pairs) -> UInt16s:
        """Which pair of blocks the clips of each pair are in."""
        blocks = [self.prints.block_of(self.row[clips]) for clips in (pairs.one, pairs.other)]
        low, high = np.minimum(*blocks), np.maximum(*blocks)
        return (low * self.prints.blocks + high).astype(np.uint16)

    def held(self, pairs: Pairs) -> tuple[Fingerprints, Int64s, Pairs]:
        """The fingerprints of pairs from one pair of blocks, in order; the number of each; and the
        pairs by their places among these."""
        clips = np.sort(np.concatenate([pairs.one, pairs.other]).astype(np.int32))
        clips = clips[first_of_runs(clips)]
        self._at[clips] = np.arange(len(clips))
        one, other = (self._at[side].astype(np.int64) for side in (pairs.one, pairs.other))
        numbers = clips.astype(np.int64)
        return self.prints.held(self.row[clips]), numbers, Pairs(one, other, pairs.offset)


def candidates(
    clips: Numbered, of_row: Int32s, thresholds: Thresholds
) -> Iterator[tuple[Fingerprints, Int64s, Pairs]]:
    """(fingerprints, numbers of their clips, pairs): pairs that share a key, each at its best
    alignment.

    `of_row`: the number of each row's clip, -1 to skip it.
    """
    blocks = clips.prints.blocks
    with PartitionedRecords[np.uint64](np.uint64, blocks * blocks) as codes:
        for number in range(KEY_PARTS):
            shared = _sharing(clips.prints, number, of_row, thresholds)
            for low in range(0, len(shared), CODES_AT_ONCE):
                portion = shared[low : low + CODES_AT_ONCE]
                codes.add(clips.part_of(_decoded(portion)), portion)
        codes.finish()
        for number in range(blocks * blocks):
            for portion in _portions(_unique(codes.read(number))):
                fingerprints, numbered, pairs = clips.held(_decoded(portion))
                yield fingerprints, numbered, _checked(fingerprints, pairs)


def _portions(codes: UInt64s) -> Iterator[UInt64s]:
    """Sorted codes in portions; all pairs of one better clip stay together."""
    low = 0
    while low < len(codes):
        last = codes[min(low + CODES_AT_ONCE, len(codes)) - 1]
        high = int(np.searchsorted(codes, last | np.uint64(2**36 - 1), "right"))
        yield codes[low:high]
        low = high


def _sharing(
    prints: StoredFingerprints, part: int, of_row: Int32s, thresholds: Thresholds
) -> UInt64s:
    """Pairs that share a key of a part; see `_encoded`."""
    anchors = prints.anchors.read(part)
    clip = of_row[anchors["row"]]
    looked_at = clip >= 0
    anchors, clip = anchors[looked_at], clip[looked_at].astype(np.uint32)
    milliseconds = prints.milliseconds[anchors["row"]]
    duration = np.minimum(milliseconds / 1000 * 64, 2**20 - 1).astype(np.uint64)
    seconds = (milliseconds / 1000).astype(np.float32)
    key, frame = anchors["key"].copy(), anchors["frame"].copy()
    del anchors, milliseconds
    place = frame.astype(np.uint64)
    sorted_key = key.astype(np.uint64) << np.uint64(64 - SORTED_BITS)
    codes = []
    for rest in (duration << np.uint64(16) | place, place << np.uint64(20) | duration):
        order = _sorted(sorted_key | rest, clip)
        codes.append(_neighbours(key[order], clip[order], frame[order], seconds[order], thresholds))
    return _unique(np.concatenate(codes))


def _sorted(codes: UInt64s, clip: UInt32s) -> Int64s:
    """The order by code, then by clip. Few codes are equal; a stable sort of all takes longer."""
    order = np.argsort(codes)
    ordered = codes[order]
    tied = np.r_[False, ordered[1:] == ordered[:-1], False]
    places = np.flatnonzero(tied[1:] | tied[:-1])
    equal = order[places]
    order[places] = equal[np.lexsort((clip[equal], codes[equal]))]
    return order


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
    return Pairs(
        (codes >> np.uint64(36)).astype(np.int64),
        ((codes >> np.uint64(8)) & np.uint64(2**28 - 1)).astype(np.int64),
        (codes & np.uint64(255)).astype(np.int64) - 128,
    )


def _unique(codes: UInt64s) -> UInt64s:
    """Sorted unique codes; np.unique uses a hash table, which is slow for many."""
    codes = np.sort(codes)
    return codes[first_of_runs(codes)]


def _checked(fingerprints: Fingerprints, pairs: Pairs) -> Pairs:
    """The pairs that agree at a few places, each at its best alignment."""
    kept, errors, every = [], [np.empty(0)], numbers(pairs.one)
    for begin in range(0, len(pairs.one), PAIRS_AT_ONCE):
        portion = pairs.take(every[begin : begin + PAIRS_AT_ONCE])
        for frames, max_error in QUICK_CHECKS:
            error = quick_error(fingerprints, portion, frames)
            good = error <= max_error
            portion, error = portion.take(good), error[good]
        kept.append(portion)
        errors.append(error)
    joined, error = Pairs.joined(kept), np.concatenate(errors)
    order = np.lexsort((np.abs(joined.offset), error, joined.other, joined.one))  # best ones first
    return joined.take(order[first_of_runs(joined.one[order], joined.other[order])])


def quick_error(fingerprints: Fingerprints, pairs: Pairs, frames: int) -> Float64s:
    """Bit error rate at `frames` places spread over each pair, up to 255; 1 if nothing sounds in
    both."""
    errors = np.empty(len(pairs.one))
    for low in range(0, len(errors), IN_CACHE):
        portion = Pairs(*(column[low : low + IN_CACHE] for column in pairs))
        errors[low : low + IN_CACHE] = _quick_error(fingerprints, portion, frames)
    return errors


def _quick_error(fingerprints: Fingerprints, pairs: Pairs, frames: int) -> Float64s:
    """`quick_error` for so few pairs that the sums stay in the processor's cache."""
    words, first = fingerprints.words, fingerprints.first
    start = np.maximum(pairs.offset, 0)
    one, other = fingerprints.frames[pairs.one], fingerprints.frames[pairs.other]
    length = np.minimum(one, other + pairs.offset) - start
    overlap = length > 0
    begin = np.where(overlap, first[pairs.one] + start, 0)
    second = np.where(overlap, first[pairs.other] + start - pairs.offset, 0)
    last = np.maximum(length - 1, 0).astype(np.int32)
    wrong, seen = np.zeros(len(start), np.uint16), np.zeros(len(start), np.uint8)
    for step in range(frames):
        place = last * np.int32(2 * step + 1) // np.int32(2 * frames)
        one_words, other_words = words.take(begin + place), words.take(second + place)
        both = (one_words != 0) & (other_words != 0)
        wrong += np.bitwise_count(one_words ^ other_words) * both
        seen += both
    bits = np.maximum(seen.astype(np.int64) * fingerprinting.BITS, 1)
    return np.where(overlap & (seen > 0), wrong / bits, 1.0)


def aligned(
    clips: Numbered, one: Int64s, other: Int64s, thresholds: Thresholds
) -> Iterator[tuple[Fingerprints, Int64s, Pairs]]:
    """Pairs that share no key, each at the best of all alignments; as from `candidates`."""
    whole = Pairs(one, other, np.zeros(len(one), np.int64))
    part = clips.part_of(whole)
    order = np.argsort(part, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(part[order])) + 1):
        if len(members):
            fingerprints, numbered, pairs = clips.held(whole.take(members))
            yield fingerprints, numbered, _best_of_all(fingerprints, pairs, thresholds.max_offset)


def _best_of_all(fingerprints: Fingerprints, pairs: Pairs, reach: int) -> Pairs:
    best, offset = np.full(len(pairs.one), np.inf), pairs.offset.copy()
    for shift in sorted(range(-reach, reach + 1), key=abs):
        shifted = pairs._replace(offset=np.full(len(best), shift, np.int64))
        error = quick_error(fingerprints, shifted, SEARCH_FRAMES)
        better = error < best
        best[better], offset[better] = error[better], shift
    return pairs._replace(offset=offset)
