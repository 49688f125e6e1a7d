"""Assigns clips to splits: train, and the splits that `package.splits` names.

`{dev: 0.05, test: {hours: 2}, hard: {list: hard.txt}}`; all other clips are `train`.

What is never separated, and what becomes of published clips, is in `tasks/publish/README.md`: clips
connected by what may not be in two splits form a component (`components.py`), and a component is in
one split. Copies with other samples are removed by the filter `duplicate`. A version holds
`splits.parquet`: the split of every speaker, recording and PCM that was ever assigned, even while
it is absent. With a new clip that would join two splits, all new clips connected to it are dropped.

**New components** are allocated in the order of a seeded hash of their names, each to the split
that lacks the most hours and has room for the whole component. Then a split takes the smallest
remaining component if that brings it nearer to its hours, or if it would otherwise be empty. Train
never gives away a component larger than what it keeps, and splits with targets in hours get at most
half of all hours.

The result does not depend on the order of the rows; time grows with n log n.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import storage
from ...base.arrays import Bools, Int32s, Int64s
from ...base.counting import counted
from ...base.errors import RunError
from ...base.schema import SPLITS
from ...settings import PackageSettings, Split
from ...settings.package import REST
from ...storage import tables
from ...storage.versions import Proved
from . import components, split_input, text_splits
from .components import HOUR, KINDS, SPEAKER, TEXT, Sides, SplitTable
from .split_input import Candidates

FILE = "splits.parquet"
DEFAULT = ("speaker", "recording", "pcm")  # for read speech also texts
AUDIO = {"audio": "pcm"}  # names in `package.disjoint` that differ from their kind
NOWHERE = np.int16(-1)  # no split
AT_ONCE = 1 << 21  # clips that are summed together


class SplitAssignment(NamedTuple):
    """The split of each clip, the clips that are dropped, and the next `splits.parquet`."""

    names: list[str]
    split: Sides  # of each clip, index into `names`; -1: the clip is dropped
    joining: Int64s  # indices of clips that would join two splits
    joins: pa.DictionaryArray  # for each of them, what it would join, as a text
    repeating: Int64s  # indices of clips whose text belongs to another split
    repeats: pa.DictionaryArray  # for each of them, which split that is, as a text
    table: Callable[[], Iterator[pa.Table]]  # makes tables (SPLITS) of `splits.parquet`
    lists: split_input.ListDescriptions
    notes: list[str]  # for people, one sentence each


@dataclass(slots=True)
class _Parting:
    component: Int32s  # of each clip; -1: none, because all of its nodes have a split
    splits: Sides  # of each component, -1: none yet; the last entry is for component -1
    most: Sides  # of each clip, the split of its nodes; -1: none
    joining: Bools  # of each clip, whether its nodes are in several splits
    kept: Bools  # of each clip, whether neither it nor its component joins two splits

    def free(self) -> Bools:
        """Clips of components without a split."""
        has: Bools = self.kept & (self.component >= 0) & (self.splits[self.component] < 0)
        return has

    def of_clips(self) -> Sides:
        return np.where(self.component >= 0, self.splits[self.component], self.most)


class _Texts(NamedTuple):
    of_clip: Int32s  # a number for the text of each clip; -1: none
    splits: Sides  # of each text; -1: none yet


def published(version: Path | None) -> SplitTable:
    """Reads `splits.parquet` of a version; empty if the version has no splits. The reader raises
    RunError if the file is damaged."""
    if version is None or not storage.exists(version / FILE):
        return lambda columns: [SPLITS.empty_table().select(columns)]
    return partial(tables.row_groups, version / FILE, opened=Proved(version))


def assign(
    settings: PackageSettings, clips: Candidates, rows: Int32s, before: SplitTable
) -> SplitAssignment:
    """Assign a split to each of the clips whose numbers are `rows`, sorted by id.

    `before`: the `splits.parquet` to continue. Raises RunError if two lists name clips of one
    component, or leave no clip for train.
    """
    published_names, kinds = names_in(before)
    names = sorted({REST, *settings.splits} | published_names)
    nodes = components.Nodes(clips.names, KINDS, rows)
    length = clips.length[rows]
    text = _keep_disjoint(settings, nodes, length, kinds)
    of_node = components.published_splits(nodes, before, names)
    larger = length if settings.split_conflicts == "keep_larger" else None
    parting = _parted(nodes, of_node, len(names), larger)
    kept = parting.kept
    matches = split_input.match(clips, rows, names)
    by_list = _follow_lists(parting, clips, rows, matches, names)
    texts = _Texts(np.full(len(rows), -1, np.int32), np.zeros(0, np.int16))
    if text is not None:
        known_texts = _known_texts(text, of_node, parting)
        texts = _Texts(*text_splits.grouped(clips, rows, *known_texts))
        parting.component, parting.splits = text_splits.united(
            parting.component, parting.splits, *texts, np.where(kept, length, 0), by_list
        )

    train = names.index(REST)
    total = int(length[kept].sum())
    targets = components.targets(settings, names, total)
    _allocate(settings.seed, nodes, parting, length, targets, train)

    split = parting.of_clips()
    split[~kept] = -1
    if text is not None:
        with_target = (n for n in np.flatnonzero(targets > 0).tolist() if n != train)
        shares = {n: float(targets[n]) / max(total, 1) for n in with_target}
        texts = _settled(texts, split, by_list, length, shares, train)
        nodes.of_row[TEXT] = text
    side = np.append(texts.splits, NOWHERE)[texts.of_clip]
    repeating = np.flatnonzero((split >= 0) & (side >= 0) & (split != side))
    repeats = _worded(side[repeating], [f"its text is in {name}" for name in names])
    split[repeating] = -1
    if by_list.any() and not (split == train).any():
        raise RunError(
            "package.splits: the lists name a clip of every component, so nothing is left for "
            "train, because clips that share what package.disjoint names stay together"
        )
    has = _summed(split, length, len(names))
    notes = matches.notes + _notes(
        settings, names, split, has, matches.split, targets, length[repeating]
    )
    out = np.flatnonzero(~kept)
    joins = _joins(nodes, of_node, out, parting.joining[out], names)
    table = partial(_table, nodes, of_node, split, before, names)
    described = matches.described
    return SplitAssignment(names, split, out, joins, repeating, repeats, table, described, notes)


def _keep_disjoint(
    settings: PackageSettings, nodes: components.Nodes, length: Int64s, kinds: set[str]
) -> Int32s | None:
    """Remove from `nodes` the kinds that may be in two splits, and texts, which are connected
    later. Returns the text of each clip if texts may not be in two splits, else None. A clip
    without any node keeps its recording if speakers are kept apart, else its samples. `kinds`:
    those in `splits.parquet`."""
    text = nodes.of_row[TEXT].copy()
    recording = nodes.of_row[KINDS.index("recording")]
    splits = len({REST, *settings.splits})
    read = "text" in kinds or (not kinds and text_splits.is_read(text, recording, length, splits))
    wanted = kinds_apart(settings.disjoint, read)
    instead = components.RECORDING if SPEAKER in wanted else components.PCM
    kept = nodes.of_row[instead].copy()
    for number, kind in enumerate(KINDS):
        if kind not in wanted or kind == "text":
            nodes.of_row[number] = -1
            if kind == SPEAKER:
                nodes.talking = nodes.talking[:, :0]
    nameless = (nodes.of_row < 0).all(axis=0)  # a clip of an unknown speaker, for example
    nodes.of_row[instead, nameless] = kept[nameless]
    return text if "text" in wanted else None


def kinds_apart(disjoint: Sequence[str] | None, read: bool) -> set[str]:
    """Kinds that may not be in two splits. `read`: whether it is read speech."""
    if disjoint is None:
        return {*DEFAULT, "text"} if read else {*DEFAULT}
    return {AUDIO.get(name, name) for name in disjoint}


def names_in(table: SplitTable) -> tuple[set[str], set[str]]:
    """The names of splits and the kinds in a `splits.parquet`."""
    names, kinds = set[str](), set[str]()
    for part in table(["kind", "split"]):
        names |= set(pc.unique(part["split"]).to_pylist())
        kinds |= set(pc.unique(part["kind"]).to_pylist())
    return names, kinds


def _parted(
    nodes: components.Nodes, of_node: Sides, splits: int, larger: Int64s | None
) -> _Parting:
    """The components of the clips, with the splits that their published nodes have. `of_node`: the
    published split of each node; `splits`: the number of splits; `larger`: the length of each clip
    in µs, if a component of several splits keeps the clips of the one with most audio."""
    of_row = components.with_talking(nodes)
    most, joining = _sides(of_row, of_node, splits)
    component = components.components_of(of_row, of_node, ~joining)
    count = int(component.max(initial=-1)) + 1
    of_component, torn = components.agreed(component, most, count)
    bridge = (component >= 0) & torn[component]
    rows = nodes.of_row.shape[1]
    if larger is not None:
        audio = np.zeros((count + 1, splits), np.int64)
        torn_clips = np.flatnonzero(bridge[:rows] & (most[:rows] >= 0))
        np.add.at(audio, (component[torn_clips], most[torn_clips]), larger[torn_clips])
        of_component[torn] = audio.argmax(axis=1)[torn]
        bridge &= (most >= 0) & (most != of_component[component])
    kept = ~(joining | bridge)
    count = rows
    kept[nodes.talking[0][~kept[count:]]] = False
    return _Parting(component[:count], of_component, most[:count], joining[:count], kept[:count])


def _follow_lists(
    parting: _Parting,
    clips: Candidates,
    rows: Int32s,
    matches: split_input.Matches,
    names: list[str],
) -> Bools:
    """Give each component without a split that of a list that names one of its clips; returns the
    clips of these components."""
    free = parting.free()
    matched = np.where(free, matches.split, NOWHERE)
    parting.splits = split_input.extend(
        clips, rows, parting.component, matched, parting.splits, names
    )
    return free & ~parting.free()


def _allocate(
    seed: int,
    nodes: components.Nodes,
    parting: _Parting,
    length: Int64s,
    targets: Int64s,
    train: int,
) -> None:
    """Give each new component a split. `targets`: µs that each split should have."""
    free, count = parting.free(), len(parting.splits) - 1
    fixed = np.where(parting.kept & ~free, parting.of_clips(), NOWHERE)
    hours = _summed(fixed, length, len(targets))
    del fixed
    fresh = np.where(free, parting.component, np.int32(-1))
    new = np.unique(fresh[free])
    sizes = _summed(fresh, length, count)[new]
    del fresh
    order = components.order(seed, nodes, parting.component, free)
    parting.splits[new[order]] = components.allocate(sizes[order], targets - hours, hours, train)


def _known_texts(text: Int32s, of_node: Sides, parting: _Parting) -> _Texts:
    """The texts of all clips, with the split of those that are published in one split."""
    nodes = np.unique(text[text >= 0])
    number = np.where(text >= 0, np.searchsorted(nodes, text), -1).astype(np.int32)
    of_text = of_node[nodes]
    most = parting.most
    published = parting.kept & (parting.component < 0) & (most >= 0) & (number >= 0)
    texts = np.where(published, number, np.int32(-1))
    side, torn = components.agreed(texts, most, len(of_text))
    return _Texts(number, np.where((of_text < 0) & ~torn[:-1], side[:-1], of_text))


def _settled(
    texts: _Texts,
    split: Sides,
    by_list: Bools,
    length: Int64s,
    shares: dict[int, float],
    train: int,
) -> _Texts:
    """The texts, each with a split: texts of clips that a list assigned take the clips' split.
    `split`: of each clip, -1: not packaged; `shares`: see `text_splits.of_texts`."""
    fixed, listed = texts.splits.copy(), by_list & (texts.of_clip >= 0)
    np.maximum.at(fixed, texts.of_clip[listed], split[listed])
    splits = text_splits.of_texts(texts.of_clip, split, length, fixed, shares, train)
    return texts._replace(splits=splits)


def _sides(of_row: Int32s, of_node: Sides, splits: int) -> tuple[Sides, Bools]:
    """The split of each clip's nodes (-1: none), and whether they have several."""
    count = of_row.shape[1]
    most, least = np.full(count, -1, np.int16), np.full(count, splits, np.int16)
    for kind in range(len(KINDS)):
        side = _side(of_row, of_node, kind)
        np.maximum(most, side, out=most)
        np.minimum(least, np.where(side >= 0, side, np.int16(splits)), out=least)
    return most, most > least


