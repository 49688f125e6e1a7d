"""Speakers over all recordings: links the voices of recordings over the corpus and names them.

Voices (`voices.py`) are linked by average linkage (`tasks.speech.linkage`), those of the newest
version first: a published speaker stays together, new voices join it or each other, and two
published speakers merge if they have come nearer than the threshold. With another threshold or
diarizer, and on `package.refit`, all voices are linked again.

A name is `spk_` and a hash of the voice that speaks longest when the speaker is first seen. A group
with published voices keeps their name; if they have several names, that of the longest. If a
speaker was split, the largest part keeps the name. Voices whose recordings are gone stay in the
table, so that they get their names back when they return. Equal recordings have the same voices.
Nothing depends on the order of voices.

Some 60 bytes of each voice are in memory; embeddings and names of recordings lie in temporary
files.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np
import pyarrow as pa

from tasks.base.arrays import Bools, Float32s, Float64s, Int32s, UInt64s
from tasks.base.schema import SPEAKERS
from tasks.corpus.speaker_names import KnownVoices, VoiceTables, keys, named
from tasks.corpus.voices import BYTES
from tasks.speech.embedding import SIZE
from tasks.speech.linkage import linked
from tasks.storage import long_columns, sorted_keys
from tasks.storage.sorted_keys import Sorted

FILE = "speakers.parquet"
ENOUGH_S = 30.0  # of speech: more of it makes an embedding no better
HOW = b"linked"  # key of the table's metadata: threshold and recipe of the diarizer
SAMPLED = np.uint64(1023)  # one in 1024 voices shows how names are distributed


class Before(NamedTuple):
    """Facts from the newest version's table."""

    old: Int32s  # as in `KnownVoices`
    names: list[str]
    gone: Bools  # of each row: its voice is not there now
    how: bytes | None


def link(
    parts: VoiceTables, before: VoiceTables, least: float, recipe: str, refit: bool
) -> Iterator[pa.Table]:
    """Tables (SPEAKERS), sorted by recording and number: the voices of all parts with their
    speakers, and the voices of `before` (the newest version's table) whose recordings are gone.
    `least`: mean cosine of voices of one speaker."""
    how = json.dumps([least, recipe]).encode()
    hashes, number, first, seconds, sample = _voices(parts)
    earlier = _before(before, hashes)
    known_voices = KnownVoices(hashes[0], number, first, seconds, earlier.old, earlier.names)
    del hashes  # the second half is not needed any more
    group = _grouped(parts, known_voices, least, not refit and earlier.how == how)
    taken = {name for part in _gone(before, earlier.gone) for name in part["speaker"].to_pylist()}
    names, renamed = named(parts, known_voices, group, taken)
    group = group[number]
    del known_voices, first, seconds, number
    called = pa.array(names, pa.string())
    schema = SPEAKERS.with_metadata({HOW: how})
    ranges = sorted_keys.bounds(sample, len(group))
    with Sorted(schema, ("recording", "number"), ranges, sorted_keys.AT_ONCE) as rows:
        begin = 0
        for part in parts():
            group_numbers = pa.array(group[begin : begin + part.num_rows])
            rows.add(part.append_column("speaker", called.take(group_numbers)))
            begin += part.num_rows
        for part in _gone(before, earlier.gone):
            gone_names = [renamed.get(name, name) for name in part["speaker"].to_pylist()]
            place = part.column_names.index("speaker")
            rows.add(part.set_column(place, "speaker", pa.array(gone_names, pa.string())))
        yield from rows.tables()


def _hashes(table: pa.Table) -> tuple[UInt64s, UInt64s]:
    """The two halves of the hash of each voice."""
    high, low = sorted_keys.hashes(keys(table)).T.copy()
    return high, low


def _voices(
    parts: VoiceTables,
) -> tuple[tuple[UInt64s, UInt64s], Int32s, Int32s, Float64s, list[str]]:
    """The sorted hashes of the voices, the voice of each row, the first row and the seconds of each
    voice; and a sample of names of recordings."""
    highs, lows, lengths = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)], [np.zeros(0)]
    sample = []
    for part in parts():
        high, low = _hashes(part)
        highs.append(high)
        lows.append(low)
        lengths.append(part["seconds"].to_numpy())
        sampled = np.flatnonzero((high & SAMPLED) == 0)
        sample += part["recording"].take(pa.array(sampled)).to_pylist()
    high, low = (long_columns.joined(column) for column in (highs, lows))
    order = np.lexsort((low, high)).astype(np.int32)  # copies in the order of their rows
    begins = sorted_keys.first_of_runs(high[order], low[order])
    number = np.empty(len(order), np.int32)
    number[order] = np.cumsum(begins, dtype=np.int32) - 1
    first = order[begins]
    return (high[first], low[first]), number, first, long_columns.joined(lengths)[first], sample


