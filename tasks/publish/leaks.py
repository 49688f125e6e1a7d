"""How many clips of dev and test share a text, speaker, recording or samples with train.

Counted of each version with splits, whatever `package.disjoint` asks: of what it keeps apart, none.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from tasks.publish.choosing import split_input
from tasks.publish.choosing.components import KINDS
from tasks.publish.name_table import Names
from tasks.settings.package import REST
from tasks.storage import queries

COLUMNS = (*split_input.NODES, "split")
NAMES = {"text": "text", "speaker": "speaker", "recording": "recording", "pcm": "audio"}

Leaks = dict[str, dict[str, int]]


def of_utterances(splits: Iterable[str], parts: Iterable[pa.Table]) -> Leaks:
    """For each split but train, the clips whose text, speaker, recording or audio is in train too.
    `parts`: a version's utterances (COLUMNS); they are not read if there is one split only."""
    names = sorted(splits)
    if len(names) < 2:
        return {}
    with Names((*KINDS, "split")) as clips:
        for part in parts:
            clips.add({**split_input.columns_of(part), "split": part["split"]})
        train = f"FROM named WHERE split = {queries.literal(REST)}"
        shared = ", ".join(
            f"count(*) FILTER ({kind} IN (SELECT {kind} {train} AND {kind} IS NOT NULL))"
            for kind in NAMES
        )
        rows = clips.database.execute(f"SELECT split, {shared} FROM named GROUP BY split")
        counts = {name: values for name, *values in rows.fetchall()}
    return {
        name: dict(zip(NAMES.values(), counts.get(name, [0] * len(NAMES)), strict=True))
        for name in names
        if name != REST
    }
