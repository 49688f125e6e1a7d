"""Shard batches: work shards whose facts are stored together and reused by later runs.

    OUT/manifests/package/facts/<key>/
        rows.arrow           all utterances as they would be published
        limits.parquet       what limits may ask of each (`corpus.limits`)
        spans.arrow          their ledger, with the outcomes that no limit changes
        heard.arrow          input of corpus-wide rules, if there are any
        voices.arrow         voices of its recordings, if speakers are linked across recordings
        clips.arrow          28 bytes a row, from which a version is planned
        facts.json           hash of each file, and counts; written last: the batch is complete
    <scratch>/decided/<key>.arrow    the outcome of each utterance under the limits of a run

The key is a hash of everything that affects the facts (`tasks.publish.unchanged`), and never of a
limit. A version does not depend on how recordings were divided among shards. `batch_outcomes.py`
writes the files.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from ... import storage
from ...accounting.ledger import PENDING
from ...base.errors import CorruptManifest
from ...corpus import limits
from ...recording import ids as recording_ids
from ...settings.job import Job
from ...shard_store import blobs, decisions
from ...shard_store.recipe import digest
from ...shard_store.stored_shard import tells_datasets_apart
from ...storage import tables
from . import ledger_rows

AT_ONCE = 8  # shards in a batch
AT = "at"  # column with the number of a row's utterance; null: no limit changes the row's outcome
STATED = "stated"  # column with the language that the source states
LIMITS, SPANS = "limits.parquet", "spans.arrow"
FACTS, DECIDED = "facts", "decided"  # folders, in OUT and in a scratch folder
KEY_NAME = re.compile(r"[0-9a-f]{24}")  # of a batch's folder
CLIPS = pa.schema(
    {
        "high": pa.uint64(),  # first half of the seeded hash of the id, which orders the clips
        "low": pa.uint64(),  # second half
        "samples": pa.int64(),
        "rate": pa.int32(),
    }
)
VOICE = "voice"  # further column of CLIPS if speakers are linked: hash of the voice's name


class Depends(TypedDict):
    """What facts depend on besides their key; null: not at all."""

    passing: str | None  # `passing_rules`, if values depend on which clips pass them
    copies: list[bool] | None  # `copying`, if recordings are copies of others
    limits: list[float]  # hours and expansion that recordings may have
    extent: list[float] | None  # the most that one has; null if one is beyond a limit
    people: list[str]  # `said`


class BatchFacts(TypedDict):
    """facts.json of a batch."""

    files: dict[str, str]  # first 16 hex digits of each file's sha256
    recordings: list[int]  # of each shard, that can be read and are no copies
    utterances: list[int]  # of each shard
    unmeasured: int  # recordings that lack cuts or measures
    unsettled: list[bool]  # whether the next run looks at a shard again, whatever the limits
    depends: Depends  # limits and decisions that change these facts


NEEDED = BatchFacts.__required_keys__
WAITING = pa.array(["packaged", PENDING])  # outcomes of utterances that may be packaged


def passing_rules(job: Job) -> str:
    """Identity of the limits on which some facts depend; see `FactView`."""
    choice = repr((job.package.only, job.package.without))
    rules = limits.rules_by_stage(job)
    return digest("passing", repr((*rules["filter"], *rules["enhance"])), choice)


def copying(job: Job) -> list[bool]:
    """Whether copies are processed, and whether recordings of two sources are never copies."""
    return [job.filter.duplicate_files == "keep", tells_datasets_apart(job)]


def said(job: Job, ids: pa.ChunkedArray) -> list[str]:
    """Hashes of all decisions by people, and of those on utterances of the recordings with these
    ids of utterances."""
    people = decisions.by_utterance(job)
    if not people:
        return ["", ""]
    heads = {recording_ids.head(name) for name in ids.to_pylist()}
    some = {name: one for name, one in people.items() if recording_ids.head(name) in heads}
    return [decisions.identity(people), decisions.identity(some)]


def stopped(table: pa.Table) -> pa.Table:
    """Outcomes in which what the run did not finish has failed: its file changed meanwhile."""
    waits = pc.equal(table["outcome"], PENDING)
    for name, value in (("outcome", "failed"), ("reason", "changed")):
        table = tables.replaced(table, name, pc.if_else(waits, value, table[name]))
    return table


@dataclass(frozen=True)
class ShardBatch:
    """Some shards, the folder with the facts of their utterances, and the file with their outcomes
    if they are decided. Small enough to send to workers."""

    home: Path
    shards: tuple[str, ...]
    decided: Path | None = None
    count: int = 0  # utterances that may be packaged, if it is decided

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

    def holds(self, job: Job) -> bool:
        """Whether the facts are stored and count for the job's limits."""
        limits = [job.filter.max_hours, job.filter.max_expansion]
        try:
            then = self.facts["depends"]
            if then["passing"] not in (None, passing_rules(job)):
                return False
            if then["copies"] not in (None, copying(job)):
                return False
            if then["limits"] != limits:
                extent = then["extent"]
                if extent is None or any(a >= b for a, b in zip(extent, limits, strict=True)):
                    return False
            everything = decisions.identity(decisions.by_utterance(job))
            if then["people"][0] == everything:
                return True
            return said(job, self.table(LIMITS, ("id",))["id"])[1] == then["people"][1]
        except (CorruptManifest, KeyError, TypeError, IndexError):
            return False

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
        """A table, or only these columns of it, in the file's order. Of a decided batch, `rows` and
        `clips` have only the utterances that may be packaged, and `heard` says which are `kept`.
        Raises CorruptManifest as `data`, and if the table places PCM outside the blobs."""
        if name == LIMITS:
            return tables.from_parquet(self.data(name), columns)
        table = _table(self.data(name), None if columns is None else [*columns, AT])
        if not blobs.sound_places(table):
            raise self._damaged(name)
        if self.decided is None or name not in ("rows.arrow", "clips.arrow", "heard.arrow"):
            return table
        decided = self.outcomes(("outcome", "stage", "reason"))
        if name == "heard.arrow":
            decided = decided.take(table[AT])
            if "kept" in table.column_names:
                kept = pc.equal(decided["outcome"], "packaged")
                table = tables.replaced(table, "kept", kept)
            # Whether a text is stored of what a filter drops now depends on former limits.
            return table.drop_columns([AT]).filter(pc.invert(ledger_rows.unheard(decided)))
        return table.filter(pc.is_in(decided["outcome"], WAITING))

    def outcomes(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The outcomes (`limits.OUTCOME_COLUMNS`) of all utterances of a decided batch."""
        assert self.decided is not None
        return _table(storage.read(self.decided), columns)

    def seconds(self) -> pa.ChunkedArray:
        """The length of every utterance."""
        return self.table(LIMITS, ("seconds",))["seconds"]

    def utterances(self, columns: Sequence[str]) -> pa.Table:
        """These columns of the outcomes (`limits.outcomes_schema`) of a decided batch."""
        decided = [name for name in columns if name in limits.OUTCOME_COLUMNS[:3]]
        table = self.table(LIMITS, [name for name in columns if name not in decided])
        outcomes = self.outcomes(decided)
        for name in decided:
            table = table.append_column(name, outcomes[name])
        return table.select(list(columns))

    def ledger(self, strict: bool = False) -> pa.Table:
        """The ledger of a decided batch, recording by recording; `strict`: see `stopped`."""
        ledger = ledger_rows.decided(self.table(SPANS), self.outcomes(), AT, STATED)
        return stopped(ledger) if strict else ledger

    def is_sound(self) -> bool:
        """Whether every file has its hash."""
        try:
            return all(bool(self.data(name)) for name in self.facts["files"])
        except (CorruptManifest, KeyError, TypeError):
            return False

    def _damaged(self, name: str) -> CorruptManifest:
        """Names facts.json as the damaged file: removing that gathers the facts again."""
        return CorruptManifest(f"{self.home / name} is damaged", str(self.home / "facts.json"))


def _is_whole(facts: object) -> bool:
    """Whether parsed JSON has the structure of `BatchFacts`."""
    if not isinstance(facts, dict) or not facts.keys() >= NEEDED:
        return False
    lists = facts["recordings"], facts["utterances"], facts["unsettled"]
    return (
        isinstance(facts["files"], dict)
        and all(isinstance(one, list) for one in lists)
        and all(isinstance(number, int) for number in chain(*lists))
    )


def _table(data: bytes, columns: Sequence[str] | None) -> pa.Table:
    buffer = pa.py_buffer(data)
    names = pa.ipc.open_file(buffer).schema.names
    wanted = set(names if columns is None else columns)
    fields = [index for index, column in enumerate(names) if column in wanted]
    some = pa.ipc.IpcReadOptions(included_fields=fields)
    return pa.ipc.open_file(buffer, options=some).read_all()


def home(out: Path) -> Path:
    return out / "manifests" / "package" / FACTS


def kept_in(out: Path) -> list[str]:
    """Names of the batches' folders in OUT; other entries are ignored."""
    return [name for name in storage.store_of(out).folders(home(out)) if KEY_NAME.fullmatch(name)]


def stored(out: Path) -> list[ShardBatch]:
    """The batches whose facts are in OUT, as the last run left them."""
    return [ShardBatch(home(out) / name, ()) for name in kept_in(out)]


def of_shards(job: Job, keys: Mapping[str, str]) -> list[ShardBatch]:
    """Batches of consecutive shards, sorted by name; `keys`: the key of each shard
    (`unchanged.UpToDate.keys`)."""
    names = sorted(keys)
    batches = []
    for low in range(0, len(names), AT_ONCE):
        some = tuple(names[low : low + AT_ONCE])
        key = digest("facts", [(name, keys[name]) for name in some])
        batches.append(ShardBatch(home(job.out) / key, some))
    return batches


def missing(job: Job, some: Sequence[ShardBatch]) -> list[ShardBatch]:
    """The batches of `some` whose facts are not stored, or not for the job's limits. Copies are
    asked, because a batch remembers its facts.json, which is written again for those."""
    kept = set(kept_in(job.out))
    return [batch for batch in some if batch.home.name not in kept or not replace(batch).holds(job)]


def forget(out: Path, kept: Sequence[ShardBatch], changed: Collection[str]) -> None:
    """Remove the facts of batches that are not in `kept`, or that contain one of the shards
    `changed`, which the next run checks again. Call it only while holding OUT's lock."""
    store = storage.store_of(out)
    names = {batch.home.name for batch in kept if not set(batch.shards) & set(changed)}
    for name in kept_in(out):
        if name not in names:
            store.remove_tree(home(out) / name)


def arrow_bytes(table: pa.Table) -> bytes:
    """The table as one record batch in an Arrow file."""
    target = io.BytesIO()
    # On the small tables of a batch, threads cost more than they save.
    fast = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_file(target, table.schema, options=fast) as out:
        out.write_table(table.combine_chunks())
    return target.getvalue()


def parquet_bytes(table: pa.Table) -> bytes:
    """The table as a Parquet file, which DuckDB reads, too."""
    return tables.parquet(table, compression="zstd", write_statistics=False)