def _before(before: VoiceTables, hashes: tuple[UInt64s, UInt64s]) -> Before:
    old = np.full(len(hashes[0]), -1, np.int32)
    code_of_name: dict[str, int] = {}
    gone, how = [np.zeros(0, bool)], None
    for part in before():
        how = (part.schema.metadata or {}).get(HOW)
        coded = part["speaker"].dictionary_encode().combine_chunks()
        codes = [
            code_of_name.setdefault(name, len(code_of_name))
            for name in coded.dictionary.to_pylist()
        ]
        code = np.array(codes, np.int32)[coded.indices.to_numpy()]
        position = sorted_keys.places_of(*_hashes(part), *hashes)
        gone.append(position < 0)
        new = np.flatnonzero((position >= 0) & (np.append(old, 0)[position] < 0))[::-1]
        old[position[new]] = code[new]  # of copies, the first
    return Before(old, [*code_of_name], np.concatenate(gone), how)


def _gone(before: VoiceTables, gone: Bools) -> Iterator[pa.Table]:
    """The rows of these voices."""
    begin = 0
    for part in before():
        yield part.filter(pa.array(gone[begin : begin + part.num_rows]))
        begin += part.num_rows


def _grouped(parts: VoiceTables, known_voices: KnownVoices, least: float, stays: bool) -> Int32s:
    """The group of each voice, numbered. `stays`: published speakers stay together."""
    apart = known_voices.old < 0 if stays else np.ones(len(known_voices.old), bool)
    names, incumbent = np.unique(known_voices.old[~apart], return_inverse=True)
    place = np.empty(len(apart), np.int32)  # where its embedding counts
    place[~apart] = incumbent
    place[apart] = len(names) + np.arange(int(apart.sum()))
    del apart, incumbent
    whole = np.zeros(int(place.max(initial=-1)) + 1)
    np.add.at(whole, place, np.minimum(known_voices.seconds, ENOUGH_S))
    with tempfile.TemporaryFile(buffering=0) as file:
        means = Vectors(file, len(names), len(whole))
        begin = 0
        for part in parts():
            rows = np.arange(begin, begin + part.num_rows)
            voices = known_voices.number[rows]
            mine = known_voices.first[voices] == rows  # not another copy's
            voices = voices[mine]
            weight = np.minimum(known_voices.seconds[voices], ENOUGH_S)
            share = (weight / whole[place[voices]]).astype(np.float32)
            vectors = part["vector"].filter(pa.array(mine)).to_pylist()
            means.put(place[voices], vectors, share)
            begin += part.num_rows
        into = linked(means, whole, least, len(names))
    used = np.zeros(len(into), bool)
    used[into] = True
    return (np.cumsum(used, dtype=np.int32) - 1)[into[place]]


class Vectors:
    """Embeddings of more voices than memory holds, by the places of their groups: means of groups
    for the first `few`, in memory; then one embedding each, in a file."""

    def __init__(self, file: IO[bytes], few: int, count: int) -> None:
        self.few = np.zeros((few, SIZE), np.float32)
        self._file, self._count = file, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rows: slice) -> Float32s:
        low, high, _ = rows.indices(self._count)
        few = len(self.few)
        single = range(max(low, few) - few, max(high, few) - few)
        data = os.pread(self._file.fileno(), BYTES * len(single), BYTES * single.start)
        vectors = np.frombuffer(data, "<f2").reshape(-1, SIZE).astype(np.float32)
        return np.concatenate([self.few[low:high], vectors])

    def put(self, place: Int32s, vectors: list[bytes], share: Float32s) -> None:
        """Add embeddings to the groups of these places."""
        shared = place < len(self.few)
        to_add = [vectors[row] for row in np.flatnonzero(shared).tolist()]
        data = np.frombuffer(b"".join(to_add), "<f2").reshape(-1, SIZE)
        np.add.at(self.few, place[shared], data * share[shared, None])
        for row in np.flatnonzero(~shared).tolist():
            os.pwrite(self._file.fileno(), vectors[row], BYTES * (int(place[row]) - len(self.few)))
