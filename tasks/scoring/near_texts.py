"""Groups equal and near-equal texts of a corpus: one rule for limits and for splits.

Texts are compared in their `normalised` form. Two are near-equal if they share NEAR of their pairs
of neighbouring words (Jaccard; of characters, if a script has no spaces): one word in eleven may
differ. Texts of fewer than FEWEST_PAIRS pairs must be equal. A text that is near-equal to any text
of a group belongs to that group.

MinHash (Broder 1997) in BANDS bands of ROWS values proposes pairs of texts, which are then counted
exactly: it proposes 98.8 % of those that share 70 %, and all but one in 4,000 of those that share
80 %. Most proposals for texts of few distinct words are not near-equal: 64 marks of each text's
pairs reject nearly all of these without looking texts up. Nothing depends on the order of texts.
Beyond `memory`, tables lie in temporary files. A million texts take 15 CPU s.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..base.arrays import Bools, Int32s, Int64s, UInt64s
from ..storage import queries
from ._plain import UNSPACED

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NEAR = Fraction(7, 10)
FEWEST_PAIRS = 8  # including the edges of the text: seven words
BANDS, ROWS = 16, 4
WHOLE = 16  # texts sharing a band: up to this many are all compared pairwise
AT_ONCE = 1 << 14  # texts

_EDGE = np.uint64(0x9E3779B97F4A7C15)
_SPACED = f"([{UNSPACED}])"
_BITS = 46  # of a pair's hash; the bits above hold an index below 2^17
_MASK = (1 << _BITS) - 1


def groups(
    texts: Iterable[pa.Array | pa.ChunkedArray],
    memory: str = queries.MEMORY,
    scratch: Path | None = None,
    near: bool = True,
) -> Int64s:
    """The number of each text's group, from 0; -1 for a null or empty one. `texts`: in chunks;
    `near`: near-equal ones share a group."""
    rows = 0
    with queries.tables(memory, scratch) as database:
        database.execute("CREATE TABLE rows (row BIGINT, text VARCHAR)")
        for some in texts:
            row = np.arange(rows, rows + len(some))
            queries.add(database, "rows", pa.table({"row": row, "text": some}))
            rows += len(some)
        database.execute("DELETE FROM rows WHERE text IS NULL OR text = ''")
        database.execute(
            "CREATE TABLE texts AS SELECT text, row_number() OVER (ORDER BY text) - 1 AS number "
            "FROM (SELECT DISTINCT text FROM rows)"
        )
        count = queries.column(database, "SELECT count(*) FROM texts")[0]
        group = np.arange(count)
        if near and count:
            marks, sizes = np.zeros(count, np.uint64), np.zeros(count, np.int32)
            with tempfile.TemporaryFile(dir=scratch) as file:
                sketches = np.memmap(file, np.uint64, "w+", shape=(BANDS, int(count)))
                for first in range(0, count, AT_ONCE):
                    _sketch(database, sketches, first, marks, sizes)
                group = _joined(database, sketches, group, marks, sizes)
        answer = np.full(rows, -1, np.int64)
        numbered = database.sql("SELECT row, number FROM rows JOIN texts USING (text)")
        for some in numbered.to_arrow_reader(AT_ONCE):
            answer[some["row"].to_numpy()] = group[some["number"].to_numpy()]
    return answer


def _sketch(
    database: DuckDBPyConnection,
    sketches: NDArray[np.uint64],
    first: int,
    marks: UInt64s,
    sizes: Int32s,
) -> None:
    """Write to `sketches`, uint64 [BANDS, texts], the bands of the long texts from `first` on. Sets
    their `sizes`, the number of distinct pairs, and `marks`, a bit for each pair by its hash."""
    some = database.sql(
        "SELECT number, text FROM texts "
        f"WHERE number BETWEEN {first} AND {first + AT_ONCE - 1} ORDER BY number"
    ).to_arrow_table()
    text, pair = word_pairs(some["text"].combine_chunks())
    count = np.bincount(distinct(text, pair) >> _BITS, minlength=len(some))
    long = count >= FEWEST_PAIRS
    text, pair = text[long[text]], pair[long[text]]
    if not len(text):
        return
    starts = np.flatnonzero(np.diff(text, prepend=-1))
    local = text[starts]
    sizes[local + first] = count[local]
    bits = np.uint64(1) << (pair >> np.uint64(58))
    marks[local + first] = np.bitwise_or.reduceat(bits, starts)
    sketches[:, local + first] = bands(text, pair, *_HASHING).T


def hashing(seed: int, count: int) -> NDArray[np.uint64]:
    """An odd factor and a mask for each value of `count` bands; uint64 [2, count, ROWS]."""
    factors, masks = np.random.default_rng(seed).integers(0, 1 << 63, (2, count, ROWS), np.uint64)
    return np.stack([factors | np.uint64(1), masks])


_HASHING = hashing(0, BANDS)


def bands(
    text: Int64s, pair: UInt64s, factors: NDArray[np.uint64], masks: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """The bands of texts, from their pairs (`word_pairs`); uint64 [texts, bands]."""
    starts = np.flatnonzero(np.diff(text, prepend=-1))
    keys = np.empty((len(starts), len(factors)), np.uint64)
    hashes = np.empty_like(pair)
    for number in range(len(factors) if len(starts) else 0):
        key = np.full(len(starts), number, np.uint64)
        for factor, mask in zip(factors[number], masks[number], strict=True):
            np.bitwise_xor(pair, mask, out=hashes)
            np.multiply(hashes, factor, out=hashes)
            key = mixed(key * _EDGE + np.minimum.reduceat(hashes, starts))
        keys[:, number] = key
    return keys


def word_pairs(texts: pa.Array) -> tuple[Int64s, UInt64s]:
    """(index of the text, hash) of each pair of neighbouring words, edges included, in the order of
    texts."""
    if not pc.all(pc.string_is_ascii(texts)).as_py():  # the search takes longer than all else
        texts = pc.replace_substring_regex(texts, _SPACED, r" \1 ")
    words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(texts))
    coded = words.values.dictionary_encode()
    data = b"".join(
        hashlib.blake2b((word or "").encode(), digest_size=8).digest()
        for word in coded.dictionary.to_pylist()
    )
    word = np.frombuffer(data, "<u8").astype(np.uint64)[coded.indices.to_numpy()]
    sizes = np.diff(words.offsets.to_numpy())
    left, right = np.insert(word, words.offsets[:-1], _EDGE), np.insert(word, words.offsets[1:], 0)
    return np.repeat(np.arange(len(texts)), sizes + 1), mixed(left * np.uint64(3) + mixed(right))


def distinct(text: Int64s, pair: UInt64s) -> Int64s:
    """The distinct pairs of each text, sorted: the index of the text above _BITS bits of the pair's
    hash."""
    codes = np.sort(text << _BITS | (pair >> np.uint64(64 - _BITS)).astype(np.int64))
    fresh: Int64s = codes[np.diff(codes, prepend=-1) != 0]
    return fresh


def mixed(values: UInt64s) -> UInt64s:
    """SplitMix64's finaliser: each bit depends on all."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _joined(
    database: DuckDBPyConnection,
    sketches: NDArray[np.uint64],
    group: Int64s,
    marks: UInt64s,
    sizes: Int32s,
) -> Int64s:
    """The groups from 0, with those of near-equal texts as one; `group`: of each text."""
    pairs = np.zeros((2, 0), np.int32)  # not yet compared
    numbers = np.flatnonzero(sizes).astype(np.int32)  # of long texts
    if not len(numbers):
        return group
    for band in sketches:
        for more in _proposed(numbers, band[numbers]):
            more = _apart(group, more)
            more = np.compress(_may_be_near(marks[more], sizes[more]), more, axis=1)
            pairs = np.concatenate([pairs, more], axis=1)
            while pairs.shape[1] >= AT_ONCE:
                group = _compared(database, group, pairs[:, :AT_ONCE])
                pairs = _apart(group, pairs[:, AT_ONCE:])
    group = _compared(database, group, pairs)
    joined: Int64s = np.unique(group, return_inverse=True)[1]
    return joined


