"""Shard batches: work shards whose facts are stored together and reused by later runs.

    OUT/manifests/package/facts/<key>/
        rows.arrow           all utterances as they would be published
        limits.arrow         what limits may ask of each (`corpus.limits`), in the same order
        spans.arrow          their ledger, with the outcomes that no limit changes
        heard.arrow          input of corpus-wide rules, if there are any
        voices.arrow         voices of its recordings, if speakers are linked across recordings
        facts.json           hash of each file, and counts; written last: the batch is complete
    <scratch>/decided/<key>.arrow    the outcome of each utterance under the limits of a run

The key is a hash of everything that affects the facts (`tasks.publish.unchanged`), and never of a
limit. A version does not depend on how recordings were divided among shards. `batch_outcomes.py`
writes the files.
"""

import hashlib
import io
import operator
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from ... import storage
from ...accounting import ledger
from ...accounting.ledger import PENDING
from ...base.arrays import Int64s
from ...base.errors import CorruptManifest
from ...base.schema import LedgerRow
from ...recording import names as recording_names
from ...settings.job import Job
from ...shard_store import blobs, clip_choice, decision_log
from ...shard_store.recipe import digest
from ...shard_store.stored_shard import tells_datasets_apart
from ...storage import sorted_keys, tables
from ..corpus import limits, rejections

AT_ONCE = 8  # shards in a batch
MAGIC = b"ARROW1\0\0"  # with which an Arrow file begins; its schema comes next
AT = "at"  # column with the number of a row's utterance; null: no limit changes the row's outcome
STATED = "stated"  # column with the language that the source states
LIMITS, SPANS = "limits.arrow", "spans.arrow"
FACTS, DECIDED = "facts", "decided"  # folders, in OUT and in a scratch folder
KEY_NAME = re.compile(r"[0-9a-f]{24}")  # of a batch's folder
#: Stages whose outcome an utterance has before a recogniser hears it.
UNHEARD = ("filter", "resample", "enhance")
WAITING = pa.array(["packaged", PENDING])  # outcomes of utterances that may be packaged
#: Guard and hash of each file whose bytes this process has compared.
_compared: dict[Path, tuple[str, str | None]] = {}
_ORDER = ("recording", "start", "end", "utterance")


class BatchFacts(BaseModel):
    files: dict[str, str]  # first 16 hex digits of each file's sha256
    recordings: list[int]  # of each shard, that can be read and are no copies
    utterances: list[int]  # of each shard
    unmeasured: int  # recordings that lack cuts or measures
    unsettled: list[bool]  # whether the next run looks at a shard again, whatever the limits
    # What the facts depend on besides their key; null: not at all.
    passing: str | None  # `passing_rules`, if values depend on which clips pass them
    copies: list[bool] | None  # `copying`, if recordings are copies of others
    guards: list[float]  # the job's `max_hours` and `max_expansion`
    extent: list[float] | None  # the most hours and expansion of a recording; null: beyond a guard
    people: list[str]  # `said`


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
    people = decision_log.by_utterance(job)
    if not people:
        return ["", ""]
    heads = {recording_names.id_head(name) for name in ids.to_pylist()}
    some = {name: one for name, one in people.items() if recording_names.id_head(name) in heads}
    return [decision_log.identity(people), decision_log.identity(some)]


