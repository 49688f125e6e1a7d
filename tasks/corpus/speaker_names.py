"""Names groups of voices: by a published name, or by a hash of a voice.

A name is `spk_` and the hash of the voice that speaks longest when the speaker is first seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from itertools import count as counting
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.arrays import Float64s, Int32s, Int64s, UInt64s
from tasks.recording import ids

VoiceTables = Callable[[], Iterable[pa.Table]]  # VOICES, or SPEAKERS


class KnownVoices(NamedTuple):
    """Distinct voices in the order of their hashes, with their known facts."""

    hashes: UInt64s  # of content and number
    number: Int32s  # of each row, its voice
    first: Int32s  # a row of each voice
    seconds: Float64s
    old: Int32s  # index of the name that was published; -1: none
    names: list[str]  # those names


def keys(table: pa.Table) -> list[str]:
    """`<content>#<number>` of each voice: its recording's content, its number in there."""
    texts: list[str] = pc.binary_join_element_wise(
        table["content"], pc.cast(table["number"], pa.string()), "#"
    ).to_pylist()
    return texts


def named(
    parts: VoiceTables, known_voices: KnownVoices, group: Int32s, taken: set[str]
) -> tuple[list[str], dict[str, str]]:
    """The name of each group, and new names for published names. `taken`: names of voices that are
    gone."""
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
        if name not in renamed:  # where most of it is
            renamed[name] = number
            names.setdefault(number, name)
    taken = (taken - renamed.keys()) | set(names.values())
    longest = _longest(known_voices.seconds, group, count)
    new = [number for number in range(count) if number not in names]
    called = {number: _name(int(known_voices.hashes[longest[number]])) for number in new}
    doubtful = {
        number: known_voices.first[longest[number]] for number in new if called[number] in taken
    }
    texts = _keys_of(parts, doubtful) if doubtful else {}
    for number in new:
        names[number] = _other(texts[number], taken) if number in texts else called[number]
        taken.add(names[number])
    return [names[number] for number in range(count)], {
        old: names[number] for old, number in renamed.items() if number < count
    }


def _longest(seconds: Float64s, group: Int32s, count: int) -> Int64s:
    """The longest voice of each group; if several are equally long, the first."""
    longest = np.full(count, -np.inf)
    np.maximum.at(longest, group, seconds)
    voices = np.flatnonzero(seconds == longest[group])[::-1]
    longest_voice = np.empty(count, np.int64)
    longest_voice[group[voices]] = voices
    return longest_voice


def _name(code: int) -> str:
    """The name of a voice, from the first half of its hash."""
    return ids.speaker_over_all(f"{code:016x}")


def _keys_of(parts: VoiceTables, rows: dict[int, np.int32]) -> dict[int, str]:
    key_of_group, begin = {}, 0
    for part in parts():
        for number, row in rows.items():
            if begin <= row < begin + part.num_rows:
                key_of_group[number] = keys(part.slice(int(row) - begin, 1))[0]
        begin += part.num_rows
    return key_of_group


def _other(key: str, taken: set[str]) -> str:
    """A free name for a voice whose first choice is taken."""
    for number in counting(1):
        name = ids.speaker_over_all(hashlib.sha256(f"{key}:{number}".encode()).hexdigest())
        if name not in taken:
            return name
    raise AssertionError
