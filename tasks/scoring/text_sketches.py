"""Sketches of texts: enough to find near-equal ones, and no text can be read from them.

A sketch is a hash of the whole text, for equal texts, and for longer ones BANDS hashes, each of
ROWS minima over hashes of all pairs of neighbouring words (MinHash, as in `near_texts`). Who
already guesses a text can confirm it; nothing else comes out.

Two texts that share a part J of their pairs have J⁴ of their bands in common, about. LEAST of 64
finds 99.7 % of those that share 0.75, 98 % at 0.7 (one word in eleven differs), and takes 9 % at
0.55 and 0.7 % at 0.5.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..base.arrays import Bools, Int64s, UInt64s
from ..storage import sorted_keys
from .near_texts import AT_ONCE, FEWEST_PAIRS, bands, distinct, hashing, word_pairs
from .near_texts import ROWS as ROWS

BANDS = 64
LEAST = 10  # bands in common from which on two texts count as near-equal
SEARCHED = 16  # bands by which pairs are proposed: 99 % of those that share 0.7
_BITS = 46  # as in `near_texts.distinct`
_HASHING = hashing(62, BANDS)


class Sketches(NamedTuple):
    """Sketches of some normalised texts, in their order."""

    words: Int64s  # number of words; characters of scripts without spaces
    high: UInt64s  # of the hash of the whole text
    low: UInt64s
    long: Bools  # whether there are bands: texts of a few words must be equal
    bands: NDArray[np.uint64]  # [texts, BANDS]; 0 where `long` is false


class Met(NamedTuple):
    """For each text, the most similar known one."""

    item: Int64s  # -1: none is near-equal
    share: NDArray[np.float64]  # of the pairs of words that both have, about; 1: equal


def sketched(texts: pa.Array) -> Sketches:
    """The sketches of normalised texts (strings without nulls)."""
    some = (texts.slice(first, AT_ONCE) for first in range(0, max(len(texts), 1), AT_ONCE))
    return Sketches(*map(np.concatenate, zip(*map(_sketched, some), strict=True)))


def _sketched(texts: pa.Array) -> Sketches:
    text, pair = word_pairs(texts)
    words = np.bincount(text, minlength=len(texts)) - 1
    hashes = sorted_keys.hashes(texts.to_pylist())
    high, low = hashes.T.copy() if len(texts) else np.zeros((2, 0), np.uint64)
    long = np.bincount(distinct(text, pair) >> _BITS, minlength=len(texts)) >= FEWEST_PAIRS
    keys = np.zeros((len(texts), BANDS), np.uint64)
    keys[long] = bands(text[long[text]], pair[long[text]], *_HASHING)
    return Sketches(words, high, low, long, keys)


class Known:
    """Sketches of known texts, to be looked up."""

    def __init__(self, sketches: Sketches) -> None:
        self._bands = sketches.bands
        self._equal = np.lexsort((sketches.low, sketches.high))
        self._high, self._low = sketches.high[self._equal], sketches.low[self._equal]
        long = np.flatnonzero(sketches.long)
        self._orders = [long[np.argsort(self._bands[long, n])] for n in range(SEARCHED)]

    def meet(self, texts: pa.Array) -> Met:
        """The known text that each of these normalised texts (null: none) meets."""
        some = (texts.slice(first, AT_ONCE) for first in range(0, max(len(texts), 1), AT_ONCE))
        return Met(*map(np.concatenate, zip(*map(self._meet, some), strict=True)))

    def _meet(self, texts: pa.Array) -> Met:
        given = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        index, share = np.full(len(texts), -1, np.int64), np.zeros(len(texts))
        hashes = sorted_keys.hashes(texts.drop_null().to_pylist())
        if len(given):
            high, low = hashes.T.copy()
            place = sorted_keys.places_of(high, low, self._high, self._low)
            index[given[place >= 0]] = self._equal[place[place >= 0]]
            share[index >= 0] = 1.0
        self._near(texts, np.flatnonzero(index < 0), index, share)
        return Met(index, share)

    def _near(
        self, texts: pa.Array, which: Int64s, index: Int64s, share: NDArray[np.float64]
    ) -> None:
        """Fill in the known texts that these ones are near-equal to."""
        which = which[texts.take(which).is_valid().to_numpy(zero_copy_only=False)]
        if not len(which) or not len(self._orders[0]):
            return
        text, pair = word_pairs(texts.take(which))
        long = np.bincount(distinct(text, pair) >> _BITS, minlength=len(which)) >= FEWEST_PAIRS
        text, pair = text[long[text]], pair[long[text]]
        searched = bands(text, pair, *_HASHING[:, :SEARCHED])
        one, other = self._proposed(np.flatnonzero(long), searched)
        if not len(one):
            return
        proposed, place = np.unique(one, return_inverse=True)
        some = np.isin(text, proposed)
        equal = bands(text[some], pair[some], *_HASHING)[place] == self._bands[other]
        count = equal.sum(axis=1)
        best = np.lexsort((other, -count, one))
        best = best[np.diff(one[best], prepend=-1) != 0]
        best = best[count[best] >= LEAST]
        rows = which[one[best]]
        index[rows], share[rows] = other[best], (count[best] / BANDS) ** (1 / ROWS)

    def _proposed(self, texts: Int64s, bands: NDArray[np.uint64]) -> tuple[Int64s, Int64s]:
        """(one of `texts`, known text) of all pairs that share one of the first bands."""
        pairs = [np.zeros((2, 0), np.int64)]
        for number, order in enumerate(self._orders):
            ordered = self._bands[order, number]
            low = np.searchsorted(ordered, bands[:, number])
            count = np.searchsorted(ordered, bands[:, number], "right") - low
            first = np.repeat(low - np.cumsum(count) + count, count)
            places = first + np.arange(int(count.sum()))
            pairs.append(np.stack([np.repeat(texts, count), order[places]]))
        one, other = np.unique(np.concatenate(pairs, axis=1), axis=1)
        return one, other
