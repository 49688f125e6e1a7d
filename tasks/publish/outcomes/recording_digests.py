"""Digests of each recording's rows in the ledger, which show what a new version need not rewrite.

A recording's digest is the sum of its rows' digests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...accounting.summary import REMOVED
from ...base.arrays import UInt64s
from ...base.schema import LEDGER
from ...storage import long_columns
from .. import row_digests, seeded_hash

KEY = "key"  # hash of a row's recording
ACCOUNTS = pa.schema(
    {
        KEY: pa.uint64(),
        "digest": pa.uint64(),
        "rows": pa.int32(),
        "overlaps": pa.bool_(),  # whether spans of the recording overlap
        "removed": pa.bool_(),  # whether it has left its source
    }
)


def keys_of(recordings: pa.ChunkedArray) -> UInt64s:
    """The hash of each row's recording; uint64 [rows]."""
    coded = long_columns.coded(recordings)
    hashes = seeded_hash.draws("recording", coded.dictionary.to_pylist())
    keys: UInt64s = hashes[coded.indices.to_numpy(zero_copy_only=False)]
    return keys


class RowDigests(NamedTuple):
    """For each row of a ledger: the key of its recording, and its digest; uint64 [rows]."""

    keys: UInt64s
    digests: UInt64s


def of_rows(ledger: pa.Table) -> RowDigests:
    digests = row_digests.folded(np.zeros(len(ledger), np.uint64), ledger, LEDGER.names)
    return RowDigests(keys_of(ledger["recording"]), digests)


def of_ledger(ledger: pa.Table, rows: RowDigests | None = None) -> pa.Table:
    """ACCOUNTS of the recordings of a ledger, or of a portion of it, sorted by key. `rows`: its
    digests, if they are computed already."""
    row_keys, digests = rows or of_rows(ledger)
    keys, index = np.unique(row_keys, return_inverse=True)
    digest = np.zeros(len(keys), np.uint64)
    np.add.at(digest, index, digests)
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
