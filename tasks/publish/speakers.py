"""Names of speakers across recordings in the rows of a version.

In the outcomes of a shard, a voice that the diarizer found is named `<path>#<number>`. Code that
reads these rows replaces that name by the speaker's name across recordings.

    speakers.parquet    the speaker of each voice of each recording (`tasks.corpus.identities`)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import storage
from ..base.arrays import Int32s, UInt64s
from ..base.schema import SPEAKERS
from ..corpus import identities
from ..corpus.identities import VoiceTables
from ..recording import forgotten
from ..settings.job import Job
from ..shard_store import recipe
from ..storage import long_columns, sorted_keys, tables
from ..storage.versions import Proved
from . import seeded_hash

FILE = identities.FILE

VOICE = "voice"  # prefix of the names that are hashed, see `seeded_hash.draws`


class Speakers(NamedTuple):
    """The speakers of a version's voices."""

    voices: UInt64s  # hashes of the voices' names (`<recording>#<number>`), sorted
    number: Int32s  # of each voice, index of its speaker in `names`
    names: list[str]

    def index_of(self, voices: UInt64s) -> Int32s:
        """The index of each voice's speaker in `names`; -1: unknown voice."""
        return sorted_keys.value_of(self.voices, self.number, voices)

    def called(self, rows: pa.Table) -> pa.Table:
        """The rows (columns dataset, speaker), with names of voices replaced by their speakers'."""
        names = names_of(self.index_of(voices_of(rows)), pa.array(self.names, pa.string()))
        return called(rows, names)


def link(job: Job, parts: VoiceTables, newest: Path | None, scratch: Path) -> Speakers | None:
    """The speakers of all voices in `parts` (VOICES); None if the settings do not link speakers
    across recordings. Saves the tables of the next `speakers.parquet` in `scratch`."""
    least = recipe.across_recordings(job)
    if least is None:
        return None
    how = recipe.of_plugin("diarizers", job.speakers)
    gone, before = forgotten.read(job.out), published(newest)
    former, package = partial(map, gone.without), job.package
    linked = identities.link(
        parts, lambda: former(before()), least, how, package.refit, package.memory, job.scratch
    )
    with storage.store_of(scratch).writing(scratch) as home:
        tables.write_arrow(home / FILE, linked)
    batches = tables.arrow_batches(scratch / FILE)
    return of_tables(pa.Table.from_batches([batch]) for batch in batches)


def of_tables(parts: Iterable[pa.Table]) -> Speakers:
    """The speakers of all voices in these tables (SPEAKERS)."""
    codes, numbers = [np.zeros(0, np.uint64)], [np.zeros(0, np.int32)]
    number_by_name: dict[str, int] = {}
    for part in parts:
        codes.append(seeded_hash.draws(VOICE, identities.voices(part, "recording")))
        numbers.append(long_columns.numbered(part["speaker"], number_by_name))
    hashes, number = long_columns.joined(codes), long_columns.joined(numbers)
    order = np.argsort(hashes, kind="stable")
    return Speakers(hashes[order], number[order], [*number_by_name])


def published(version: Path | None) -> VoiceTables:
    """Reads `speakers.parquet` of a version; empty if the version has none. The reader raises
    RunError if the file is damaged."""
    if version is None or not storage.exists(version / FILE):
        return list
    return partial(tables.portions, version / FILE, SPEAKERS.names, Proved(version))


def voices_of(rows: pa.Table) -> UInt64s:
    """The hash of each row's voice (columns dataset, speaker); uint64 [rows]."""
    names = pc.binary_join_element_wise(rows["dataset"], rows["speaker"], "/")
    words = long_columns.coded(names)
    hashes = np.r_[seeded_hash.draws(VOICE, words.dictionary.to_pylist()), np.uint64(0)]
    codes = words.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    voice_hashes: UInt64s = hashes[codes]
    return voice_hashes


def called(rows: pa.Table, names: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows with `names` as the column speaker; where a name is null, the row keeps its own."""
    return tables.replaced(rows, "speaker", pc.coalesce(names, rows["speaker"]))


def names_of(numbers: Int32s, names: pa.StringArray) -> pa.StringArray:
    """The name at each index; null for -1."""
    return names.take(pa.array(numbers, mask=numbers < 0))
