"""Gathers the facts of shard batches on the workers, and decides their outcomes; `shard_batches.py`
reads both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import corpus, storage
from ...accounting.ledger import PENDING
from ...base import process_memory
from ...base.errors import PASSING
from ...base.schema import RecordingRow
from ...corpus import limits
from ...filter import todo as cuts_lacking
from ...settings.job import Job
from ...shard_store import manifest, recipe
from ...stages.stage import weights_of
from ...storage import tables
from .. import seeded_hash, speakers
from . import shard_outcomes
from .fact_view import FactView
from .shard_batches import (
    CLIPS,
    LIMITS,
    SPANS,
    VOICE,
    BatchFacts,
    ShardBatch,
    arrow_bytes,
    passing_rules,
    stopped,
)
from .shard_outcomes import AT, ShardFacts


@process_memory.uncollected()
def collect(
    job: Job,
    batch: ShardBatch,
    strict: bool = True,
    listings: Mapping[str, Sequence[RecordingRow]] | None = None,
) -> None:
    """On a worker: gather the facts of a batch's utterances and write its files.

    With `strict`, a damaged manifest raises CorruptManifest, so that its content is computed again.
    `listings`: by shard, the recordings that sources list now, for shards whose listing in OUT is
    outdated.
    """
    damaged, weights = manifest.refuse if strict else manifest.leave, weights_of(job)
    parts: list[ShardFacts] = []
    unmeasured, by_passing = 0, False
    for shard in batch.shards:
        listed = (listings or {}).get(shard)
        view = FactView(job, shard, weights, damaged, listed, again=listed is not None)
        parts.append(shard_outcomes.of_shard(view))
        by_passing = by_passing or view.by_passing
        if not strict:
            unmeasured += sum(not unit.spared for unit in cuts_lacking(view)[0])
    rows = pa.concat_tables([part.rows for part in parts]).combine_chunks()
    data = {
        "rows.arrow": arrow_bytes(rows),
        LIMITS: arrow_bytes(pa.concat_tables([part.limits for part in parts])),
        SPANS: arrow_bytes(_numbered(parts, [part.ledger for part in parts])),
        "clips.arrow": arrow_bytes(_clips(job, rows)),
    }
    if recipe.across_recordings(job) is not None:
        data["voices.arrow"] = arrow_bytes(pa.concat_tables([part.voices for part in parts]))
    if corpus.takes_part(job):
        data["heard.arrow"] = arrow_bytes(_numbered(parts, [part.heard for part in parts]))
    facts: BatchFacts = {
        "files": {name: hashlib.sha256(content).hexdigest()[:16] for name, content in data.items()},
        "utterances": [part.rows.num_rows for part in parts],
        "unmeasured": unmeasured,
        "unsettled": [bool(pc.any(_unsettled(part.ledger)).as_py()) for part in parts],
        "passing": passing_rules(job) if by_passing else None,
    }
    storage.remove(batch.home / "facts.json")  # files of other limits may be there
    for name, content in data.items():
        storage.write_atomic(batch.home / name, content)
    storage.write_atomic(batch.home / "facts.json", json.dumps(facts).encode())


def _numbered(parts: Sequence[ShardFacts], tables_of_shards: Sequence[pa.Table]) -> pa.Table:
    """Tables of the batch's shards as one, with numbers (AT) of utterances in the whole batch."""
    first, numbered = 0, []
    for part, table in zip(parts, tables_of_shards, strict=True):
        numbers = pc.add(table[AT], pa.scalar(first, pa.int32()))
        numbered.append(tables.replaced(table, AT, numbers))
        first += part.rows.num_rows
    return pa.concat_tables(numbered)


def _unsettled(ledger: pa.Table) -> pa.ChunkedArray:
    """Rows without an utterance that the next run must check again, except those of the stage
    shard, which it always checks; bool [rows]."""
    again = _checked_again(ledger)
    return pc.and_(pc.is_null(ledger[AT]), pc.and_(again, pc.not_equal(ledger["stage"], "shard")))


def _checked_again(outcomes: pa.Table) -> pa.ChunkedArray:
    reasons = pa.array(["changed", PENDING, *PASSING])
    return pc.is_in(outcomes["reason"], reasons)


def decide(job: Job, batches: Sequence[ShardBatch], strict: bool = True) -> None:
    """Apply the limits to the facts of all batches, and write the outcomes of each.

    With `strict`, for versions, an utterance that the run did not finish has failed: its file
    changed meanwhile. Without it, such an utterance is pending.
    """
    with limits.asking(job) as ask:
        for batch in batches:
            outcomes = ask(batch.table(LIMITS))
            if strict:
                outcomes = stopped(outcomes)
            again = _checked_again(outcomes).to_numpy(zero_copy_only=False)
            edges = np.cumsum([0, *batch.facts["utterances"]])
            shards = zip(batch.shards, batch.facts["unsettled"], pairwise(edges), strict=True)
            changed = [name for name, flag, (a, b) in shards if flag or again[a:b].any()]
            outcomes = outcomes.replace_schema_metadata({"changed": json.dumps(changed)})
            assert batch.decided is not None
            storage.of(batch.decided.parent).write(batch.decided, arrow_bytes(outcomes))


def _clips(job: Job, rows: pa.Table) -> pa.Table:
    """A table (CLIPS, with VOICE if speakers are linked across recordings) of these rows."""
    keys = seeded_hash.keys(str(job.package.seed), rows["id"].to_pylist())
    columns = [keys[:, 0], keys[:, 1], rows["num_samples"], rows["sample_rate"]]
    table = pa.table(columns, schema=CLIPS)
    if recipe.across_recordings(job) is None:
        return table
    return table.append_column(VOICE, pa.array(speakers.voices_of(rows)))
