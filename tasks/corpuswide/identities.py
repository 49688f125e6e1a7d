"""One speaker over all recordings: voices of recordings, linked over the corpus and named.

Voices (`voices.py`) are linked by average linkage (`tasks.speech.linkage`), those of the newest
version first: a speaker who was published stays together, new voices join it or each other, and two
published speakers become one where they are nearer than the threshold by then. With another
threshold or diarizer, and on `package.refit`, everybody is linked anew.

A name is `spk_` and a hash of the voice that speaks longest when the speaker is first seen. A group
that holds published voices keeps their name, of several that of the longest; one that fell apart
keeps it where most of it is. Voices whose recordings are gone stay in the table, so that names come
back with them. Equal recordings have the same voices. Nothing depends on the order of voices.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.corpuswide.voices import VOICES
from tasks.recording import ids
from tasks.schema import SPEAKERS
from tasks.speech.embedding import SIZE
from tasks.speech.linkage import linked

FILE = "speakers.parquet"
ENOUGH_S = 30.0  # of speech: more of it makes an embedding no better
IN_MEMORY = 200_000  # voices whose embeddings are held; those of more lie in a file
HASHED = 1 << 16  # keys that are Python's at once
HOW = b"linked"  # key of the table's metadata: threshold and recipe of the diarizer

Ints = NDArray[np.int64]
Parts = Callable[[], Iterable[pa.Table]]  # VOICES


class Known(NamedTuple):
    """Voices in order, each once, and what is known of them."""

    keys: pa.Array  # content and number, of rows
    first: Ints  # a row of each voice
    seconds: NDArray[np.float64]
    old: Ints  # index of the name that was published; -1: none
    names: list[str]  # those names


def link(parts: Parts, before: pa.Table, least: float, recipe: str, refit: bool) -> pa.Table:
    """The voices of all parts with their speakers (SPEAKERS), and those of `before`, the newest
    version's table, that are not there now. `least`: mean cosine of voices of one speaker."""
    how = json.dumps([least, recipe]).encode()
    every = pa.concat_tables(
        [
            VOICES.empty_table().drop_columns(["vector"]),
            *(p.drop_columns(["vector"]) for p in parts()),
        ]
    )
    keys = _keys(every)
    first, number = _in_order(keys)
    seconds = every["seconds"].to_numpy()[first]
    at = pc.index_in(keys.take(first), _keys(before)).fill_null(-1).to_numpy().astype(np.int64)
    coded = before["speaker"].combine_chunks().dictionary_encode()
    old = np.r_[coded.indices.to_numpy(zero_copy_only=False), -1][at].astype(np.int64)
    known = Known(keys, first, seconds, old, coded.dictionary.to_pylist())
    stays = not refit and (before.schema.metadata or {}).get(HOW) == how
    group = _grouped(parts, known, number, first, least, stays)
    gone = before.filter(pc.invert(pc.is_in(_keys(before), known.keys)))
    taken = set(gone["speaker"].to_pylist())
    names, renamed = _named(known, group, taken)
    told = pa.DictionaryArray.from_arrays(pa.array(group[number].astype(np.int32)), pa.array(names))
    now = every.append_column("speaker", told.cast(pa.string()))
    left = [renamed.get(name, name) for name in gone["speaker"].to_pylist()]
    gone = gone.set_column(
        gone.column_names.index("speaker"), "speaker", pa.array(left, pa.string())
    )
    whole = pa.concat_tables([now.select(SPEAKERS.names).cast(SPEAKERS), gone.cast(SPEAKERS)])
    order = pc.sort_indices(whole, [("recording", "ascending"), ("number", "ascending")])
    return whole.take(order).combine_chunks().replace_schema_metadata({HOW: how})


def _keys(table: pa.Table) -> pa.Array:
    joined = pc.binary_join_element_wise(
        table["content"], pc.cast(table["number"], pa.string()), "#"
    )
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _in_order(keys: pa.Array) -> tuple[Ints, Ints]:
    """A row of each voice, the voices in the order of a hash; and of each row its voice."""
    coded = keys.dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    hashes = np.empty(len(coded.dictionary), "S16")
    for at in range(0, len(hashes), HASHED):
        some = coded.dictionary.slice(at, HASHED).to_pylist()
        hashes[at : at + HASHED] = [hashlib.sha256(key.encode()).digest()[:16] for key in some]
    order = np.argsort(hashes, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    first = np.empty(len(order), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return first[order], rank[codes]


def _grouped(
    parts: Parts, known: Known, number: Ints, first: Ints, least: float, stays: bool
) -> Ints:
    """The group of each voice, numbered. `stays`: published speakers stay together."""
    old = known.old if stays else np.full(len(known.old), -1)
    names, incumbent = np.unique(old[old >= 0], return_inverse=True)
    place = np.empty(len(old), np.int64)  # where its embedding counts
    place[old >= 0] = incumbent
    place[old < 0] = len(names) + np.arange(int((old < 0).sum()))
    weight = np.minimum(known.seconds, ENOUGH_S)
    count = len(names) + int((old < 0).sum())
    whole = np.bincount(place, weight, count).astype(np.float64)
    with tempfile.TemporaryFile() as file:
        means = (
            np.zeros((count, SIZE), np.float32)
            if count <= IN_MEMORY
            else np.memmap(file, np.float32, "w+", shape=(count, SIZE))
        )
        at = 0
        for part in parts():
            rows = np.arange(at, at + part.num_rows)
            mine = first[number[rows]] == rows  # not another copy's
            voices = number[rows[mine]]
            data = np.frombuffer(b"".join(part["vector"].to_pylist()), "<f2").reshape(-1, SIZE)
            share = (weight[voices] / whole[place[voices]]).astype(np.float32)
            np.add.at(means, place[voices], data[mine] * share[:, None])
            at += part.num_rows
        into = linked(means, whole, least, len(names))
    return np.unique(into[place], return_inverse=True)[1].astype(np.int64)


def _named(known: Known, group: Ints, taken: set[str]) -> tuple[list[str], dict[str, str]]:
    """The name of each group, and what published names became. `taken`: names of voices
    that are not there now."""
    count = int(group.max(initial=-1)) + 1
    has = known.old >= 0
    pairs, at = np.unique(np.stack([group[has], known.old[has]]), axis=1, return_inverse=True)
    seconds = np.bincount(at.reshape(-1), known.seconds[has], pairs.shape[1])
    old_names = [known.names[n] for n in pairs[1].tolist()]
    ranked = sorted(zip((-seconds).tolist(), old_names, pairs[0].tolist(), strict=True))
    names: dict[int, str] = {}
    renamed: dict[str, int] = {}
    for _, name, own in ranked:
        if name not in renamed:  # where most of it is
            renamed[name] = own
            names.setdefault(own, name)
    taken = (taken - renamed.keys()) | set(names.values())
    order = np.lexsort((np.arange(len(group)), -known.seconds, group))
    longest = order[np.r_[True, np.diff(group[order]) != 0]] if len(order) else order
    for member in longest.tolist():  # of each group
        own = int(group[member])
        if own not in names:
            names[own] = _fresh(known.keys[int(known.first[member])].as_py(), taken)
            taken.add(names[own])
    return [names[own] for own in range(count)], {
        old: names[own] for old, own in renamed.items() if own < count
    }


def _fresh(key: str, taken: set[str]) -> str:
    number = 0
    while True:
        text = f"{key}:{number}" if number else key
        name = ids.speaker_over_all(hashlib.sha256(text.encode()).hexdigest())
        if name not in taken:
            return name
        number += 1
