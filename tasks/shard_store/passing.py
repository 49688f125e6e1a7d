"""Stored failures that are not the item's fault (`errors.PASSING`).

They count in the version of their run. The next run treats the item as one without a result, and
its new result replaces the failure.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..base.arrays import Bools
from ..base.errors import PASSING
from .manifest import Part

#: The column that identifies a row's item, by stage.
KEYS = {"filter": "cut", "resample": "audio", "transcribe": "transcript"}
#: Earlier releases stored the system's errors as faults of the item, with these codes.
_FORMERLY = pa.array(["unreadable", "decode_error"])
_ERRORS = (
    *(errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.ETIMEDOUT, errno.EHOSTDOWN),
    *(errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.EREMOTEIO, errno.EAGAIN),
    *(errno.EINTR, errno.ENFILE, errno.EMFILE, errno.EACCES, errno.EPERM, errno.EBUSY),
    *(errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED, errno.ENODEV, errno.ENOMEM),
)
_KILLED = "its process ended with status -9"  # also processes killed for lack of memory
_WORDS = rf"^(it cannot be read \(|.*FFmpeg: )?({'|'.join(map(os.strerror, _ERRORS))})\b"


def passing(table: pa.Table) -> Bools:
    """Which rows are such failures; bool [rows]. `table`: with `error_code` and `error_detail`."""
    code = table["error_code"]
    if code.null_count == len(code):
        return np.zeros(len(code), bool)
    by_code = pc.is_in(code, pa.array(PASSING))
    by_words = pc.match_substring_regex(table["error_detail"], _WORDS)
    formerly = pc.and_(pc.is_in(code, _FORMERLY), pc.fill_null(by_words, False))
    killed = pc.and_(pc.equal(code, "crashed"), pc.equal(table["error_detail"], _KILLED))
    flags: Bools = pc.or_(pc.or_(by_code, formerly), pc.fill_null(killed, False)).to_numpy()
    return flags


def without(parts: Sequence[Part]) -> list[Part]:
    """Parts without such rows, for callers that look for missing items."""
    masks = [passing(part.table) for part in parts]
    return [
        replace(part, table=part.table.filter(pa.array(~mask))) if mask.any() else part
        for part, mask in zip(parts, masks, strict=True)
    ]


def standing(stage: str, parts: Sequence[Part]) -> list[Part]:
    """Parts without failures that a later result replaces."""
    tables = last(stage, [part.table for part in parts])
    return [replace(part, table=table) for part, table in zip(parts, tables, strict=True)]


def last(stage: str, tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Tables of a stage without such rows if a later result of the same item exists."""
    masks = [passing(table) for table in tables]
    if not any(mask.any() for mask in masks):
        return [*tables]
    standing_tables: list[pa.Table] = []
    later = set[str]()
    for table, mask in zip(reversed(tables), reversed(masks), strict=True):
        stands = np.ones(len(table), bool)
        names = table[KEYS[stage]].to_pylist()
        for row in reversed(range(len(table))):
            stands[row] = not (mask[row] and names[row] in later)
            later.add(names[row])
        standing_tables.insert(0, table.filter(pa.array(stands)))
    return standing_tables