def keyed(rows: pa.Table, seed: int) -> pa.Table:
    """The rows with what orders the clips of a version, in the columns `high` and `low`."""
    keys = sorted_keys.hashes(rows["id"].to_pylist(), f"{seed}:")
    for name, half in zip(("high", "low"), keys.T, strict=True):
        rows = rows.append_column(name, pa.array(half))
    return rows


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
            return BatchFacts.model_validate_json(storage.read(place))
        except (FileNotFoundError, ValueError) as error:
            raise CorruptManifest(f"{place} is gone or damaged", str(place)) from error

    def holds(self, job: Job) -> bool:
        """Whether the facts are stored and count for the job's limits."""
        try:
            then = self.facts
            if then.passing not in (None, passing_rules(job)):
                return False
            if then.copies not in (None, copying(job)):
                return False
            guards = [job.filter.max_hours, job.filter.max_expansion]
            if then.guards != guards and (
                then.extent is None or any(map(operator.ge, then.extent, guards))
            ):
                return False
            everything = decision_log.identity(decision_log.by_utterance(job))
            if then.people[0] == everything:
                return True
            return said(job, self.table(LIMITS, ("id",))["id"])[1] == then.people[1]
        except CorruptManifest:
            return False

    @contextmanager
    def opened(self, name: str) -> Iterator[pa.NativeFile]:
        """A file; raises CorruptManifest if it is missing or has changed. This process compares its
        bytes once, as long as it keeps its guard."""
        place, store = self.home / name, storage.store_of(self.home)
        try:
            state = store.guard(place), self.facts.files.get(name)
            if not state[0] or _compared.get(place) != state:
                data = store.read(place)
                if hashlib.sha256(data).hexdigest()[:16] != state[1]:
                    raise self._damaged(name)
                _compared[place] = state
                yield pa.BufferReader(data)
                return
            with store.arrow(place) as file:
                yield file
        except FileNotFoundError as error:
            raise self._damaged(name) from error

    def table(self, name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A table, or only these columns of it, in the file's order. Of a decided batch, `rows` has
        only the utterances that may be packaged, and `heard` says which are `kept`.
        Raises CorruptManifest as `data`, and if the table places PCM outside the blobs."""
        with self.opened(name) as file:
            table = _table(file, None if columns is None else [*columns, AT])
        if not blobs.sound_places(table):
            raise self._damaged(name)
        if self.decided is None or name not in ("rows.arrow", "heard.arrow"):
            return table
        decided = self.outcomes(("outcome", "stage", "reason"))
        if name == "heard.arrow":
            decided = decided.take(table[AT])
            if "kept" in table.column_names:
                kept = pc.equal(decided["outcome"], "packaged")
                table = tables.replaced(table, "kept", kept)
            # Whether a text is stored of what a filter drops now depends on former limits.
            return table.filter(pc.invert(unheard(decided)))
        return table.filter(pc.is_in(decided["outcome"], WAITING))

    def waiting(self) -> Int64s:
        """The numbers of the utterances that may be packaged, which `rows` has in this order."""
        waits = pc.is_in(self.outcomes(("outcome",))["outcome"], WAITING)
        return np.flatnonzero(waits.to_numpy())

    def outcomes(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The outcomes (`limits.OUTCOME_COLUMNS`) of all utterances of a decided batch."""
        assert self.decided is not None
        with tables.arrow(self.decided) as file:
            return _table(file, columns)

    def utterances(self, columns: Sequence[str], rejected: pa.Table | None = None) -> pa.Table:
        """These columns of `limits.outcomes_schema`. `rejected`: by rules over all clips, which may
        reject pending utterances, too; see `rejections.entered`."""
        decided = {name for name in columns if name in limits.OUTCOME_COLUMNS[:3]}
        table = self.table(LIMITS, [name for name in columns if name not in decided])
        outcomes = self.outcomes([*decided, *(() if rejected is None else ("outcome",))])
        outcomes = rejections.entered(outcomes, rejected, WAITING)
        for name in decided:
            table = table.append_column(name, outcomes[name])
        return table.select(list(columns))

    def ledger(self, strict: bool = False, rejected: pa.Table | None = None) -> pa.Table:
        """The ledger of a decided batch, recording by recording; `strict`: see `stopped`;
        `rejected`: by rules over all clips."""
        rows = _decided(self.table(SPANS), self.outcomes(), rejected)
        return stopped(rows) if strict else rows

    def is_sound(self) -> bool:
        try:
            for name in self.facts.files:
                with self.opened(name):
                    pass
        except CorruptManifest:
            return False
        return True

    def _damaged(self, name: str) -> CorruptManifest:
        """Names facts.json as the damaged file: removing that gathers the facts again."""
        return CorruptManifest(f"{self.home / name} is damaged", str(self.home / "facts.json"))


def _table(file: pa.NativeFile, columns: Sequence[str] | None) -> pa.Table:
    options = pa.ipc.IpcReadOptions(use_threads=False)
    if columns is not None:
        file.seek(len(MAGIC))
        names = pa.ipc.read_schema(file).names
        options.included_fields = [n for n, name in enumerate(names) if name in columns]
    return pa.ipc.open_file(file, options=options).read_all()


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


# Outcomes in a ledger.


def unchosen(outcomes: pa.Table) -> pa.ChunkedArray:
    """Which of these outcomes (columns stage, reason) are of clips that `package.only` and
    `without` leave out before they are converted; bool [rows]."""
    by_choice = pc.equal(outcomes["reason"], clip_choice.REASON)
    return pc.and_(by_choice, pc.equal(outcomes["stage"], "package")).fill_null(False)


def unheard(outcomes: pa.Table) -> pa.ChunkedArray:
    """Which of these outcomes a clip has before a recogniser hears it; bool [rows]."""
    early = pc.is_in(outcomes["stage"], pa.array(UNHEARD))
    return pc.or_(early, unchosen(outcomes))


def _decided(spans: pa.Table, outcomes: pa.Table, rejected: pa.Table | None) -> pa.Table:
    """The ledger with these outcomes and rejections for the rows of utterances; the languages that
    sources state count for those that no recogniser had to hear. In a recording with overlapping
    spans, samples that two spans share are assigned again."""
    number, outcomes = spans[AT], outcomes.combine_chunks()
    of_utterance = pc.is_valid(number)
    early = pc.and_(of_utterance, unheard(outcomes.select(["stage", "reason"]).take(number)))
    spoken = pc.if_else(early, spans[STATED], spans["language"])
    outcomes = rejections.entered(outcomes, rejected, pa.array(["packaged"])).take(number)
    changed = pc.and_(of_utterance, pc.not_equal(outcomes["outcome"], spans["outcome"]))
    in_overlap = pc.is_in(spans["recording"], rejections.overlapping(spans))
    for name in limits.OUTCOME_COLUMNS:
        new = pc.if_else(of_utterance, outcomes[name], spans[name])
        spans = tables.replaced(spans, name, new)
    details = spans["detail"]
    details = pc.if_else(pc.equal(details, ""), pa.scalar(None, details.type), details)
    spans = tables.replaced(tables.replaced(spans, "language", spoken), "detail", details)
    spans = spans.drop_columns([AT, STATED])
    moved = pc.unique(spans["recording"].filter(pc.and_(changed.fill_null(False), in_overlap)))
    if not len(moved):
        return spans
    inside = pc.is_in(spans["recording"], moved)
    by_recording: dict[str, list[LedgerRow]] = {}
    for row in spans.filter(inside).to_pylist():
        by_recording.setdefault(row["recording"], []).append(row)
    rows = [row for some in by_recording.values() for row in ledger.assigned_again(some)]
    again = pa.Table.from_pylist(rows, schema=spans.schema)
    return pa.concat_tables([spans.filter(pc.invert(inside)), again])


def in_order(table: pa.Table) -> pa.Table:
    table = table.combine_chunks()  # sorting chunks takes six times as long
    return tables.take(table, tables.order_by(table, _ORDER))