def _side(of_row: Int32s, of_node: Sides, kind: int) -> Sides:
    """For each clip, the split of its recording, speaker or samples (`kind`); -1: none."""
    side: Sides = np.append(of_node, np.int16(-1))[of_row[kind]]  # the last for node -1
    return side


def _summed(group: Sides | Int32s, length: Int64s, count: int) -> Int64s:
    """µs of each of `count` groups; clips of group -1 do not count."""
    sums = np.zeros(count, np.int64)
    for begin in range(0, len(group), AT_ONCE):
        some, lengths = group[begin : begin + AT_ONCE], length[begin : begin + AT_ONCE]
        has = some >= 0
        sums += np.bincount(some[has], lengths[has], count).astype(np.int64)
    return sums


def _table(
    nodes: components.Nodes, of_node: Sides, split: Sides, before: SplitTable, names: list[str]
) -> Iterator[pa.Table]:
    """Tables (SPLITS): those of `before`, then the nodes that got their split now."""
    for part in before(SPLITS.names):
        yield part.select(SPLITS.names).cast(SPLITS)
    now = np.full(len(of_node), -1, np.int16)
    for row in nodes.of_row:
        has = (row >= 0) & (split >= 0)
        now[row[has]] = split[has]
    row, person = nodes.talking
    has = split[row] >= 0
    now[person[has]] = split[row[has]]
    new = np.flatnonzero((of_node < 0) & (now >= 0))
    for number, kind in enumerate(KINDS):
        of_kind = new[nodes.kind[new] == number]
        for begin in range(0, len(of_kind), components.BATCH):
            some = of_kind[begin : begin + components.BATCH]
            sides = pa.DictionaryArray.from_arrays(pa.array(now[some]), pa.array(names))
            columns = [pa.array([kind] * len(some)), nodes.called(some), sides]
            yield pa.table(columns, SPLITS.names).cast(SPLITS)


