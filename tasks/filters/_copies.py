"""Which clips of a corpus are copies: of the same samples, or of the same sound re-encoded.

Works on fingerprints (`_fingerprints.py`) alone, in O(n log n) time. They lie in temporary files;
memory holds some tens of bytes for each clip:

1. Clips with the same digest have the same samples; one of each such group goes on.
2. `_duplicate_pairs.py`: pairs that share a key and agree at a few places.
3. Pairs that are copies by a comparison of all their frames.
4. Connected pairs form a group, and its best clip is the original. A clip is a copy only if it
   compares well with the original itself; the clips that do not are grouped again without those
   that do.

A clip contained in a longer one is not a copy of it, as its duration differs. The result does not
depend on the order of the rows, as long as they are ranked alike.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..base.arrays import Bools, Float64s, Int32s, Int64s, UInt16s
from ..storage.sorted_keys import first_of_runs
from ._duplicate_pairs import aligned, candidates
from ._fingerprints import (
    ALIGN_FRAMES,
    BITS,
    HOP_SECONDS,
    PAIR,
    Fingerprints,
    Pairs,
    StoredFingerprints,
    Thresholds,
)

MAX_ROUNDS = 32
COPY = np.dtype([*PAIR.descr, ("error", "f8"), ("drift", "f8")])


class Copies(NamedTuple):
    """The rows that are copies, best first, with the row of each one's original and how the two
    differ.

    `error`: bit error rate, 0 for the same samples. `drift`: by how much the copy leads or lags in
    one quarter more than in another, s.
    """

    row: Int32s
    original: Int32s
    error: Float64s
    drift: Float64s
    exact: Bools  # the same samples


def find_copies(prints: StoredFingerprints, best_first: Int64s, thresholds: Thresholds) -> Copies:
    """Which rows are copies of others. `best_first`: all rows; of several copies the first is the
    original. Rows without a fingerprint are not copies."""
    row = best_first[prints.rows["first"][best_first] >= 0].astype(np.int32)
    number = np.arange(len(row), dtype=np.int32)
    same = prints.rows["same"][row]
    first = np.empty(int(same.max(initial=-1)) + 1, np.int32)
    first[same[::-1]] = number[::-1]  # the first clip of the same samples
    first = first[same]
    of_row = np.full(len(prints), -1, np.int32)
    looked_at = (first == number) & prints.rows["anchored"][row]
    of_row[row[looked_at]] = number[looked_at]
    clips = prints.of_rows(row)
    pairs = np.empty(0, PAIR)
    if thresholds.max_error > 0:
        pairs = candidates(prints, clips, of_row, thresholds)
    near = _find_originals(clips, pairs, thresholds)
    del of_row, looked_at

    original = number.copy()
    original[near["other"]] = near["one"]
    original = original[first]
    copy = np.flatnonzero(original != number)
    exact = same[original[copy]] == same[copy]
    error, drift = np.zeros((2, len(copy)))
    place = np.searchsorted(near["other"], first[copy[~exact]])
    error[~exact], drift[~exact] = near["error"][place], near["drift"][place]
    return Copies(row[copy], row[original[copy]], error, drift, exact)


def _find_originals(clips: Fingerprints, pairs: Pairs, thresholds: Thresholds) -> Pairs:
    """Each re-encoded copy among these pairs, `other`, with its original; COPY, in order."""
    copies = copies_among(clips, pairs, thresholds)
    linked = np.sort(np.concatenate([copies["one"], copies["other"]]))
    numbers = linked[first_of_runs(linked)]
    seconds = clips.seconds[numbers]
    originals = np.full(len(numbers), -1, COPY)  # by places among `numbers`

    def assign(some: Pairs) -> None:
        originals[some["other"]] = some

    copies = _among(numbers, copies)
    for _ in range(MAX_ROUNDS):
        if not len(copies):
            break
        linked = np.unique(np.concatenate([copies["one"], copies["other"]]))
        original = _best_of_group(copies, linked, len(numbers))
        assign(copies[original[copies["one"]] == copies["one"]])
        # Members that share no pair with the original are compared with it now.
        rest = linked[(original[linked] != linked) & (originals["one"][linked] < 0)]
        padding = np.abs(seconds[rest] - seconds[original[rest]])
        rest = rest[padding <= thresholds.max_padding]
        indirect = aligned(clips, numbers[original[rest]], numbers[rest], thresholds.max_offset)
        assign(_among(numbers, copies_among(clips, indirect, thresholds)))
        free = originals["one"] < 0
        free[original[linked]] = False
        copies = copies[free[copies["one"]] & free[copies["other"]]]
    # The rest of a very long chain, such as overlapping windows: pair by pair, best first, as each
    # further round would compare all that is left with one clip.
    best = set[int]()
    for copy in copies[np.lexsort((copies["other"], copies["one"]))]:
        one, other = int(copy["one"]), int(copy["other"])
        if max(originals["one"][[one, other]]) < 0 and other not in best:
            best.add(one)
            originals[other] = copy
    originals = originals[originals["one"] >= 0]
    originals["one"], originals["other"] = numbers[originals["one"]], numbers[originals["other"]]
    return originals


def _among(clips: Int64s, copies: Pairs) -> Pairs:
    """Copies by their places among `clips`."""
    for side in ("one", "other"):
        copies[side] = np.searchsorted(clips, copies[side])
    return copies


def _best_of_group(pairs: Pairs, linked: Int64s, count: int) -> Int64s:
    """The best clip, that with the smallest number, of each clip's group."""
    graph = coo_array((np.ones(len(pairs), bool), (pairs["one"], pairs["other"])), (count, count))
    _, group = connected_components(graph, directed=False)
    best = np.full(count, count, np.int64)
    np.minimum.at(best, group[linked], linked)
    of_group: Int64s = best[group]
    return of_group


