"""Digests of each recording's rows in the ledger, which show what a new version need not rewrite.

A recording's digest is the sum of its rows' digests, so that it can be updated for the rejection of
a clip without reading the other rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...accounting.ledger import PENDING
from ...accounting.summary import REMOVED
from ...base.arrays import UInt64s
from ...base.schema import LEDGER
from ...corpus import rejections
from ...storage import long_columns
from .. import row_digests, seeded_hash

KEY = "key"  # hash of a row's recording
ACCOUNT, ACCOUNTED = "account", "accounted"  # digests of a clip's row without and with its outcome
ACCOUNTS = pa.schema(
    {
        KEY: pa.uint64(),
        "digest": pa.uint64(),
        "rows": pa.int32(),
        "overlaps": pa.bool_(),  # whether spans of the recording overlap
        "removed": pa.bool_(),  # whether it has left its source
    }
)
BEFORE = [name for name in LEDGER.names if name not in rejections.OUTCOME_COLUMNS]


def keys_of(recordings: pa.ChunkedArray) -> UInt64s:
    """The hash of each row's recording; uint64 [rows]."""
    coded = long_columns.coded(recordings)
    hashes = seeded_hash.draws("recording", coded.dictionary.to_pylist())
    keys: UInt64s = hashes[coded.indices.to_numpy(zero_copy_only=False)]
    return keys


class RowDigests(NamedTuple):
    """For each row of a ledger: the key of its recording, ACCOUNT and ACCOUNTED; uint64 [rows]."""

    keys: UInt64s
    before: UInt64s
    accounted: UInt64s


def of_rows(ledger: pa.Table) -> RowDigests:
    before = row_digests.folded(np.zeros(len(ledger), np.uint64), ledger, BEFORE)
    return RowDigests(keys_of(ledger["recording"]), before, _with_outcome(before, ledger))


def of_ledger(ledger: pa.Table, rows: RowDigests | None = None) -> pa.Table:
    """ACCOUNTS of the recordings of a ledger, or of a portion of it, sorted by key. `rows`: its
    digests, if they are computed already."""
    row_keys, _, accounted = rows or of_rows(ledger)
    keys, index = np.unique(row_keys, return_inverse=True)
    digest = np.zeros(len(keys), np.uint64)
    np.add.at(digest, index, accounted)
    overlaps = pc.greater(ledger["overlap_samples"], 0).to_numpy()
    removed = pc.fill_null(pc.equal(ledger["reason"], REMOVED), False).to_numpy()
    columns = [
        keys,
        digest,
        np.bincount(index, minlength=len(keys)),
        np.bincount(index, overlaps, len(keys)) > 0,
        np.bincount(index, removed, len(keys)) > 0,
    ]
    return pa.table(columns, schema=ACCOUNTS)


def of_clips(ids: pa.ChunkedArray, ledger: pa.Table, rows: RowDigests) -> tuple[UInt64s, UInt64s]:
    """ACCOUNT and ACCOUNTED of the rows of these clips, which are packaged or pending; uint64
    [ids]. `rows`: digests of the ledger's rows."""
    waiting = pc.is_in(ledger["outcome"], pa.array(["packaged", PENDING]))
    index = pc.index_in(ids, ledger["utterance"].filter(waiting)).to_numpy()
    place = np.flatnonzero(waiting.to_numpy())[index]
    return rows.before[place], rows.accounted[place]


def changes(outcomes: pa.Table) -> UInt64s:
    """What to add to the digest of each clip's recording when its outcome becomes the one in
    `outcomes` (OUTCOME_COLUMNS, ACCOUNT, ACCOUNTED); uint64 [rows]. Valid if no spans of the
    recording overlap."""
    then, before = (outcomes[name].to_numpy() for name in (ACCOUNTED, ACCOUNT))
    added: UInt64s = _with_outcome(before, outcomes) - then
    return added


def _with_outcome(before: UInt64s, rows: pa.Table) -> UInt64s:
    return row_digests.folded(before, rows, rejections.OUTCOME_COLUMNS)
