"""Which clips of a corpus are copies of which: the same samples, or the same sound re-encoded.

Everything is worked out from the prints (`tasks/filters/_fingerprint.py`) with sorted joins, in
time that grows as n log n and memory that grows as n:

1. Clips with the same digest are exact copies; of each such group one goes on.
2. Keys. The keys of all clips are sorted, once by duration within a key and once by where in the
   clip they stand, and each is paired with the next few that agree in both: of a key that is too
   common only the nearest are looked at.
3. A glance. A pair whose words differ too much at a few places spread over them is dropped.
4. A look. The bit error rate over all frames that sound in both, at the best alignment. Clips are
   copies when that is small, when they have nearly the same duration and sound in nearly the same
   places, and when they keep in step: the offset at which their quarters match best must not
   drift. Fast and slow renderings by one synthetic voice differ in little else.
5. Groups. Connected pairs are a group; its best member is the original. A member is a copy only if
   it passes 4 against the original itself; what does not is grouped again without those that do.

A clip that is contained in a longer one is not a copy of it: it has another duration.

The best is: published before any other, then highest in rank, then smallest in id. Nothing depends
on the order of the rows as long as ids differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tasks.filters import _fingerprint as print_
from tasks.filters.duplicate import Settings

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]
Bools = NDArray[np.bool_]

NEIGHBOURS = 12  # keys after each one, in either order, that it is paired with
GLANCES = ((6, 0.44), (24, 0.40))  # frames, bit error rate; two unlike clips have 0.46
REACH = 2  # frames on either side of an alignment that a look tries
QUARTERS = 4
MIN_COMMON = 0.75  # of the frames that sound in either clip, those that must sound in both
SEARCHED = 64  # frames compared at each alignment where none is known
FRAMES_AT_ONCE = 1 << 21
PAIRS_AT_ONCE = 1 << 17
ROUNDS = 32


class Found(NamedTuple):
    """For each row: the row of its original, or -1; how they differ; whether in nothing at all.

    `error` is the bit error rate, 0 for exact copies, and NaN where there is no original. `drift`
    is by how much the copy leads or lags in one quarter more than in another, s, NaN likewise.
    """

    original: Ints
    error: Reals
    drift: Reals
    exact: Bools


class _Prints(NamedTuple):
    """All prints, best first."""

    words: NDArray[np.uint16]  # every print's bytes as uint16
    first: Ints  # where a clip's words begin there
    frames: Ints
    anchors: Ints  # how many; they follow the words
    seconds: Reals
    digest: NDArray[np.uint64]  # [n, 2]


class _Pairs(NamedTuple):
    """Frame i of clip `one` may be frame i - offset of clip `other`; `one` is the better clip."""

    one: Ints
    other: Ints
    offset: Ints

    def take(self, which: NDArray[np.int64] | Bools) -> _Pairs:
        return _Pairs(self.one[which], self.other[which], self.offset[which])


class _Looks(NamedTuple):
    """What comparing pairs gives."""

    error: Reals  # bit error rate at the best alignment
    drift: Reals  # s
    common: Reals  # share of the sounding frames that sound in both
    sound: Reals  # s that sound in both
    offset: Ints  # the best alignment

    def take(self, which: NDArray[np.int64]) -> _Looks:
        return _Looks(
            self.error[which], self.drift[which], self.common[which], self.sound[which],
            self.offset[which],
        )  # fmt: skip


def find(
    prints: Sequence[bytes | None] | pa.Array | pa.ChunkedArray,
    ids: Sequence[str] | pa.Array | pa.ChunkedArray,
    rank: NDArray[np.float64] | Sequence[float],
    published: Bools | Sequence[bool],
    settings: Settings | None = None,
) -> Found:
    """Originals of all rows. `rank`: the higher the better; rows without a print have no copies.

    ValueError when a print is damaged or of another layout.
    """
    chosen = settings or Settings()
    blob = _as_array(prints)
    names = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.array(ids, pa.string())
    keys = {"late": ~np.asarray(published, bool), "rank": -np.asarray(rank, float), "id": names}
    table = pa.table({**keys, "has": blob.is_valid()})
    order = pc.sort_indices(table, [("late", "ascending"), ("rank", "ascending"),
                                    ("id", "ascending")]).to_numpy().astype(np.int64)  # fmt: skip
    order = order[table["has"].to_numpy()[order]]
    held = _read(blob, order)
    twin = _twins(held.digest)
    best = np.flatnonzero(twin == _numbers(twin))
    copy_of, looks = _near(held, best[held.anchors[best] > 0], chosen)

    original = np.where(copy_of[twin] >= 0, copy_of[twin], twin)
    found = Found(
        np.full(len(blob), -1, np.int64), np.full(len(blob), np.nan),
        np.full(len(blob), np.nan), np.zeros(len(blob), bool),
    )  # fmt: skip
    same = (held.digest[original] == held.digest).all(axis=1)
    is_copy = original != _numbers(twin)
    rows = order[is_copy]
    found.original[rows] = order[original[is_copy]]
    found.error[rows] = np.where(same, 0.0, looks[0][twin])[is_copy]
    found.drift[rows] = np.where(same, 0.0, looks[1][twin])[is_copy]
    found.exact[rows] = same[is_copy]
    return found


def _numbers(array: NDArray[Any]) -> Ints:
    return np.arange(len(array), dtype=np.int64)


def _as_array(prints: Sequence[bytes | None] | pa.Array | pa.ChunkedArray) -> pa.Array:
    """One LargeBinaryArray."""
    if isinstance(prints, pa.ChunkedArray):
        prints = pa.concat_arrays([c.cast(pa.large_binary()) for c in prints.chunks] or
                                  [pa.array([], pa.large_binary())])  # fmt: skip
    if isinstance(prints, pa.Array):
        return prints.cast(pa.large_binary())
    return pa.array(prints, pa.large_binary())


def _read(blob: pa.Array, order: Ints) -> _Prints:
    """The prints of the rows `order`, in that order; their words stay where they are."""
    buffers = blob.buffers()
    offsets = np.frombuffer(buffers[1], np.int64)[blob.offset : blob.offset + len(blob) + 1]
    size = print_.HEADER.size
    data = np.frombuffer(buffers[2] or b"", np.uint8)
    data = data[: len(data) // 2 * 2]
    first, length = offsets[order], np.diff(offsets)[order]
    if (length < size).any() or (offsets[order] % 2).any():
        raise ValueError("a print is damaged")
    heads = np.empty((len(order), size), np.uint8)
    for at in range(size):
        heads[:, at] = data[first + at]
    frames = heads[:, 4:8].copy().view("<u4")[:, 0].astype(np.int64)
    anchors = heads[:, 1].astype(np.int64)
    if (heads[:, 0] != print_.LAYOUT).any() or (length != size + 2 * frames + 6 * anchors).any():
        raise ValueError("a print is damaged, or of another version")
    return _Prints(
        data.view("<u2"), (first + size) // 2, frames, anchors,
        heads[:, 8:12].copy().view("<u4")[:, 0] / 1000, heads[:, 12:28].copy().view("<u8"),
    )  # fmt: skip


def _twins(digest: NDArray[np.uint64]) -> Ints:
    """For each clip the first one with the same digest."""
    order = np.lexsort((digest[:, 1], digest[:, 0]))  # stable: the first comes first
    rows = digest[order]
    begins = np.r_[True, (rows[1:] != rows[:-1]).any(axis=1)][: len(order)]
    twin = np.empty(len(order), np.int64)
    twin[order] = order[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    return twin


def _near(held: _Prints, clips: Ints, settings: Settings) -> tuple[Ints, tuple[Reals, Reals]]:
    """For each clip the clip that it is a copy of or -1, with (error, drift)."""
    count = len(held.frames)
    copy_of = np.full(count, -1, np.int64)
    error, drift = np.full(count, np.nan), np.full(count, np.nan)
    if settings.max_error == 0 or len(clips) < 2:
        return copy_of, (error, drift)
    pairs, looks = _copies(held, _candidates(held, clips, settings), settings)

    def assign(at: NDArray[np.int64], pairs: _Pairs, looks: _Looks) -> None:
        copy_of[pairs.other[at]] = pairs.one[at]
        error[pairs.other[at]], drift[pairs.other[at]] = looks.error[at], looks.drift[at]

    for turn in range(ROUNDS):
        if not len(pairs.one):
            break
        graph = coo_array((np.ones(len(pairs.one), bool), (pairs.one, pairs.other)), (count, count))
        _, group = connected_components(graph, directed=False)
        linked = np.unique(np.concatenate([pairs.one, pairs.other]))
        first = np.full(count, count, np.int64)
        np.minimum.at(first, group[linked], linked)
        leads = first[group]  # the best of each clip's group
        direct = np.flatnonzero(leads[pairs.one] == pairs.one)
        assign(direct, pairs, looks)
        rest = linked[(leads[linked] != linked) & (copy_of[linked] < 0)]
        close = np.abs(held.seconds[rest] - held.seconds[leads[rest]]) <= settings.max_padding
        rest = rest[close]
        far = _aligned(held, leads[rest], rest, settings)
        more, seen = _copies(held, far, settings)
        assign(_numbers(more.one), more, seen)
        is_lead = np.zeros(count, bool)
        is_lead[leads[linked]] = True
        free = ~is_lead & (copy_of < 0)
        keep = np.flatnonzero(free[pairs.one] & free[pairs.other])
        pairs, looks = pairs.take(keep), looks.take(keep)
        if turn == ROUNDS - 1:  # a chain without end: the rest goes by the pairs alone
            leading: set[int] = set()
            for at in np.lexsort((pairs.other, pairs.one)):
                one, other = int(pairs.one[at]), int(pairs.other[at])
                if copy_of[one] < 0 and copy_of[other] < 0 and other not in leading:
                    leading.add(one)
                    assign(np.array([at]), pairs, looks)
    return copy_of, (error, drift)


def _candidates(held: _Prints, clips: Ints, settings: Settings) -> _Pairs:
    """Pairs that share a key, each at the best alignment of those at which they do."""
    many = held.anchors[clips]
    clip = np.repeat(clips, many).astype(np.uint32)
    ends = np.cumsum(many)
    within = np.arange(len(clip)) - np.repeat(ends - many, many)
    at = (held.first + held.frames)[clip] + 3 * within
    del within
    key = held.words[at + 1].astype(np.uint64) << np.uint64(16) | held.words[at]
    frame = held.words[at + 2]
    del at
    if (frame >= print_.MOST_FRAMES).any():
        raise ValueError("a print is damaged: an anchor lies outside of it")
    steps = np.minimum(held.seconds * 64, 2**20 - 1).astype(np.uint64)[clip]
    place = frame.astype(np.uint64)
    codes = [np.empty(0, np.uint64)]
    for sortable in (
        key << np.uint64(40) | steps << np.uint64(16) | place,
        key << np.uint64(40) | place << np.uint64(20) | steps,
    ):
        order = np.argsort(sortable, kind="stable")
        codes.append(_paired(held, key[order], clip[order], frame[order], settings))
        del sortable, order
    found = _once(np.concatenate(codes))
    kept = [_Pairs(*(np.empty(0, np.int64),) * 3)]
    for begin in range(0, len(found), PAIRS_AT_ONCE):
        part = found[begin : begin + PAIRS_AT_ONCE]
        pairs = _Pairs(
            (part >> np.uint64(36)).astype(np.int64),
            ((part >> np.uint64(8)) & np.uint64(2**28 - 1)).astype(np.int64),
            (part & np.uint64(255)).astype(np.int64) - 128,
        )
        for frames, most in GLANCES:
            error = _glance(held, pairs, frames)
            good = error <= most
            pairs, error = pairs.take(good), error[good]
        kept.append(_best_alignment(pairs, error))
    return _Pairs(*(np.concatenate(columns) for columns in zip(*kept, strict=True)))


def _paired(
    held: _Prints,
    key: NDArray[np.uint64],
    clip: NDArray[np.uint32],
    frame: NDArray[np.uint16],
    settings: Settings,
) -> NDArray[np.uint64]:
    """Sorted keys, each with the next few: (better clip, other clip, offset + 128) in 28, 28 and
    8 bits, each once."""
    seconds, reach = held.seconds.astype(np.float32)[clip], _reach(settings)
    most = settings.max_padding + 1e-3
    codes = [np.empty(0, np.uint64)]
    same = np.ones(len(key), bool)
    for step in range(1, NEIGHBOURS + 1):
        same = same[:-1] & (key[step:] == key[:-step])
        good = same & (np.abs(seconds[step:] - seconds[:-step]) <= most)
        left = np.flatnonzero(good)
        offset = frame[left].astype(np.int64) - frame[left + step]
        near = np.abs(offset) <= reach
        left, offset = left[near], offset[near]
        one, other = clip[left].astype(np.uint64), clip[left + step].astype(np.uint64)
        offset = np.where(one > other, -offset, offset)
        one, other = np.minimum(one, other), np.maximum(one, other)
        code = one << np.uint64(36) | other << np.uint64(8) | (offset + 128).astype(np.uint64)
        codes.append(_once(code[one != other]))
    return _once(np.concatenate(codes))


def _once(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sorted, each once; numpy's own goes by a hash table, which is slow when it is large."""
    codes = np.sort(codes)
    first: Bools = np.r_[True, codes[1:] != codes[:-1]][: len(codes)]
    return codes[first]


