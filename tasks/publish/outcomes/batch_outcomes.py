"""Decides the outcomes of shard batches, on the workers; `shard_batches.py` reads them."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import corpus, storage
from ...base import process_memory
from ...base.arrays import UInt64s
from ...base.errors import PASSING
from ...base.schema import RecordingRow
from ...filter import todo as cuts_lacking
from ...settings.job import Job
from ...shard_store import manifest, recipe
from ...shard_store.shard_view import ShardView
from ...stages.stage import weights_of
from ...storage import tables
from .. import row_digests, seeded_hash, speakers
from . import recording_digests, shard_outcomes
from .recording_digests import ACCOUNT, ACCOUNTED, KEY, RowDigests
from .shard_batches import (
    DIGESTS,
    KEYED,
    OUTCOMES,
    PLACES,
    SLICES,
    VOICE,
    BatchFacts,
    ShardBatch,
    arrow_bytes,
    slice_of,
)


@process_memory.uncollected()
def decide(
    job: Job,
    batch: ShardBatch,
    strict: bool = True,
    listings: Mapping[str, Sequence[RecordingRow]] | None = None,
) -> None:
    """On a worker: decide the outcomes of a batch's utterances and write its files.

    `strict`: see `shard_outcomes.of_shard`; a damaged manifest then raises CorruptManifest, so that
    its content is computed again. `listings`: by shard, the recordings that sources list now, for
    shards whose listing in OUT is outdated.
    """
    damaged, weights = manifest.refuse if strict else manifest.leave, weights_of(job)
    parts, unmeasured = [], 0
    for shard in batch.shards:
        listed = (listings or {}).get(shard)
        view = ShardView(job, shard, weights, damaged, listed, again=listed is not None)
        parts.append(shard_outcomes.of_shard(view, strict))
        if not strict:
            unmeasured += sum(not unit.spared for unit in cuts_lacking(view)[0])
    rows = pa.concat_tables([part.rows for part in parts]).combine_chunks()
    ledger = pa.concat_tables([part.ledger for part in parts])
    ledger_digests = recording_digests.of_rows(ledger)
    data = {
        "rows.arrow": arrow_bytes(rows),
        OUTCOMES: tables.parquet(
            pa.concat_tables([part.utterances for part in parts]),
            compression="zstd",
            write_statistics=False,
        ),
        "digests.arrow": arrow_bytes(_digests(job, rows, ledger, ledger_digests)),
        "accounts.arrow": arrow_bytes(recording_digests.of_ledger(ledger, ledger_digests)),
    }
    if recipe.across_recordings(job) is not None:
        data["voices.arrow"] = arrow_bytes(pa.concat_tables([part.voices for part in parts]))
    if corpus.takes_part(job):
        data["heard.arrow"] = arrow_bytes(pa.concat_tables([part.heard for part in parts]))
    data["ledger.bin"], slices = _sliced(ledger, ledger_digests.keys)
    facts: BatchFacts = {
        "files": {name: hashlib.sha256(content).hexdigest()[:16] for name, content in data.items()},
        "slices": slices,
        "rows": rows.num_rows,
        "ledger": ledger.num_rows,
        "unmeasured": unmeasured,
        "changed": [
            shard
            for shard, part in zip(batch.shards, parts, strict=True)
            if pc.any(_unsettled(part.ledger)).as_py()
        ],
    }
    for name, content in data.items():
        storage.write_atomic(batch.home / name, content)
    storage.write_atomic(batch.home / "facts.json", json.dumps(facts).encode())


def _unsettled(ledger: pa.Table) -> pa.ChunkedArray:
    """Rows that the next run must check again, except those of the stage shard, which it always
    checks; bool [rows]."""
    reasons = pa.array(["changed", *PASSING])
    return pc.and_(pc.is_in(ledger["reason"], reasons), pc.not_equal(ledger["stage"], "shard"))


def _digests(job: Job, rows: pa.Table, ledger: pa.Table, ledger_digests: RowDigests) -> pa.Table:
    """A table (DIGESTS, with VOICE if speakers are linked across recordings) of these rows."""
    keys = seeded_hash.keys(str(job.package.seed), rows["id"].to_pylist())
    content = row_digests.of_rows(rows.drop_columns([n for n in PLACES if n in rows.column_names]))
    account, accounted = recording_digests.of_clips(rows["id"], ledger, ledger_digests)
    columns = {
        "high": keys[:, 0],
        "low": keys[:, 1],
        "content": content,
        "samples": rows["num_samples"],
        "rate": rows["sample_rate"],
        ACCOUNT: account,
        ACCOUNTED: accounted,
    }
    table = pa.table(columns, schema=DIGESTS)
    if recipe.across_recordings(job) is None:
        return table
    return table.append_column(VOICE, pa.array(speakers.voices_of(rows)))


def _sliced(ledger: pa.Table, keys: UInt64s) -> tuple[bytes, list[tuple[int, int, int]]]:
    """The content of ledger.bin: SLICES portions by key, each an Arrow stream; and (first byte,
    bytes, CRC-32) of each portion."""
    ledger = ledger.append_column(KEYED.field(KEY), pa.array(keys))
    order = np.argsort(keys, kind="stable")
    ledger = ledger.take(order).combine_chunks()
    edges = np.searchsorted(slice_of(keys[order], SLICES), np.arange(SLICES + 1))
    whole, slices = bytearray(), []
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        portion = ledger.slice(low, high - low)
        part = arrow_bytes(portion, pa.ipc.new_stream) if high > low else b""
        slices.append((len(whole), len(part), zlib.crc32(part)))
        whole += part
    return bytes(whole), slices
