"""No text in two splits: which clips are kept together for it, and which are left out.

Texts are compared as `normalised` has them. Recordings and speakers that share texts become one
component, as if they shared a speaker, so that nothing has to be left out; unless that holds more
than half of all hours, as where everybody reads the same prompts, or would join two splits. Then
each is assigned for itself, every text belongs to one split, and clips of it in others are left
out:

* a text that a version has published stays in its split, and one that a list names in that list's;
* another one stays where most of its time is, which is mostly train;
* but a split keeps about that share of its time which was asked for it of all: with 5 % for dev,
  texts of 5 % of dev's time stay there and are left out of train.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.arrays import Bools, Float64s, Int32s, Int64s
from tasks.publish.choosing.components import Sides, agreed
from tasks.publish.choosing.split_input import WORDS, Candidates
from tasks.scoring import near_texts

#: Read speech: this share of the time, and more, has texts that other recordings have too; and
#: there are at least so many texts for each split. (One wake word in every recording is none.)
READ_SHARE = 0.2
LEAST_TEXTS = 2


def is_read(text: Int32s, recording: Int32s, length: Int64s, splits: int) -> bool:
    """Whether prompts are repeated. `text` and `recording`: nodes of each clip, -1 for none;
    `length` in µs."""
    if len(np.unique(text[text >= 0])) < LEAST_TEXTS * splits:
        return False
    has = (text >= 0) & (recording >= 0)
    pairs = np.unique(text[has].astype(np.int64) << 32 | recording[has])
    shared = np.bincount(pairs >> 32, minlength=int(text.max(initial=-1)) + 1) > 1
    repeated = int(length[has][shared[text[has]]].sum())
    return bool(pairs.size) and repeated >= READ_SHARE * int(length.sum())


def united(
    component: Int32s,
    of_component: Sides,
    text: Int32s,
    text_split: Sides,
    length: Int64s,
    listed: Bools,
) -> tuple[Int32s, Sides]:
    """Components that share texts as one, where that is possible: that of each clip, -1 as before,
    and the split of each, -1: it has to be assigned; with one more for component -1.

    `text`: a number for each clip, -1 for none; `text_split`: the known split of each, -1 for none;
    `listed`: clips of components that a list put into a split, which draw no others after them.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    count, texts = len(of_component) - 1, len(text_split)
    has = (component >= 0) & (text >= 0)
    size = count + texts
    edges = np.ones(int(has.sum()), np.int8), (component[has], text[has] + count)
    groups, group = connected_components(coo_array(edges, (size, size)), directed=False)
    hours = np.bincount(group[component[component >= 0]], length[component >= 0], groups)
    members = np.bincount(group[:count], minlength=groups)
    side = np.concatenate([of_component[:count], text_split])
    side_of_group, torn = (column[:-1] for column in agreed(group, side, groups))
    whole = ~torn & (hours <= length.sum() / 2)
    whole[group[component[listed & (component >= 0)]]] = False
    whole |= (members == 1) & ~torn
    alone = np.where(whole[group[:count]], group[:count], groups + np.arange(count))
    names, unit = np.unique(alone, return_inverse=True)
    split = np.full(len(names) + 1, -1, np.int16)
    votes = _most_time(component[has], text_split[text[has]], length[has], count)
    side_of_component = np.where(of_component[:count] >= 0, of_component[:count], votes)
    split[unit] = np.where(whole[group[:count]], side_of_group[group[:count]], side_of_component)
    unit_of_clip = np.append(unit, -1).astype(np.int32)[component]
    return unit_of_clip, split


def _most_time(component: Int32s, split: Sides, length: Int64s, count: int) -> Sides:
    """The split in which each component has most of its texts' time; -1: in none."""
    has_split = split >= 0
    if not has_split.any():
        return np.full(count, -1, np.int16)
    splits = int(split.max()) + 1
    code = component[has_split].astype(np.int64) * splits + split[has_split]
    time = np.bincount(code, length[has_split], count * splits).reshape(count, splits)
    return np.where(time.any(axis=1), time.argmax(axis=1), -1).astype(np.int16)


def of_texts(
    text: Int32s, split: Sides, length: Int64s, fixed: Sides, shares: dict[int, float], train: int
) -> Sides:
    """The split of each text; `fixed`: where it has to stay, -1 for anywhere. `split`: of each
    clip, -1: it is not packaged. `shares`: what was asked for each split, of all time."""
    splits = max(int(split.max(initial=0)), int(fixed.max(initial=0)), train, *shares) + 1
    has = (text >= 0) & (split >= 0)
    code = text[has].astype(np.int64) * splits + split[has]
    time = np.bincount(code, length[has], len(fixed) * splits).astype(np.float64)
    time = time.reshape(len(fixed), splits)
    order = [train, *(number for number in range(splits) if number != train)]
    sides = np.array(order, np.int16)[time[:, order].argmax(axis=1)]
    sides = np.where(fixed >= 0, fixed, sides)
    free = (fixed < 0) & ((time > 0).sum(axis=1) > 1)
    for number, share in sorted(shares.items()):
        _keep_share(number, share, time, sides, free, train)
    if not time[sides == train, train].any() and time[free, train].any():
        sides[np.flatnonzero(free)[time[free, train].argmax()]] = train  # it is never emptied
    return sides


def _keep_share(
    split: int, share: float, time: Float64s, sides: Sides, free: Bools, train: int
) -> None:
    """Give the split the cheapest texts that it has with others, until it keeps about its share,
    and one at least."""
    kept = float(time[sides == split, split].sum())
    wanted = share * float(time[:, split].sum())
    some = np.flatnonzero(free & (sides != split) & (time[:, split] > 0))
    cost = time[some].sum(axis=1) / time[some, split]
    for text in some[np.argsort(cost, kind="stable")].tolist():
        if kept and wanted - kept < time[text, split] / 2:
            continue  # without it, it is nearer to its share
        if sides[text] == train and time[sides == train, train].sum() == time[text, train]:
            continue  # train's last one
        sides[text] = split
        kept += time[text, split]


# Near-equal texts as one, so that they come to one split (`tasks.scoring.near_texts`).
#
# Also with texts of published clips that stay. Where what is published has near-equal texts in
# two splits, as versions made before they were compared may, each text of such a group is on its
# own.


def grouped(
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
    count = int(number.max(initial=-1)) + 1
    side_of_group, torn = agreed(of_group, sides, count)
    alone = (group < 0) | torn[group]
    name = np.where(alone, count + np.arange(len(split)), group)
    groups, unit = np.unique(name, return_inverse=True)
    of_unit = np.full(len(groups), -1, np.int16)
    of_unit[unit] = np.where(alone, split, side_of_group[group])
    return np.append(unit, -1).astype(np.int32)[text], of_unit
