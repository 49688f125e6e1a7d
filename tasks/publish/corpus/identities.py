"""Speakers across recordings: clusters the voices of all recordings and names each cluster.

Voices, the people that a diarizer distinguishes in a recording, are clustered by average linkage
(`tasks.speech.linkage`), starting from the speakers of the newest version: a published speaker
stays together, new voices join it or each other, and two published speakers merge if their mean
cosine now reaches the threshold. If the threshold or the diarizer changed, and on `package.refit`,
all voices are clustered anew.

A speaker's name is `spk_` and a hash of its longest voice when the speaker first appears. A cluster
with published voices keeps their name; if they have several names, it keeps the one with the most
seconds. If a speaker was split, the largest part keeps the name. Voices whose recordings are gone
stay in the table, so that they get their names back when they return. Two recordings with equal
content have the same voices. The result does not depend on the order of voices.

Memory holds about 60 bytes a voice; embeddings and names of recordings are in temporary files.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import count as counting
from pathlib import Path
from typing import IO, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...base.arrays import Bools, Float32s, Float64s, Int32s, UInt64s
from ...base.schema import SPEAKERS, RecordingRow
from ...recording.names import speaker_over_all
from ...recording.turns import Turn
from ...shard_store.cuts import segments_of
from ...shard_store.shard_view import ShardView
from ...shard_store.stored_shard import part_of
from ...speech.embedding import SIZE, unit
from ...speech.linkage import linked
from ...storage import queries, sorted_keys, tables

BYTES = 2 * SIZE
VOICES = pa.schema(
    {
        "recording": pa.string(),
        "number": pa.int32(),  # of the person within the recording, from 1
        "content": pa.string(),  # of the recording, by `part_of`
        "seconds": pa.float64(),  # for which the person speaks
        "vector": pa.binary(BYTES),  # float16 [192], of length 1
    }
)
FILE = "speakers.parquet"
ENOUGH_S = 30.0  # of speech; an embedding does not improve with more
HOW = b"linked"  # key of the table's metadata for the threshold and the diarizer's recipe
VoiceTables = Callable[[], Iterable[pa.Table]]  # VOICES, or SPEAKERS


class VoiceRow(TypedDict):
    """A row of VOICES."""

    recording: str
    number: int
    content: str
    seconds: float
    vector: bytes


def voices_in(view: ShardView) -> list[VoiceRow]:
    """The voices (VOICES) of a shard's recordings, whatever the outcome of their utterances. A
    recording has none if its source names a speaker of it."""
    voice_rows = list[VoiceRow]()
    for recording in view.processed:
        cut = view.cut_of(recording)
        segments = segments_of(recording) or ()
        stated = recording["speaker"] is not None or any(s.speaker is not None for s in segments)
        if cut is None or cut.error_code or stated:
            continue
        if turns := view.turned(recording)[1]:
            voice_rows += voices_of_turns(recording, turns, cut.rate)
    return voice_rows


def voices_of_turns(recording: RecordingRow, turns: tuple[Turn, ...], rate: int) -> list[VoiceRow]:
    """The voices of one recording (VOICES), each with the mean of its turns' embeddings, weighted
    by duration and scaled to length 1. `turns` are in samples at `rate` Hz; those named by the
    source count as speech but have no embedding."""
    sums: dict[int, np.ndarray] = {}
    seconds: dict[int, float] = {}
    for turn in turns:
        length = (turn.end - turn.start) / rate
        seconds[turn.speaker] = seconds.get(turn.speaker, 0.0) + length
        if len(turn.voice) == BYTES and turn.name is None:
            vector = np.frombuffer(turn.voice, "<f2").astype(np.float64)
            sums[turn.speaker] = sums.get(turn.speaker, np.zeros(SIZE)) + length * vector
    return [
        {
            "recording": recording["recording"],
            "number": speaker + 1,
            "content": part_of(recording),
            "seconds": seconds[speaker],
            "vector": unit(total.astype(np.float32)).astype("<f2").tobytes(),
        }
        for speaker, total in sorted(sums.items())
        if np.isfinite(total).all() and total.any()
    ]


class KnownVoices(NamedTuple):
    """Distinct voices in the order of their hashes. Copies of a recording share their voices, so a
    voice may have several rows in VOICES."""

    hashes: UInt64s  # [voices] first half of the hash of content and number
    number: Int32s  # [rows] index of the row's voice
    first: Int32s  # [voices] index of the voice's first row
    seconds: Float64s  # [voices]
    old: Int32s  # [voices] index of the published name in `names`; -1: none
    names: list[str]  # published names


def link(
    parts: VoiceTables,
    before: VoiceTables,
    least: float,
    recipe: str,
    refit: bool,
    memory: str = queries.MEMORY,
    scratch: Path | None = None,
) -> Iterator[pa.Table]:
    """Tables (SPEAKERS), sorted by recording and number: the voices of `parts` (VOICES) with their
    speakers, and those voices of `before` (the newest version's SPEAKERS) whose recordings are
    gone. `least`: least mean cosine between the voices of one speaker; `recipe`: the diarizer's;
    `refit`: cluster all voices anew; beyond `memory`, rows are sorted in `scratch`."""
    how = json.dumps([least, recipe]).encode()
    hashes, number, first, seconds = _voices(parts)
    old, old_names, gone, former_how = _before(before, hashes)
    known_voices = KnownVoices(hashes[0], number, first, seconds, old, old_names)
    del hashes  # frees the second half
    group = _grouped(parts, known_voices, least, not refit and former_how == how)
    taken = {name for part in _gone(before, gone) for name in part["speaker"].to_pylist()}
    names, renamed = named(parts, known_voices, group, taken)
    group = group[number]
    del known_voices, first, seconds, number
    called = pa.array(names, pa.string())

    def rows() -> Iterator[pa.Table]:
        begin = 0
        for part in parts():
            group_numbers = pa.array(group[begin : begin + part.num_rows])
            yield part.append_column("speaker", called.take(group_numbers)).select(SPEAKERS.names)
            begin += part.num_rows
        for part in _gone(before, gone):
            gone_names = [renamed.get(name, name) for name in part["speaker"].to_pylist()]
            yield tables.replaced(part, "speaker", pa.array(gone_names, pa.string()))

    schema = SPEAKERS.with_metadata({HOW: how})
    yield schema.empty_table()  # there may be no voices
    by = ("recording", "number")
    with queries.ordered(rows(), SPEAKERS, by, memory, scratch) as batches:
        for batch in batches:
            yield pa.Table.from_batches([batch]).cast(schema)


def _hashes(table: pa.Table) -> tuple[UInt64s, UInt64s]:
    """The high and low 64 bits of each voice's hash."""
    high, low = sorted_keys.hashes(voices(table)).T.copy()
    return high, low


def _voices(parts: VoiceTables) -> tuple[tuple[UInt64s, UInt64s], Int32s, Int32s, Float64s]:
    """The sorted hashes of the distinct voices, the voice of each row, and the first row and the
    seconds of each voice."""
    highs, lows, lengths = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)], [np.zeros(0)]
    for part in parts():
        high, low = _hashes(part)
        highs.append(high)
        lows.append(low)
        lengths.append(part["seconds"].to_numpy())
    high, low = (tables.joined(column) for column in (highs, lows))
    order = np.lexsort((low, high)).astype(np.int32)  # stable: copies keep the order of their rows
    begins = sorted_keys.first_of_runs(high[order], low[order])
    number = np.empty(len(order), np.int32)
    number[order] = np.cumsum(begins, dtype=np.int32) - 1
    first = order[begins]
    return (high[first], low[first]), number, first, tables.joined(lengths)[first]