def _apart(group: Int64s, pairs: Int32s) -> Int32s:
    """The pairs that are not known to belong together."""
    some: Int32s = np.compress(group[pairs[0]] != group[pairs[1]], pairs, axis=1)
    return some


def _may_be_near(marks: UInt64s, sizes: Int32s) -> Bools:
    """False for pairs of texts that differ too much; `marks` and `sizes` are [2, pairs]. A mark of
    only one text is of a pair of words that the other lacks."""
    lacking = np.bitwise_count(marks[0] ^ marks[1]).astype(np.int32)
    lacking = np.maximum(lacking, np.abs(sizes[0] - sizes[1]))
    share, whole = NEAR.numerator, NEAR.denominator
    few: Bools = (whole + share) * lacking <= (whole - share) * (sizes[0] + sizes[1])
    return few


def _proposed(number: Int32s, value: UInt64s) -> Iterator[Int32s]:
    """The numbers of texts that have a value in common, int32 [2, pairs], some at a time: each with
    the first of its value, then with the one before it, which mostly are one text; then the others
    of up to WHOLE texts."""
    order = np.argsort(value, kind="stable")
    number, value = number[order], value[order]
    starts = np.flatnonzero(np.diff(value, prepend=~value[:1]) != 0)
    sizes = np.diff(starts, append=len(number)).astype(np.int32)
    first, size = np.repeat(number[starts], sizes), np.repeat(sizes, sizes)
    del order, value, starts, sizes  # as much memory as the pairs
    shared = size > 1
    number, first, size = number[shared], first[shared], size[shared]
    yield np.stack([first, number])
    for gap in range(1, WHOLE):
        few = (size > gap) & (size <= (WHOLE if gap > 1 else len(size)))
        number, first, size = number[few], first[few], size[few]
        same = first[gap:] == first[:-gap]
        yield np.stack([number[:-gap][same], number[gap:][same]])