def _reach(settings: Settings) -> int:
    """Frames by which copies may be offset to each other."""
    return min(round(settings.max_padding / print_.HOP_SECONDS) + REACH, 127)


def _best_alignment(pairs: _Pairs, error: Reals) -> _Pairs:
    """Of each pair the alignment with the fewest errors."""
    order = np.lexsort((np.abs(pairs.offset), error, pairs.other, pairs.one))
    one, other = pairs.one[order], pairs.other[order]
    new = np.r_[True, (one[1:] != one[:-1]) | (other[1:] != other[:-1])][: len(order)]
    return pairs.take(order[new])


def _glance(held: _Prints, pairs: _Pairs, frames: int) -> Reals:
    """Bit error rate at `frames` places spread over each pair; 1 where nothing sounds in both."""
    start = np.maximum(pairs.offset, 0)
    length = np.minimum(held.frames[pairs.one], held.frames[pairs.other] + pairs.offset) - start
    wrong, seen = np.zeros(len(start)), np.zeros(len(start))
    for turn in range(frames):
        at = start + np.maximum(length - 1, 0) * (2 * turn + 1) // (2 * frames)
        ok = length > 0
        first = held.words[np.where(ok, held.first[pairs.one] + at, 0)]
        second = held.words[np.where(ok, held.first[pairs.other] + at - pairs.offset, 0)]
        both = (first != 0) & (second != 0) & ok
        wrong += np.where(both, np.bitwise_count(first ^ second), 0)
        seen += both
    return np.where(seen > 0, wrong / np.maximum(seen * print_.BITS, 1), 1.0)