# Compare pairs of clips in all frames, and keep those that are copies.
#
# Two clips are copies if, at their best alignment, few bits differ; if they have nearly the same
# duration; if they sound in nearly the same places; and if they stay in step: the offset at which
# each quarter matches best must not drift. Slow and fast renderings by one synthetic voice differ
# in little else.

QUARTERS = 4
MIN_COMMON = 0.75  # least share of the frames sounding in either clip that sound in both
FRAMES_AT_ONCE = 1 << 21


class Comparison(NamedTuple):
    """One value per pair."""

    error: Float64s  # bit error rate at the best alignment
    drift: Float64s  # s, between the best alignments of the quarters
    common: Float64s  # share of the sounding frames that sound in both clips
    sound: Float64s  # s that sound in both
    offset: Int64s  # the best alignment


def copies_among(fingerprints: Fingerprints, pairs: Pairs, thresholds: Thresholds) -> Pairs:
    """The pairs that are copies, and how they compare; COPY."""
    kept = [np.empty(0, COPY)]
    for part in _portions(fingerprints, pairs):
        result = _compare(fingerprints, part)
        moved = np.flatnonzero(result.offset != part["offset"])
        if len(moved):  # once more around the better alignment
            nearer = part[moved]
            nearer["offset"] = result.offset[moved]
            for column, again in zip(result, _compare(fingerprints, nearer), strict=True):
                column[moved] = again
        padding = np.abs(fingerprints.seconds[part["one"]] - fingerprints.seconds[part["other"]])
        good = np.flatnonzero(
            (result.error <= thresholds.max_error)
            & (result.drift <= thresholds.max_drift)
            & (result.common >= MIN_COMMON)
            & (result.sound >= thresholds.min_sound)
            & (padding <= thresholds.max_padding)
        )
        copies = np.empty(len(good), COPY)
        for name in PAIR.names or ():
            copies[name] = part[name][good]
        copies["error"], copies["drift"] = result.error[good], result.drift[good]
        kept.append(copies)
    return np.concatenate(kept)


def _portions(fingerprints: Fingerprints, pairs: Pairs) -> Iterator[Pairs]:
    """The pairs in portions of about `FRAMES_AT_ONCE` frames."""
    ends = np.cumsum(fingerprints.frames[pairs["one"]])
    portion = ends // FRAMES_AT_ONCE
    for part in np.split(np.arange(len(ends)), np.flatnonzero(np.diff(portion)) + 1):
        if len(part):
            yield pairs[part]


