"""How many clips of dev and test share a text, speaker, recording or samples with train.

Counted of each version with splits, whatever `package.disjoint` asks: of what it keeps apart, none.
Texts count as one if they are near-equal, as for splits.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from tasks.publish.choosing import split_input
from tasks.publish.choosing.components import KINDS
from tasks.publish.choosing.split_input import WORDS
from tasks.publish.name_table import Names
from tasks.scoring import near_texts
from tasks.settings.package import REST
from tasks.storage import queries

COLUMNS = (*split_input.NODES, "split")
NAMES = {"text": "text", "speaker": "speaker", "recording": "recording", "pcm": "audio"}

AT_ONCE = 1 << 17  # clips whose texts are read together

Leaks = dict[str, dict[str, int]]


def of_utterances(
    splits: Iterable[str], parts: Iterable[pa.Table], memory: str = queries.MEMORY
) -> Leaks:
    """For each split but train, the clips whose text, speaker, recording or audio is in train too.
    `parts`: a version's utterances (COLUMNS); they are not read if there is one split only."""
    names = sorted(splits)
    if len(names) < 2:
        return {}
    with Names((*KINDS, WORDS, "split"), memory) as clips:
        for part in parts:
            columns = split_input.columns_of(part, texts=False)
            words = split_input.words_of(part)
            clips.add({**columns, WORDS: words, "split": part["split"]})
        _group_texts(clips, memory)
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


def _group_texts(clips: Names, memory: str) -> None:
    """Name the text of each clip by its group of near-equal ones."""
    rows = np.arange(len(clips), dtype=np.int32)
    pieces = (rows[first : first + AT_ONCE] for first in range(0, len(rows), AT_ONCE))
    group = near_texts.groups((clips.named(WORDS, piece) for piece in pieces), memory)
    with queries.given(clips.database, pa.table({"row": rows, "number": group})):
        clips.database.execute(
            "UPDATE named SET text = number::VARCHAR FROM given "
            "WHERE given.row = named.row AND number >= 0"
        )