def _aligned(held: _Prints, one: Ints, other: Ints, settings: Settings) -> _Pairs:
    """Pairs of which no key is known, at their best alignment."""
    best, offset = np.full(len(one), np.inf), np.zeros(len(one), np.int64)
    if len(one):
        reach = _reach(settings)
        for shift in sorted(range(-reach, reach + 1), key=abs):
            pairs = _Pairs(one, other, np.full(len(one), shift, np.int64))
            error = _glance(held, pairs, SEARCHED)
            better = error < best
            best[better], offset[better] = error[better], shift
    return _Pairs(one, other, offset)


def _copies(held: _Prints, pairs: _Pairs, settings: Settings) -> tuple[_Pairs, _Looks]:
    """The pairs that are copies, and how they compare."""
    found: list[tuple[_Pairs, _Looks]] = []
    for part in _portions(held, pairs):
        looks = _look(held, part)
        moved = np.flatnonzero(looks.offset != part.offset)
        if len(moved):  # once more around the alignment that was found
            nearer = part.take(moved)._replace(offset=looks.offset[moved])
            for column, again in zip(looks, _look(held, nearer), strict=True):
                column[moved] = again
        good = np.flatnonzero(
            (looks.error <= settings.max_error) & (looks.drift <= settings.max_drift)
            & (looks.common >= MIN_COMMON) & (looks.sound >= settings.min_sound)
            & (np.abs(held.seconds[part.one] - held.seconds[part.other]) <= settings.max_padding)
        )  # fmt: skip
        found.append((part.take(good), looks.take(good)))
    if not found:
        nothing = np.empty(0, np.int64)
        none = np.empty(0)
        return _Pairs(nothing, nothing, nothing), _Looks(none, none, none, none, nothing)
    return (
        _Pairs(*(np.concatenate(c) for c in zip(*(pairs for pairs, _ in found), strict=True))),
        _Looks(*(np.concatenate(c) for c in zip(*(looks for _, looks in found), strict=True))),
    )


