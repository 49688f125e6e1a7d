"""Which texts of a corpus are equal, or nearly so: the one rule, for limits and for splits.

Texts are compared as `normalised` has them. Two are near-equal if they share NEAR of their pairs of
neighbouring words (Jaccard; of characters, where a script has no spaces): one word in eleven may
differ. Texts of fewer than FEWEST_PAIRS pairs are so only if they are equal. What is near-equal to
a text of a group belongs to that group.

Pairs of texts are proposed by MinHash (Broder 1997) in BANDS bands of ROWS values, and counted
exactly: of those that share 70 % it proposes 98.8 %, of those that share 80 % all but one in 4,000.
Nothing depends on the order of texts. Beyond `memory`, tables lie in temporary files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.arrays import Int64s, UInt64s
from tasks.scoring._plain import UNSPACED
from tasks.storage import queries

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NEAR = 0.7
FEWEST_PAIRS = 8  # with the edges of the text: of seven words
BANDS, ROWS = 16, 4
WHOLE = 16  # texts that share a band: up to so many are all compared with each other
AT_ONCE = 1 << 14  # texts

#: An odd factor and a mask for each value of a sketch.
_FACTORS, _MASKS = np.random.default_rng(0).integers(0, 1 << 63, (2, BANDS * ROWS), np.uint64)
_FACTORS |= np.uint64(1)
_EDGE = np.uint64(0x9E3779B97F4A7C15)
_SPACED = f"([{UNSPACED}])"


def groups(
    texts: Iterable[pa.Array | pa.ChunkedArray],
    memory: str = queries.MEMORY,
    scratch: Path | None = None,
    near: bool = True,
) -> Int64s:
    """The number of each text's group, from 0; -1 for a null or empty one. `texts` come some at a
    time; `near`: near-equal ones share a group."""
    with queries.tables(memory, scratch) as database:
        rows = _store(database, texts)
        count = queries.column(database, "SELECT count(*) FROM texts")[0]
        group = np.arange(count)
        if near and count:
            for first in range(0, count, AT_ONCE):
                _sketch(database, first)
            group = _connected(_near_pairs(database), count)
        numbered = database.execute(
            "SELECT row, number FROM rows JOIN texts USING (text)"
        ).fetchnumpy()
    answer = np.full(rows, -1, np.int64)
    answer[np.asarray(numbered["row"])] = group[np.asarray(numbered["number"])]
    return answer


def _store(database: DuckDBPyConnection, texts: Iterable[pa.Array | pa.ChunkedArray]) -> int:
    """Makes `rows`, and `texts` with each different one and its number; returns how many rows."""
    database.execute("CREATE TABLE rows (row BIGINT, text VARCHAR)")
    first = 0
    for some in texts:
        row = np.arange(first, first + len(some))
        queries.add(database, "rows", pa.table({"row": row, "text": some}))
        first += len(some)
    database.execute("DELETE FROM rows WHERE text IS NULL OR text = ''")
    database.execute(
        "CREATE TABLE texts AS SELECT text, row_number() OVER (ORDER BY text) - 1 AS number "
        "FROM (SELECT DISTINCT text FROM rows)"
    )
    database.execute("CREATE TABLE pairs (number BIGINT, pair UBIGINT)")
    database.execute("CREATE TABLE bands (number BIGINT, band UBIGINT)")
    return first


def _sketch(database: DuckDBPyConnection, first: int) -> None:
    """Adds the pairs of words, and the bands, of the texts from `first` on."""
    some = database.sql(
        "SELECT number, text FROM texts "
        f"WHERE number BETWEEN {first} AND {first + AT_ONCE - 1} ORDER BY number"
    ).to_arrow_table()
    text, pair = word_pairs(some["text"].combine_chunks())
    counts = np.bincount(text, minlength=len(some))
    long = counts[text] >= FEWEST_PAIRS
    text, pair = text[long], pair[long]
    if not len(text):
        return
    queries.add(database, "pairs", pa.table({"number": text + first, "pair": pair}))
    starts = np.flatnonzero(np.diff(text, prepend=-1))
    of_text = text[starts] + first
    for band in range(BANDS):
        key = np.full(len(starts), band, np.uint64)
        for row in range(band * ROWS, (band + 1) * ROWS):
            least = np.minimum.reduceat((pair ^ _MASKS[row]) * _FACTORS[row], starts)
            key = _mixed(key * _EDGE + least)
        queries.add(database, "bands", pa.table({"number": of_text, "band": key}))


def word_pairs(texts: pa.Array) -> tuple[Int64s, UInt64s]:
    """(index of the text, hash) of each different pair of neighbouring words, edges included, in
    the order of texts."""
    spaced = pc.replace_substring_regex(texts, _SPACED, r" \1 ")
    words = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(spaced))
    coded = words.values.dictionary_encode()
    data = b"".join(
        hashlib.blake2b((word or "").encode(), digest_size=8).digest()
        for word in coded.dictionary.to_pylist()
    )
    word = np.frombuffer(data, "<u8").astype(np.uint64)[coded.indices.to_numpy()]
    sizes = np.diff(words.offsets.to_numpy())
    left, right = np.insert(word, words.offsets[:-1], _EDGE), np.insert(word, words.offsets[1:], 0)
    text = np.repeat(np.arange(len(texts)), sizes + 1)
    pair = _mixed(left * np.uint64(3) + _mixed(right))
    order = np.lexsort((pair, text))
    text, pair = text[order], pair[order]
    fresh = (np.diff(text, prepend=-1) != 0) | (np.diff(pair, prepend=pair[:1]) != 0)
    return text[fresh], pair[fresh]


def _mixed(values: UInt64s) -> UInt64s:
    """SplitMix64's finish: each bit depends on all."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _near_pairs(database: DuckDBPyConnection) -> tuple[Int64s, Int64s]:
    """The two numbers of each pair of near-equal texts. Of many texts that share a band, each is
    compared with the first and the one before it: they mostly are one text."""
    database.execute(
        "CREATE TABLE shared AS SELECT number, band, count(*) OVER (PARTITION BY band) AS texts "
        "FROM bands WHERE band IN (SELECT band FROM bands GROUP BY band HAVING count(*) > 1)"
    )
    proposed = (
        "SELECT DISTINCT a, b FROM ("
        "SELECT x.number AS a, y.number AS b FROM shared x JOIN shared y USING (band) "
        f"WHERE x.texts <= {WHOLE} AND x.number < y.number UNION ALL "
        "SELECT unnest([min(number) OVER w, lag(number) OVER w]) AS a, number AS b FROM shared "
        f"WHERE texts > {WHOLE} WINDOW w AS (PARTITION BY band ORDER BY number)) WHERE a < b"
    )
    columns = database.execute(
        "WITH sizes AS (SELECT number, count(*) AS size FROM pairs GROUP BY number), "
        f"common AS (SELECT a, b, count(*) AS in_both FROM ({proposed}) "
        "JOIN pairs x ON x.number = a JOIN pairs y ON y.number = b AND y.pair = x.pair "
        "GROUP BY a, b) SELECT a, b FROM common JOIN sizes m ON m.number = a "
        f"JOIN sizes n ON n.number = b WHERE in_both >= {NEAR} * (m.size + n.size - in_both)"
    ).fetchnumpy()
    return np.asarray(columns["a"], np.int64), np.asarray(columns["b"], np.int64)


def _connected(pairs: tuple[Int64s, Int64s], count: int) -> Int64s:
    """The group of each of `count` texts."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs[0]), np.int8), pairs), (count, count))
    group: Int64s = connected_components(graph, directed=False)[1].astype(np.int64)
    return group