def _before(
    before: VoiceTables, hashes: tuple[UInt64s, UInt64s]
) -> tuple[Int32s, list[str], Bools, bytes | None]:
    """Of the newest version's table: `old` and `names` as in `KnownVoices`, whether each row's
    voice is missing from this run, and the value of HOW."""
    old = np.full(len(hashes[0]), -1, np.int32)
    code_of_name: dict[str, int] = {}
    gone, how = [np.zeros(0, bool)], None
    for part in before():
        how = (part.schema.metadata or {}).get(HOW)
        code = tables.numbered(part["speaker"], code_of_name)
        position = sorted_keys.places_of(*_hashes(part), *hashes)
        gone.append(position < 0)
        new = np.flatnonzero((position >= 0) & (np.append(old, 0)[position] < 0))[::-1]
        old[position[new]] = code[new]  # reversed, so that the first of several copies wins
    return old, [*code_of_name], np.concatenate(gone), how


def _gone(before: VoiceTables, gone: Bools) -> Iterator[pa.Table]:
    begin = 0
    for part in before():
        yield part.filter(pa.array(gone[begin : begin + part.num_rows]))
        begin += part.num_rows


def _grouped(parts: VoiceTables, known_voices: KnownVoices, least: float, stays: bool) -> Int32s:
    """The number of each voice's group. `least`: see `link`; `stays`: published speakers stay
    together."""
    apart = known_voices.old < 0 if stays else np.ones(len(known_voices.old), bool)
    names, incumbent = np.unique(known_voices.old[~apart], return_inverse=True)
    place = np.empty(len(apart), np.int32)  # index of the initial cluster of each voice
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
            is_first = known_voices.first[voices] == rows  # a voice's copies count once
            voices = voices[is_first]
            weight = np.minimum(known_voices.seconds[voices], ENOUGH_S)
            share = (weight / whole[place[voices]]).astype(np.float32)
            vectors = part["vector"].filter(pa.array(is_first)).to_pylist()
            means.put(place[voices], vectors, share)
            begin += part.num_rows
        into = linked(means, whole, least, len(names))
    used = np.zeros(len(into), bool)
    used[into] = True
    return (np.cumsum(used, dtype=np.int32) - 1)[into[place]]