def _compared(database: DuckDBPyConnection, group: Int64s, pairs: Int32s) -> Int64s:
    """The groups after comparing these pairs of texts; a joined one gets the least number."""
    one, other = np.unique(pairs.astype(np.int64), axis=1)
    near = _near(database, one, other)
    groups, index = np.unique(group[np.stack([one[near], other[near]])], return_inverse=True)
    if not len(groups):
        return group
    from scipy.sparse import coo_array  # takes 0.2 CPU s to import; most corpora have no such texts
    from scipy.sparse.csgraph import connected_components

    edges = tuple(index.reshape(2, -1))
    graph = coo_array((np.ones(len(edges[0]), np.int8), edges), (len(groups), len(groups)))
    _, part = connected_components(graph, directed=False)
    least = np.full(int(part.max()) + 1, len(group))
    np.minimum.at(least, part, groups)
    renamed = np.arange(len(group))
    renamed[groups] = least[part]
    merged: Int64s = renamed[group]
    return merged


def _near(database: DuckDBPyConnection, one: Int64s, other: Int64s) -> Bools:
    """Which of these pairs of texts, by number, are near-equal."""
    numbers, index = np.unique(np.concatenate([one, other]), return_inverse=True)
    wanted = pa.table({"number": numbers})
    sql = "SELECT text FROM given JOIN texts USING (number) ORDER BY number"
    texts = queries.joined(database, wanted, sql)["text"].combine_chunks()
    codes = distinct(*word_pairs(texts))
    sizes = np.bincount(codes >> _BITS, minlength=len(numbers))
    starts = np.cumsum(sizes) - sizes
    text = index.reshape(2, len(one))
    pair_of = np.arange(len(one)) << _BITS
    both = [_spread(pair_of, codes & _MASK, starts[side], sizes[side]) for side in text]
    together = np.sort(np.concatenate(both))
    twice = together[1:][together[1:] == together[:-1]] >> _BITS
    in_both = np.bincount(twice, minlength=len(one))
    in_any = sizes[text[0]] + sizes[text[1]] - in_both
    near: Bools = NEAR.denominator * in_both >= NEAR.numerator * in_any
    return near


def _spread(base: Int64s, values: Int64s, starts: Int64s, sizes: Int64s) -> Int64s:
    """`base` of each row combined with each of its values, which lie from `starts` on."""
    ends = np.cumsum(sizes)
    places = np.repeat(starts - ends + sizes, sizes) + np.arange(ends[-1] if len(ends) else 0)
    spread: Int64s = np.repeat(base, sizes) | values[places]
    return spread