def _portions(held: _Prints, pairs: _Pairs) -> Iterator[_Pairs]:
    """The pairs in portions of about `FRAMES_AT_ONCE` frames."""
    ends = np.cumsum(held.frames[pairs.one])
    portion = ends // FRAMES_AT_ONCE
    for part in np.split(_numbers(ends), np.flatnonzero(np.diff(portion)) + 1):
        if len(part):
            yield pairs.take(part)


def _look(held: _Prints, pairs: _Pairs) -> _Looks:
    """Compare pairs in all frames, at `REACH` frames around their alignments."""
    count = len(pairs.one)
    lengths = held.frames[pairs.one]
    pair = np.repeat(_numbers(pairs.one), lengths)
    at = np.arange(len(pair)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    first = held.words[held.first[pairs.one][pair] + at]
    pair, at, first = (column[first != 0] for column in (pair, at, first))
    begin, limit = held.first[pairs.other][pair], held.frames[pairs.other][pair]
    place = at - pairs.offset[pair]

    def second(shift: int) -> NDArray[np.uint16]:
        where = place - shift
        inside = (where >= 0) & (where < limit)
        return np.where(inside, held.words[np.where(inside, begin + where, 0)], 0)

    # Quarters of what sounds in both at the alignment given.
    both = second(0) != 0
    totals = np.bincount(pair[both], minlength=count)
    turn = np.cumsum(both) - np.repeat(
        np.r_[0, np.cumsum(totals)][:-1], np.bincount(pair, minlength=count)
    )
    quarter = np.clip((turn - 1) * QUARTERS // np.maximum(totals, 1)[pair], 0, QUARTERS - 1)
    cell = pair * QUARTERS + quarter
    shifts = range(-REACH, REACH + 1)
    wrong = np.zeros((len(shifts), count, QUARTERS))
    seen = np.zeros_like(wrong)
    for index, shift in enumerate(shifts):
        other = second(shift)
        both = other != 0
        bad = np.bitwise_count(first[both] ^ other[both])
        wrong[index] = np.bincount(cell[both], bad, count * QUARTERS).reshape(count, QUARTERS)
        seen[index] = np.bincount(cell[both], minlength=count * QUARTERS).reshape(count, QUARTERS)
    rates = wrong.sum(axis=2) / np.maximum(seen.sum(axis=2) * print_.BITS, 1)
    rates[seen.sum(axis=2) == 0] = 1.0
    best = _centred(rates)
    rows = _numbers(pairs.one)
    frames = seen.sum(axis=2)[best, rows]
    sounding = np.maximum(
        np.bincount(pair, minlength=count), _sounding(held, pairs.other)
    )  # fmt: skip
    drift = _drift(wrong / np.maximum(seen * print_.BITS, 1))
    return _Looks(
        rates[best, rows], drift, frames / np.maximum(sounding, 1), frames * print_.HOP_SECONDS,
        pairs.offset + best - REACH,
    )  # fmt: skip


def _centred(rates: Reals) -> Ints:
    """Index of the smallest along the first axis; the one nearest to the middle of several."""
    order = np.array(sorted(range(len(rates)), key=lambda index: abs(index - REACH)))
    smallest: Ints = order[np.argmin(rates[order], axis=0)]
    return smallest


def _sounding(held: _Prints, clips: Ints) -> Ints:
    """Frames of each clip that sound."""
    lengths = held.frames[clips]
    clip = np.repeat(_numbers(clips), lengths)
    at = np.arange(len(clip)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    words = held.words[held.first[clips][clip] + at]
    return np.bincount(clip[words != 0], minlength=len(clips))


def _drift(rates: Reals) -> Reals:
    """Seconds between the earliest and the latest of the best alignments of a pair's quarters.

    `rates` [shifts, pairs, quarters]: a parabola through the smallest and its neighbours gives an
    alignment to a fraction of a frame.
    """
    best = np.clip(_centred(rates), 1, len(rates) - 2)[None]
    before, here, after = (np.take_along_axis(rates, best + step, 0)[0] for step in (-1, 0, 1))
    bend = before - 2 * here + after
    shift = np.where(bend > 0, (before - after) / np.where(bend > 0, 2 * bend, 1), 0.0)
    offset = best[0] + np.clip(shift, -1, 1)
    drift: Reals = np.ptp(offset, axis=1) * print_.HOP_SECONDS
    return drift