def _compare(fingerprints: Fingerprints, pairs: Pairs) -> Comparison:
    """Compare all frames at each alignment within `ALIGN_FRAMES` of the given one."""
    count = len(pairs)
    pair, frame = _frames_of(fingerprints, pairs["one"])
    first = fingerprints.words[fingerprints.first[pairs["one"]][pair] + frame]
    pair, frame, first = (column[first != 0] for column in (pair, frame, first))
    beside = pairs["other"][pair]
    begin, limit = fingerprints.first[beside], fingerprints.frames[beside]
    place = frame - pairs["offset"][pair]

    def second(shift: int) -> UInt16s:
        where = place - shift
        inside = (where >= 0) & (where < limit)
        return np.where(inside, fingerprints.words[np.where(inside, begin + where, 0)], 0)

    cell = pair * QUARTERS + _quarters(pair, second(0) != 0, count)
    wrong, seen = _bit_errors(first, second, cell, count)
    rates = wrong.sum(axis=2) / np.maximum(seen.sum(axis=2) * BITS, 1)
    rates[seen.sum(axis=2) == 0] = 1.0
    best = _central_minimum(rates)
    rows = np.arange(len(pairs))
    frames = seen.sum(axis=2)[best, rows]
    other, place_in_other = _frames_of(fingerprints, pairs["other"])
    sounds = fingerprints.words[fingerprints.first[pairs["other"]][other] + place_in_other] != 0
    sounding = np.maximum(
        np.bincount(pair, minlength=count), np.bincount(other[sounds], minlength=count)
    )
    return Comparison(
        error=rates[best, rows],
        drift=_drift(wrong / np.maximum(seen * BITS, 1)),
        common=frames / np.maximum(sounding, 1),
        sound=frames * HOP_SECONDS,
        offset=pairs["offset"] + best - ALIGN_FRAMES,
    )


def _frames_of(fingerprints: Fingerprints, clips: Int64s) -> tuple[Int64s, Int64s]:
    """(index into `clips`, frame number) of all frames of these clips, in order."""
    lengths = fingerprints.frames[clips]
    index = np.repeat(np.arange(len(clips)), lengths)
    return index, np.arange(len(index)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _quarters(pair: Int64s, both: Bools, count: int) -> Int64s:
    """For each frame, in which quarter it is of its pair's frames that sound in both clips."""
    totals = np.bincount(pair[both], minlength=count)
    before = np.repeat(np.r_[0, np.cumsum(totals)][:-1], np.bincount(pair, minlength=count))
    number = np.cumsum(both) - before
    quarters: Int64s = (number - 1) * QUARTERS // np.maximum(totals, 1)[pair]
    return np.clip(quarters, 0, QUARTERS - 1)


def _bit_errors(
    first: UInt16s, second: Callable[[int], UInt16s], cell: Int64s, count: int
) -> tuple[Float64s, Float64s]:
    """(wrong bits, compared frames), each [shifts, pairs, quarters]."""
    shifts = range(-ALIGN_FRAMES, ALIGN_FRAMES + 1)
    wrong = np.zeros((len(shifts), count, QUARTERS))
    seen = np.zeros_like(wrong)
    for index, shift in enumerate(shifts):
        other = second(shift)
        both = other != 0
        bad = np.bitwise_count(first[both] ^ other[both])
        wrong[index] = np.bincount(cell[both], bad, count * QUARTERS).reshape(count, QUARTERS)
        seen[index] = np.bincount(cell[both], minlength=count * QUARTERS).reshape(count, QUARTERS)
    return wrong, seen


def _central_minimum(rates: Float64s) -> Int64s:
    """Index of the minimum along the first axis; of equal ones, the nearest to the middle."""
    order = np.array(sorted(range(len(rates)), key=lambda index: abs(index - ALIGN_FRAMES)))
    smallest: Int64s = order[np.argmin(rates[order], axis=0)]
    return smallest


def _drift(rates: Float64s) -> Float64s:
    """Seconds between the earliest and the latest best alignment of a pair's quarters.

    `rates` [shifts, pairs, quarters]. A parabola through the minimum and its neighbours gives each
    alignment to a fraction of a frame.
    """
    best = np.clip(_central_minimum(rates), 1, len(rates) - 2)[None]
    before, lowest, after = (np.take_along_axis(rates, best + step, 0)[0] for step in (-1, 0, 1))
    bend = before - 2 * lowest + after
    shift = np.where(bend > 0, (before - after) / np.where(bend > 0, 2 * bend, 1), 0.0)
    offset = best[0] + np.clip(shift, -1, 1)
    drift: Float64s = np.ptp(offset, axis=1) * HOP_SECONDS
    return drift
