"""Who speaks in the rows of a version: the names of speakers over all recordings.

A row decided by its shard alone says `<path>#<number>` of a voice that the diarizer tells apart.
What it is called over all recordings is put in its place wherever rows are read.

    speakers.parquet    the speaker of each voice of each recording (`tasks.corpuswide.identities`)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks import recipe, storage
from tasks.corpuswide import identities
from tasks.dataset.proved import Proved
from tasks.job import Job
from tasks.packaging import canonical, seeded
from tasks.schema import SPEAKERS
from tasks.storage import tables

FILE = identities.FILE

Codes = NDArray[np.uint64]
Numbers = NDArray[np.int32]


class Speakers(NamedTuple):
    """Speakers of a version. `voices`, hashes in order, and of each its speaker's number."""

    voices: Codes
    number: Numbers
    names: list[str]
    table: pa.Table  # SPEAKERS

    def of(self, voices: Codes) -> Numbers:
        """The speaker's number of each voice; -1: it is none of a recording's."""
        if not len(self.voices):
            return np.full(len(voices), -1, np.int32)
        at = np.minimum(np.searchsorted(self.voices, voices), len(self.voices) - 1)
        return np.where(self.voices[at] == voices, self.number[at], -1).astype(np.int32)


def link(job: Job, parts: identities.Parts, newest: Path | None) -> Speakers | None:
    """The speakers of all voices; None where they are not linked over recordings."""
    least = recipe.across_recordings(job)
    if least is None:
        return None
    how = recipe.of_plugin("diarizers", job.speakers)
    table = identities.link(parts, published(newest), least, how, job.package.refit)
    names = pc.binary_join_element_wise(
        table["recording"], pc.cast(table["number"], pa.string()), "#"
    )
    hashes = seeded.draws(VOICE, names.to_pylist())
    order = np.argsort(hashes, kind="stable")
    coded = table["speaker"].combine_chunks().dictionary_encode()
    numbers = coded.indices.to_numpy(zero_copy_only=False).astype(np.int32)
    return Speakers(hashes[order], numbers[order], coded.dictionary.to_pylist(), table)


VOICE = "voice"


def published(version: Path | None) -> pa.Table:
    """`speakers.parquet` of a version; empty if it has none. RunError where it is damaged."""
    if version is None or not storage.exists(version / FILE):
        return SPEAKERS.empty_table()
    return tables.read(version / FILE, opened=Proved(version))


def voices_of(rows: pa.Table) -> Codes:
    """The hash of each row's voice (columns dataset, speaker), as its shard names it."""
    coded = rows.select(["dataset", "speaker"]).combine_chunks()
    names = pc.binary_join_element_wise(coded["dataset"], coded["speaker"], "/")
    words = names.combine_chunks().dictionary_encode()
    hashes = np.r_[seeded.draws(VOICE, words.dictionary.to_pylist()), np.uint64(0)]
    codes = words.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    found: Codes = hashes[codes]
    return found


def called(rows: pa.Table, names: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows with these names of their speakers; where that is null, a row's own stays."""
    at = rows.column_names.index("speaker")
    both = pc.coalesce(names, rows["speaker"])
    return rows.set_column(at, rows.schema.field("speaker"), both)


def names_of(numbers: Numbers, names: pa.StringArray) -> pa.StringArray:
    """Names by number; null where that is -1."""
    return names.take(pa.array(numbers, mask=numbers < 0))


def content(codes: Codes, numbers: Numbers, names: list[str]) -> Codes:
    """Digests of rows, with who speaks in them."""
    told = canonical.of_rows(pa.table({"speaker": pa.array([*names, None], pa.string())}))
    found: Codes = codes * np.uint64(0x9E3779B97F4A7C15) ^ told[numbers]
    return found


def in_rows(job: Job, rows: pa.Table, voices: Iterable[pa.Table], newest: Path | None) -> pa.Table:
    """Rows of few shards with the names of their speakers."""
    held = [*voices]
    found = link(job, lambda: held, newest)
    if found is None:
        return rows
    return called(rows, names_of(found.of(voices_of(rows)), pa.array(found.names, pa.string())))
