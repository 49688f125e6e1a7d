"""How many clips of dev and test share a text, speaker, recording or samples with train.

Counted of each version with splits, whatever `package.disjoint` asks: of what it keeps apart, none.
Holds 32 bytes of each clip, not its row.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.publish.choosing import split_input
from tasks.publish.choosing.components import KINDS
from tasks.publish.name_table import codes_of
from tasks.settings.package import REST
from tasks.storage.long_columns import joined

COLUMNS = (*split_input.NODES, "split")
NAMES = {"text": "text", "speaker": "speaker", "recording": "recording", "pcm": "audio"}

Leaks = dict[str, dict[str, int]]


def of_utterances(splits: Iterable[str], parts: Iterable[pa.Table]) -> Leaks:
    """For each split but train, the clips whose text, speaker, recording or audio is in train too.
    `parts`: a version's utterances (COLUMNS); they are not read if there is one split only."""
    names = sorted(splits)
    if len(names) < 2:
        return {}
    sides = [np.zeros(0, np.int16)]
    codes = {kind: [np.zeros(0, np.uint64)] for kind in KINDS}
    for part in parts:
        side = pc.index_in(part["split"], pa.array(names, pa.string()))
        sides.append(side.to_numpy(zero_copy_only=False).astype(np.int16))
        for kind, column in zip(KINDS, split_input.columns_of(part), strict=True):
            codes[kind].append(codes_of(column)[0])
    side = joined(sides)
    leaks: Leaks = {name: {} for name in names if name != REST}
    for kind, name in NAMES.items():
        code = joined(codes.pop(kind))
        in_train = (side == names.index(REST)) if REST in names else np.zeros(len(side), bool)
        train = np.unique(code[in_train & (code != 0)])
        shared = np.isin(code, train)
        for split, counts in leaks.items():
            counts[name] = int((shared & (side == names.index(split))).sum())
    return leaks
