"""Check that a published version keeps together in one split what belongs together."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.packaging import components, selecting
from tasks.packaging.components import KINDS, Published
from tasks.packaging.names import Names
from tasks.packaging.splits import FILE


def faults(rows: Callable[[], Iterable[pa.Table]], table: Published) -> list[str]:
    """Faults in the splits of a published version, for `verify`; `rows`: its parts (columns NODES
    and `split`)."""
    found = []
    with Names() as speakers, Names() as recordings, Names() as pcm:
        columns = (speakers, recordings, pcm)
        names = {name for part in table(["split"]) for name in pc.unique(part["split"]).to_pylist()}
        for part in rows():
            names |= set(pc.unique(part["split"]).to_pylist())
            for column, texts in zip(columns, selecting.columns_of(part), strict=True):
                column.add(texts)
        for column in columns:
            column.finish()
        sides = sorted(names)
        coded = [pc.index_in(part["split"], pa.array(sides, pa.string())) for part in rows()]
        empty = np.zeros(0, np.int16)
        split = np.concatenate([empty, *(each.to_numpy().astype(np.int16) for each in coded)])
        nodes = components.nodes_of(columns, np.arange(len(split), dtype=np.int32))
        stored = components.published_splits(nodes, table, sides)
        for kind, row in zip(KINDS, nodes.of_row, strict=True):
            has = row >= 0
            _, torn = components.agreed(row, split, len(nodes.kind))
            if torn.any():
                name = nodes.called(np.flatnonzero(torn)[:1])[0].as_py()
                found.append(f"the {kind} {name} is in two splits")
            if (stored[row[has]] != split[has]).any():
                found.append(f"{FILE} and utterances.parquet differ in the split of a {kind}")
    return found
