"""Stored failures that are not the item's fault (`errors.PASSING`).

They count in the version of their run. The next run treats the item as one without a result, and
its new result replaces the failure.
"""

from __future__ import annotations

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


def passing(table: pa.Table) -> Bools:
    """Which rows are such failures; bool [rows]. `table`: with the column `error_code`."""
    code = table["error_code"]
    if code.null_count == len(code):
        return np.zeros(len(code), bool)
    flags: Bools = pc.is_in(code, pa.array(PASSING)).to_numpy()
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
