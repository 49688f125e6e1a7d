"""A version's words as numbers, so that the words and characters of any selection are counted
without reading the texts again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flows.explore.selection import Places, page
from tasks.base.arrays import Int32s, Int64s
from tasks.base.json_types import JsonObject

MOST = 500  # rows of an answer


@dataclass(frozen=True)
class Vocabulary:
    """`ids`: each word of each text, in the order of items, int32 [words of all], in a file.
    `ends`: where an item's words end in it, int64 [items]. `words`: the different ones, sorted, and
    `number`: their numbers among `ids`."""

    ids: Int32s
    ends: Int64s
    words: pa.Array
    number: Int64s

    def counted(self, members: Places, what: str, rare: bool) -> JsonObject:
        """The most frequent words or characters of some items, or the rarest; how many there are
        in all (`whole`), how many different (`kinds`), and how many only once (`once`)."""
        counts = self._counts(members)
        if what == "characters":
            counts = self._characters(counts)
        occurring = np.flatnonzero(counts).astype(np.int32)
        name = chr if what == "characters" else lambda at: self.words[at].as_py()
        chosen = page(occurring, counts.astype(np.float64), not rare, 0, MOST)
        return {
            "what": what,
            "whole": int(counts.sum()),
            "kinds": len(occurring),
            "once": int(np.count_nonzero(counts == 1)),
            "rows": [{"name": name(int(at)), "count": int(counts[at])} for at in chosen],
        }

    def _counts(self, members: Places) -> Int64s:
        if len(members) == len(self.ends):
            ids = self.ids
        else:
            chosen = np.zeros(len(self.ends), bool)
            chosen[members] = True
            ids = self.ids[np.repeat(chosen, np.diff(self.ends, prepend=0))]
        return np.bincount(ids, minlength=len(self.words))[self.number]

    def _characters(self, counts: Int64s) -> Int64s:
        """Counts of characters, by code point; `counts`: how often each word occurs."""
        units, lengths = self._spelled
        weights = np.repeat(counts, lengths).astype(np.float64)  # exact up to 2^53
        return np.bincount(units, weights).astype(np.int64)

    @cached_property
    def _spelled(self) -> tuple[NDArray[np.uint32], Int64s]:
        """Code points of all words, and how many each has."""
        units = np.frombuffer("".join(self.words.to_pylist()).encode("utf-32-le"), np.uint32)
        return units, np.asarray(pc.utf8_length(self.words)).astype(np.int64)


def build(batches: Iterable[pa.Array], path: Path) -> Vocabulary:
    """The vocabulary of texts, given in batches in the order of items; the numbers are written to
    the file `path`. Words are separated by spaces."""
    known: dict[str, int] = {}
    sizes: list[Int64s] = []
    with path.open("wb") as file:
        for texts in batches:
            parts = pc.split_pattern(pc.fill_null(texts, ""), " ")
            parents, flat = pc.list_parent_indices(parts), pc.list_flatten(parts)
            full = pc.not_equal(flat, "")
            coded = flat.filter(full).dictionary_encode()
            numbers = [known.setdefault(word, len(known)) for word in coded.dictionary.to_pylist()]
            ids = np.array(numbers, np.int32)[np.asarray(coded.indices)]
            file.write(ids.tobytes())
            sizes.append(np.bincount(np.asarray(parents.filter(full)), minlength=len(texts)))
    words = pa.array(list(known), pa.string())
    number = pc.sort_indices(words)
    return Vocabulary(
        np.memmap(path, np.int32, "r") if known else np.zeros(0, np.int32),
        np.cumsum(np.concatenate(sizes), dtype=np.int64) if sizes else np.zeros(0, np.int64),
        words.take(number),
        np.asarray(number).astype(np.int64),
    )
