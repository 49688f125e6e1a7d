"""Shard batches: work shards whose outcomes are stored together and reused by later runs.

    OUT/manifests/package/decided/<key>/
        rows.arrow           utterances that no rule of their own shard rejects
        ledger.bin           their ledger in SLICES portions by a hash of the recording
        decisions.parquet    all utterances with their measures
        heard.arrow          input of corpus-wide rules, if there are any
        voices.arrow         voices of its recordings, if speakers are linked across recordings
        digests.arrow        52 bytes a row, from which a version is planned
        accounts.arrow       22 bytes a recording of the ledger, likewise
        facts.json           hash of each file, and counts; written last: the batch is complete

The key is a hash of everything that affects the outcomes (`tasks.publish.unchanged`). A version
does not depend on how recordings were divided among shards. `batch_outcomes.py` writes the files.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NotRequired, TypedDict

import numpy as np
import pyarrow as pa

from ... import corpus, storage
from ...base.arrays import Int64s, UInt64s
from ...base.errors import CorruptManifest
from ...base.schema import LEDGER
from ...settings.job import Job
from ...shard_store import blobs, recipe
from ...shard_store.recipe import digest
from ...storage import tables
from ..planned_columns import (
    BESIDE_COLUMNS,
    LAYOUT_COLUMNS,
    MUTED_COLUMNS,
    SOURCE_COLUMNS,
    labels_kept,
    turns_kept,
)
from . import shard_outcomes
from .recording_digests import ACCOUNT, ACCOUNTED, KEY

FORMAT = 4  # of these files
AT_ONCE = 8  # shards in a batch
SLICES = 64  # of a ledger
LIST, OUTCOMES, DECIDED = "groups.json", "decisions.parquet", "decided"
KEY_NAME = re.compile(r"[0-9a-f]{24}")  # of a batch's folder
#: Columns that are not part of a row's content: where the row and its PCM are stored, its split.
PLACES = (*SOURCE_COLUMNS, *BESIDE_COLUMNS, *MUTED_COLUMNS, *LAYOUT_COLUMNS, "split")
KEYED = pa.schema([*LEDGER, pa.field(KEY, pa.uint64())])
DIGESTS = pa.schema(
    {
        "high": pa.uint64(),  # first half of the seeded hash of the id, which orders the clips
        "low": pa.uint64(),  # second half
        "content": pa.uint64(),
        "samples": pa.int64(),
        "rate": pa.int32(),
        ACCOUNT: pa.uint64(),
        ACCOUNTED: pa.uint64(),
    }
)
VOICE = "voice"  # further column of DIGESTS if speakers are linked: hash of the voice's name


def slice_of(keys: UInt64s, count: int) -> Int64s:
    """The number of each key's portion, if all 64-bit hashes are divided into `count` equal ones;
    int64 [keys]."""
    high = keys >> np.uint64(32)
    return ((high * np.uint64(count)) >> np.uint64(32)).astype(np.int64)


class BatchFacts(TypedDict):
    """facts.json of a batch."""

    files: dict[str, str]  # first 16 hex digits of each file's sha256
    slices: list[tuple[int, int, int]]  # first byte, bytes and CRC-32 of each portion of the ledger
    rows: int
    ledger: int  # rows
    unmeasured: NotRequired[int]  # recordings that lack cuts or measures
    changed: list[str]  # shards that the next run looks at again


NEEDED = {"files", "slices", "rows", "ledger", "changed"}  # of BatchFacts


@dataclass(frozen=True)
class ShardBatch:
    """Some shards, and the folder with the outcomes of their utterances. Small enough to send to
    workers."""

    home: Path
    shards: tuple[str, ...]

    @cached_property
    def facts(self) -> BatchFacts:
        """facts.json; raises CorruptManifest if it is missing or damaged."""
        place = self.home / "facts.json"
        try:
            facts: BatchFacts = storage.read_json(place)
            if not _is_whole(facts):
                raise ValueError("not the facts of a batch")
        except (FileNotFoundError, ValueError) as error:
            raise CorruptManifest(f"{place} is gone or damaged", str(place)) from error
        return facts

    def data(self, name: str) -> bytes:
        """The bytes of a file; raises CorruptManifest if it is missing or has changed."""
        try:
            data = storage.read(self.home / name)
        except FileNotFoundError as error:
            raise self._damaged(name) from error
        if hashlib.sha256(data).hexdigest()[:16] != self.facts["files"].get(name):
            raise self._damaged(name)
        return data

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A table, or only these columns of it, in the file's order. Raises CorruptManifest as
        `data`, and if the table places PCM outside the blobs."""
        data = pa.py_buffer(self.data(name))
        names = pa.ipc.open_file(data).schema.names
        wanted = set(names if columns is None else columns)
        fields = [index for index, column in enumerate(names) if column in wanted]
        some = pa.ipc.IpcReadOptions(included_fields=fields)
        table = pa.ipc.open_file(data, options=some).read_all()
        if not blobs.sound_places(table):
            raise self._damaged(name)
        return table

    def outcomes(self, columns: Collection[str]) -> pa.Table:
        """These columns of `outcome_table.schema_of` for all utterances, whatever their outcome."""
        return tables.from_parquet(self.data(OUTCOMES), sorted(columns))

    def is_sound(self) -> bool:
        """Whether every file has its hash."""
        try:
            return all(bool(self.data(name)) for name in self.facts["files"])
        except (CorruptManifest, KeyError, TypeError):
            return False

    def slices_of_ledger(self, slices: range) -> Iterator[memoryview]:
        """These portions of the ledger, as Arrow streams; raises CorruptManifest if one has
        changed."""
        spans = [span for span in self.facts["slices"][slices.start : slices.stop] if span[1]]
        if not spans:
            return
        low, high = spans[0][0], spans[-1][0] + spans[-1][1]
        with storage.of(self.home).spans(self.home, [("ledger.bin", low, high)]) as read:
            data = read(("ledger.bin", low, high)) or b""
        for begin, size, crc in spans:
            part = memoryview(data)[begin - low : begin - low + size]
            if zlib.crc32(part) != crc:
                raise self._damaged("ledger.bin")
            yield part

    def _damaged(self, name: str) -> CorruptManifest:
        """An error that names facts.json as the damaged file: removing that decides the batch
        again."""
        return CorruptManifest(f"{self.home / name} is damaged", str(self.home / "facts.json"))