class Vectors:
    """Embeddings of initial clusters, more than memory holds; float32 [count, SIZE] when sliced.
    The first `few` are means of published speakers, in memory; the others are single voices, as
    float16 in a file."""

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
        """Add float16 embeddings, weighted by `share`, to the clusters at `place`."""
        shared = place < len(self.few)
        to_add = [vectors[row] for row in np.flatnonzero(shared).tolist()]
        data = np.frombuffer(b"".join(to_add), "<f2").reshape(-1, SIZE)
        np.add.at(self.few, place[shared], data * share[shared, None])
        for row in np.flatnonzero(~shared).tolist():
            os.pwrite(self._file.fileno(), vectors[row], BYTES * (int(place[row]) - len(self.few)))


# The names of groups of voices.


def voices(table: pa.Table, recording: str = "content") -> list[str]:
    """`<content>#<number>` of each voice: what the column `recording` has of its recording, and the
    voice's number within it."""
    texts: list[str] = pc.binary_join_element_wise(
        table[recording], pc.cast(table["number"], pa.string()), "#"
    ).to_pylist()
    return texts


def named(
    parts: VoiceTables, known_voices: KnownVoices, group: Int32s, taken: set[str]
) -> tuple[list[str], dict[str, str]]:
    """The name of each group, and the new name of each published name, by the published one.
    `taken`: names of voices that are gone."""
    count = int(group.max(initial=-1)) + 1
    has = known_voices.old >= 0
    pairs, pair = np.unique(
        np.stack([group[has], known_voices.old[has]]), axis=1, return_inverse=True
    )
    seconds = np.bincount(pair.reshape(-1), known_voices.seconds[has], pairs.shape[1])
    old_names = [known_voices.names[n] for n in pairs[1].tolist()]
    ranked = sorted(zip((-seconds).tolist(), old_names, pairs[0].tolist(), strict=True))
    names: dict[int, str] = {}
    renamed: dict[str, int] = {}
    for _, name, number in ranked:
        if name not in renamed:  # `ranked` starts with the part that has the most seconds
            renamed[name] = number
            names.setdefault(number, name)
    taken = (taken - renamed.keys()) | set(names.values())
    most = np.full(count, -np.inf)
    np.maximum.at(most, group, known_voices.seconds)
    voices_of_groups = np.flatnonzero(known_voices.seconds == most[group])[::-1]
    longest = np.empty(count, np.int64)  # voice of each group: of equally long ones, the first
    longest[group[voices_of_groups]] = voices_of_groups
    new = [number for number in range(count) if number not in names]
    codes = {number: int(known_voices.hashes[longest[number]]) for number in new}
    called = {number: speaker_over_all(f"{code:016x}") for number, code in codes.items()}
    clashing = {
        number: known_voices.first[longest[number]] for number in new if called[number] in taken
    }
    texts, begin = dict[int, str](), 0
    for part in parts() if clashing else ():
        for number, row in clashing.items():
            if begin <= row < begin + part.num_rows:
                texts[number] = voices(part.slice(int(row) - begin, 1))[0]
        begin += part.num_rows
    for number in new:
        name, attempts = called[number], counting(1)
        while number in texts and name in taken:
            other = f"{texts[number]}:{next(attempts)}".encode()
            name = speaker_over_all(hashlib.sha256(other).hexdigest())
        names[number] = name
        taken.add(name)
    return [names[number] for number in range(count)], {
        old: names[number] for old, number in renamed.items() if number < count
    }
