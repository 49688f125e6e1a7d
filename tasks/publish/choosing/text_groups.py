"""Near-equal texts as one, so that they come to one split (`tasks.scoring.near_texts`).

Also with texts of published clips that stay. Where what is published has near-equal texts in two
splits, as versions made before they were compared may, each text of such a group is on its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.arrays import Int32s
from tasks.publish.choosing.components import Sides
from tasks.publish.choosing.split_input import WORDS, Candidates
from tasks.scoring import near_texts


def united(
    clips: Candidates, rows: Int32s, text: Int32s, split: Sides, names: list[str]
) -> tuple[Int32s, Sides]:
    """The number of each clip's group of texts, -1 for none, and the split of each group, as an
    index of `names`; -1: none yet. `rows`: numbers of the clips; `text`: a number for the text of
    each, -1 for none; `split`: of each text."""
    staying: list[Sides] = [np.zeros(0, np.int16)]

    def texts() -> Iterator[pa.ChunkedArray]:
        yield clips.names.named(WORDS, rows)
        for some in clips.staying():
            side = pc.index_in(some["split"], pa.array(names, pa.string())).fill_null(-1)
            staying.append(side.to_numpy().astype(np.int16))
            yield some["normalised"]

    number = near_texts.groups(texts(), clips.memory, clips.scratch)
    group = np.full(len(split), -1, np.int64)  # of each text
    group[text[text >= 0]] = number[: len(rows)][text >= 0]
    sides = np.concatenate([split, *staying])
    of_group = np.concatenate([group, number[len(rows) :]])
    has = (sides >= 0) & (of_group >= 0)
    count = int(number.max(initial=-1)) + 1
    low, high = np.full(count, np.iinfo(np.int16).max, np.int16), np.full(count, -1, np.int16)
    np.minimum.at(low, of_group[has], sides[has])
    np.maximum.at(high, of_group[has], sides[has])
    whole = (high < 0) | (low == high)
    alone = (group < 0) | ~whole[group]
    name = np.where(alone, count + np.arange(len(split)), group)
    groups, unit = np.unique(name, return_inverse=True)
    of_unit = np.full(len(groups), -1, np.int16)
    of_unit[unit] = np.where(alone, split, np.append(high, -1)[group])
    return np.append(unit, -1).astype(np.int32)[text], of_unit