def _joins(
    nodes: components.Nodes, of_node: Sides, clips: Int64s, joining: Bools, names: list[str]
) -> pa.DictionaryArray:
    """A text that says which splits each of these clips would join."""
    direct = np.stack([_side(nodes.of_row, of_node, kind)[clips] for kind in range(len(KINDS))])
    kinds, kind_of_clip = np.unique(direct, axis=1, return_inverse=True)
    parts = [
        [f"{kind} in {names[s]}" for kind, s in zip(KINDS, column, strict=True) if s >= 0]
        for column in kinds.T
    ]
    words = [f"would join two splits: {', '.join(some)}" for some in parts]
    words.append("joins clips of two splits")
    codes = np.where(joining, kind_of_clip.reshape(-1), len(words) - 1)
    return _worded(codes, words)


def _worded(codes: Sides | Int64s, words: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words))


def _notes(
    settings: PackageSettings,
    names: list[str],
    split: Sides,
    has: Int64s,
    listed: Sides,
    targets: Int64s,
    repeating: Int64s,
) -> list[str]:
    """Messages about splits that differ from the settings. `has`: µs of each split; `listed`: the
    split of each clip by a list; `repeating`: µs of the clips whose texts another split has."""
    notes: list[str] = []
    speakers = settings.disjoint is None or SPEAKER in settings.disjoint
    apart = "package.disjoint: [recording, audio] lets a speaker be in several splits, "
    remedy = apart if speakers else "name less there, or "
    elsewhere = (listed >= 0) & (split >= 0) & (split != listed)
    for number in np.unique(listed[elsewhere]).tolist():
        count = int((elsewhere & (listed == number)).sum())
        are = "is" if count == 1 else "are"
        notes.append(
            f"package.splits.{names[number]}.list: {count} of the clips it names {are} in "
            "another split since an earlier version, and stay there; package.resplit assigns "
            "them anew"
        )
    # Nothing is packaged for a `plan` before the first run has finished.
    for number, name in enumerate(names if has.any() else ()):
        share = settings.splits.get(name)
        if name == REST or share is None or (isinstance(share, Split) and share.list is not None):
            continue
        if not 0.5 <= has[number] / max(float(targets[number]), 1.0) <= 2:
            notes.append(
                f"split {name} has {has[number] / HOUR:.4f} h, where {targets[number] / HOUR:.4f} h"
                " were asked for, because clips that share what package.disjoint names stay "
                f"together and published clips in their split; {remedy}package.resplit redraws all"
            )
    if len(repeating):
        notes.append(
            f"package.disjoint: {counted(len(repeating), 'clip')} ({repeating.sum() / HOUR:.4f} h) "
            f"{'is' if len(repeating) == 1 else 'are'} left out, because another split has their "
            "texts; without text in package.disjoint, none is"
        )
    return notes
