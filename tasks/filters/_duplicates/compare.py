"""Compare pairs of clips in all frames, and keep those that are copies.

Two clips are copies if, at their best alignment, few bits differ; if they have nearly the same
duration; if they sound in nearly the same places; and if they stay in step: the offset at which
each quarter matches best must not drift. Slow and fast renderings by one synthetic voice differ in
little else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tasks.base.arrays import Bools, Float64s, Int64s, UInt16s
from tasks.filters._duplicates import fingerprinting
from tasks.filters._duplicates.table import ALIGN_FRAMES, Fingerprints, Pairs, Thresholds, numbers

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

    def take(self, which: Int64s) -> Comparison:
        return Comparison._make(column[which] for column in self)

    @classmethod
    def joined(cls, parts: list[Comparison]) -> Comparison:
        none, no_offset = np.empty(0), np.empty(0, np.int64)
        empty = cls(none, none, none, none, no_offset)
        return cls(*map(np.concatenate, zip(empty, *parts, strict=True)))


def copies(
    fingerprints: Fingerprints, pairs: Pairs, thresholds: Thresholds
) -> tuple[Pairs, Comparison]:
    """The pairs that are copies, and how they compare."""
    kept: list[Pairs] = []
    compared: list[Comparison] = []
    for part in _portions(fingerprints, pairs):
        result = _compare(fingerprints, part)
        moved = np.flatnonzero(result.offset != part.offset)
        if len(moved):  # once more around the better alignment
            nearer = part.take(moved)._replace(offset=result.offset[moved])
            for column, again in zip(result, _compare(fingerprints, nearer), strict=True):
                column[moved] = again
        padding = np.abs(fingerprints.seconds[part.one] - fingerprints.seconds[part.other])
        good = np.flatnonzero(
            (result.error <= thresholds.max_error)
            & (result.drift <= thresholds.max_drift)
            & (result.common >= MIN_COMMON)
            & (result.sound >= thresholds.min_sound)
            & (padding <= thresholds.max_padding)
        )
        kept.append(part.take(good))
        compared.append(result.take(good))
    return Pairs.joined(kept), Comparison.joined(compared)


def _portions(fingerprints: Fingerprints, pairs: Pairs) -> Iterator[Pairs]:
    """The pairs in portions of about `FRAMES_AT_ONCE` frames."""
    ends = np.cumsum(fingerprints.frames[pairs.one])
    portion = ends // FRAMES_AT_ONCE
    for part in np.split(numbers(ends), np.flatnonzero(np.diff(portion)) + 1):
        if len(part):
            yield pairs.take(part)


def _compare(fingerprints: Fingerprints, pairs: Pairs) -> Comparison:
    """Compare all frames at each alignment within `ALIGN_FRAMES` of the given one."""
    count = len(pairs.one)
    pair, frame = _frames_of(fingerprints, pairs.one)
    first = fingerprints.words[fingerprints.first[pairs.one][pair] + frame]
    pair, frame, first = (column[first != 0] for column in (pair, frame, first))
    begin, limit = fingerprints.first[pairs.other][pair], fingerprints.frames[pairs.other][pair]
    place = frame - pairs.offset[pair]

    def second(shift: int) -> UInt16s:
        where = place - shift
        inside = (where >= 0) & (where < limit)
        return np.where(inside, fingerprints.words[np.where(inside, begin + where, 0)], 0)

    cell = pair * QUARTERS + _quarters(pair, second(0) != 0, count)
    wrong, seen = _bit_errors(first, second, cell, count)
    rates = wrong.sum(axis=2) / np.maximum(seen.sum(axis=2) * fingerprinting.BITS, 1)
    rates[seen.sum(axis=2) == 0] = 1.0
    best = _central_minimum(rates)
    rows = numbers(pairs.one)
    frames = seen.sum(axis=2)[best, rows]
    sounding = np.maximum(np.bincount(pair, minlength=count), _sounding(fingerprints, pairs.other))
    return Comparison(
        error=rates[best, rows],
        drift=_drift(wrong / np.maximum(seen * fingerprinting.BITS, 1)),
        common=frames / np.maximum(sounding, 1),
        sound=frames * fingerprinting.HOP_SECONDS,
        offset=pairs.offset + best - ALIGN_FRAMES,
    )


def _frames_of(fingerprints: Fingerprints, clips: Int64s) -> tuple[Int64s, Int64s]:
    """(index into `clips`, frame number) of all frames of these clips, in order."""
    lengths = fingerprints.frames[clips]
    index = np.repeat(numbers(clips), lengths)
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


def _sounding(fingerprints: Fingerprints, clips: Int64s) -> Int64s:
    """Number of sounding frames of each clip."""
    clip, frame = _frames_of(fingerprints, clips)
    words = fingerprints.words[fingerprints.first[clips][clip] + frame]
    return np.bincount(clip[words != 0], minlength=len(clips))


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
    drift: Float64s = np.ptp(offset, axis=1) * fingerprinting.HOP_SECONDS
    return drift