def ledger(batches: Iterable[ShardBatch], slices: range) -> pa.Table:
    """Rows (KEYED) of these portions of the ledgers of some batches; the rows of a recording are
    adjacent."""
    pieces = [KEYED.empty_table()]
    for stream in chain.from_iterable(batch.slices_of_ledger(slices) for batch in batches):
        pieces.append(tables.conformed(pa.ipc.open_stream(stream).read_all(), KEYED))
    return pa.concat_tables(pieces)


def _is_whole(facts: object) -> bool:
    """Whether parsed JSON has the structure of `BatchFacts`."""
    if not isinstance(facts, dict) or not facts.keys() >= NEEDED:
        return False
    slices, counts = facts["slices"], (facts["rows"], facts["ledger"])
    return (
        isinstance(facts["files"], dict)
        and isinstance(facts["changed"], list)
        and isinstance(slices, list)
        and len(slices) == SLICES
        and all(isinstance(span, list) and len(span) == 3 for span in slices)
        and all(isinstance(number, int) for number in (*counts, *chain(*slices)))
    )


def home(out: Path) -> Path:
    return out / "manifests" / "package" / DECIDED


def kept_in(out: Path) -> list[str]:
    """Names of the batches' folders in OUT; other entries are ignored."""
    return [name for name in storage.of(out).folders(home(out)) if KEY_NAME.fullmatch(name)]


def of_shards(job: Job, keys: Mapping[str, str]) -> list[ShardBatch]:
    """Batches of consecutive shards, sorted by name; `keys`: the key of each shard
    (`unchanged.UpToDate.keys`)."""
    names = sorted(keys)
    package = [job.package.seed, job.package.text_form]  # the settings that affect outcomes
    inputs: list[object] = [FORMAT, shard_outcomes.VERSION, *package, corpus.takes_part(job)]
    inputs += ["audio_is", job.package.audio] if recipe.enhancing(job) else []
    inputs += ["normalised"] if corpus.compares_texts(job) else []
    if labels_kept(job):
        inputs += ["labels", *(["of turns"] if turns_kept(job) else [])]
    if measures := corpus.needed_measures(job):
        inputs.append(["asked", *measures])
    inputs += ["published", *sorted(job.package.publish)] if job.package.publish else []
    inputs += ["voices"] if recipe.across_recordings(job) is not None else []
    batches = []
    for low in range(0, len(names), AT_ONCE):
        some = tuple(names[low : low + AT_ONCE])
        key = digest("decided", inputs, [(name, keys[name]) for name in some])
        batches.append(ShardBatch(home(job.out) / key, some))
    return batches


def missing(some: Sequence[ShardBatch], out: Path) -> list[ShardBatch]:
    """The batches of `some` whose outcomes are not stored."""
    kept = set(kept_in(out))
    return [
        batch
        for batch in some
        if batch.home.name not in kept or not storage.exists(batch.home / "facts.json")
    ]


def list_in(scratch: Path, some: Sequence[ShardBatch]) -> None:
    """Write the batches of a run to a file, so that messages to workers stay small."""
    entries = [(str(batch.home), batch.shards) for batch in some]
    storage.of(scratch).write(scratch / LIST, json.dumps(entries).encode())


def listed(scratch: Path) -> list[ShardBatch]:
    """The batches of the run, from the file that `list_in` wrote."""
    entries = storage.read_json(scratch / LIST)
    return [ShardBatch(storage.place(home), tuple(shards)) for home, shards in entries]


def forget(out: Path, kept: Sequence[ShardBatch], changed: Collection[str]) -> None:
    """Remove the outcomes of batches that are not in `kept`, or that contain one of the shards
    `changed`, which the next run checks again. Call it only while holding OUT's lock."""
    store = storage.of(out)
    names = {batch.home.name for batch in kept if not set(batch.shards) & set(changed)}
    for name in kept_in(out):
        if name not in names:
            store.remove_tree(home(out) / name)


def arrow_bytes(
    table: pa.Table, writer: Callable[..., pa.RecordBatchStreamWriter] = pa.ipc.new_file
) -> bytes:
    """The table as one record batch in an Arrow file, or in the kind of stream that `writer`
    makes."""
    target = io.BytesIO()
    # On the small tables of a batch, threads cost more than they save.
    fast = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with writer(target, table.schema, options=fast) as out:
        out.write_table(table.combine_chunks())
    return target.getvalue()
