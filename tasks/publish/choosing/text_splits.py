"""Keeps each text in one split: which components must be joined for it, and which clips dropped.

Texts are compared by the column `normalised`. Components that share texts become one, as if they
shared a speaker, so that no clip has to be dropped. If the joined component would have more than
half of all hours, as when everybody reads the same prompts, or would join two splits, its members
are assigned separately. Then every text belongs to one split, and clips of it in other splits are
dropped:

* a published text stays in its split, and a text that a list names is in that list's split;
* any other text belongs to the split with most of its time, usually train;
* but every other split keeps a share of its own time about as large as its share of all time: with
  5 % for dev, texts of 5 % of dev's time stay in dev and are dropped from train.
"""

import numpy as np

from ...base.arrays import Bools, Float64s, Int32s, Int64s
from ...scoring import near_texts
from .components import Sides, agreed
from .split_input import WORDS, Candidates

#: Speech counts as read if at least this share of its time has texts that occur in several
#: recordings, and if there are at least LEAST_TEXTS texts for each split: one wake word in every
#: recording is not read speech.
READ_SHARE = 0.2
LEAST_TEXTS = 2


def is_read(text: Int32s, recording: Int32s, length: Int64s, splits: int) -> bool:
    """Whether the clips are read speech: recordings repeat each other's texts. `text` and
    `recording`: nodes of each clip, -1: none; `length`: µs; `splits`: their number."""
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
    """Join components that share texts, where that is possible. Returns the new component of each
    clip (-1 stays -1), and the split of each component (-1: to be assigned), with a last entry for
    component -1.

    `text`: number of each clip's text, -1: none; `text_split`: known split of each text, -1: none;
    `length`: µs; `listed`: clips whose component got its split from a list; these components are
    not joined with others.
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
    votes = np.full(count, -1, np.int16)  # where each component has most of its texts' time
    voting = has & (np.append(text_split, -1)[text] >= 0)
    if voting.any():
        splits = int(text_split.max()) + 1
        code = component[voting].astype(np.int64) * splits + text_split[text[voting]]
        time = np.bincount(code, length[voting], count * splits).reshape(count, splits)
        votes = np.where(time.any(axis=1), time.argmax(axis=1), -1).astype(np.int16)
    side_of_component = np.where(of_component[:count] >= 0, of_component[:count], votes)
    split[unit] = np.where(whole[group[:count]], side_of_group[group[:count]], side_of_component)
    unit_of_clip = np.append(unit, -1).astype(np.int32)[component]
    return unit_of_clip, split


def of_texts(
    text: Int32s, split: Sides, length: Int64s, fixed: Sides, shares: dict[int, float], train: int
) -> Sides:
    """The split of each text. `text`, `split`: of each clip, -1: no text, not packaged; `length`:
    µs; `fixed`: the split where each text must be, -1: any; `shares`: each split's share of all
    time by the settings."""
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
        # Train keeps at least one text.
        sides[np.flatnonzero(free)[time[free, train].argmax()]] = train
    return sides


def _keep_share(
    split: int, share: float, time: Float64s, sides: Sides, free: Bools, train: int
) -> None:
    """Give texts that the split shares with others to it, cheapest first (least time lost in other
    splits for the time kept), until it keeps about `share` of its time, and at least one text.
    `time`: µs [texts, splits]; `sides`: the split of each text, changed in place."""
    kept = float(time[sides == split, split].sum())
    wanted = share * float(time[:, split].sum())
    some = np.flatnonzero(free & (sides != split) & (time[:, split] > 0))
    cost = time[some].sum(axis=1) / time[some, split]
    for text in some[np.argsort(cost, kind="stable")].tolist():
        if kept and wanted - kept < time[text, split] / 2:
            continue  # the split is nearer to its share without this text
        if sides[text] == train and time[sides == train, train].sum() == time[text, train]:
            continue  # train's last text
        sides[text] = split
        kept += time[text, split]


def grouped(clips: Candidates, rows: Int32s, text: Int32s, split: Sides) -> tuple[Int32s, Sides]:
    """The number of each clip's group of near-equal texts (-1: no text), and the split of each
    group (-1: none yet). Published texts that are near-equal may be in two splits; each text of
    such a group counts by itself. `rows`: numbers of the clips; `text`: number of each clip's
    text, -1: none; `split`: of each text."""
    number = near_texts.groups([clips.names.named(WORDS, rows)], clips.memory, clips.scratch)
    group: Int32s = np.full(len(split), -1, np.int32)  # of each text
    group[text[text >= 0]] = number[text >= 0]
    count = int(number.max(initial=-1)) + 1
    side_of_group, torn = agreed(group, split, count)
    alone = (group < 0) | torn[group]
    name = np.where(alone, count + np.arange(len(split)), group)
    groups, unit = np.unique(name, return_inverse=True)
    of_unit = np.full(len(groups), -1, np.int16)
    of_unit[unit] = np.where(alone, split, side_of_group[group])
    return np.append(unit, -1).astype(np.int32)[text], of_unit
