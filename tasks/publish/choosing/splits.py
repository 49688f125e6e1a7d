"""Split assignment: which clips are train, and which dev, test or what `package.splits` names.

`{dev: 0.05, test: {hours: 2}, hard: {list: hard.txt}}`; the rest is `train`.

**Never separated:** clips of one recording, clips of one speaker (names of speakers belong to their
dataset), and clips of the same samples (equal sha256). Clips connected in this way form a
component, and a component is in one split. Copies with other samples are the business of the filter
`duplicate`, which keeps one of each. `package.disjoint` names what is never separated, and may name
texts, which read speech has by default (`text_splits.py`).

**What is published stays.** A version holds `splits.parquet`: the split of every speaker, recording
and PCM that was ever assigned, also while it is absent. New clips of a known speaker or recording
follow it. A new clip that would join two splits (a new recording of speakers in both, a copy of a
clip in another split) is dropped as `package.split_conflict`, together with all new clips connected
to it; a published clip only if its source now names another speaker. Other fractions move nothing
that is published; `package.resplit` assigns everything anew, as does the first version with splits.

**New components** are allocated in the order of a seeded hash of their names, each to the split
that lacks the most hours and has room for the whole component. Then a split takes the smallest
remaining component if that brings it nearer to its hours, or if it would otherwise be empty. So
with enough new audio, the hours of a split are within one component of what was asked, whatever its
size. Train never gives a component larger than what it keeps; and if splits ask for hours instead
of fractions, they get at most half of all hours.

The result does not depend on the order of the rows; memory and time grow with n log n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import storage
from tasks.base.arrays import Bools, Int32s, Int64s
from tasks.base.counting import counted
from tasks.base.errors import RunError
from tasks.base.schema import SPLITS
from tasks.publish.choosing import components, split_allocation, split_by_list, text_splits
from tasks.publish.choosing.components import AT_ONCE, KINDS, TEXT, Sides, SplitTable
from tasks.publish.choosing.split_allocation import BATCH, HOUR
from tasks.publish.choosing.split_input import Candidates
from tasks.settings import PackageSettings, Split
from tasks.settings.package import REST
from tasks.storage import tables
from tasks.storage.versions import Proved

FILE = "splits.parquet"
DEFAULT = ("speaker", "recording", "pcm")  # and texts of read speech
AUDIO = {"audio": "pcm"}  # of `package.disjoint`, as kinds


class SplitAssignment(NamedTuple):
    """The split of each clip, and what follows from it."""

    names: list[str]
    split: Sides  # of each clip, index of `names`; -1: it would join two splits
    joining: Int64s  # such clips, as indices,
    joins: pa.DictionaryArray  # and what each would join, in words
    repeating: Int64s  # clips whose text belongs to another split, as indices,
    repeats: pa.DictionaryArray  # and to which, in words
    table: Callable[[], Iterator[pa.Table]]  # parts (SPLITS) of the next `splits.parquet`
    lists: split_by_list.ListDescriptions
    notes: list[str]  # for people, one sentence each


def published(version: Path | None) -> SplitTable:
    """The parts of `splits.parquet` of a version; none if it was published without splits. RunError
    if it is damaged."""
    if version is None or not storage.exists(version / FILE):
        return lambda columns: [SPLITS.empty_table().select(columns)]
    return partial(tables.portions, version / FILE, opened=Proved(version))


def assign(
    settings: PackageSettings,
    clips: Candidates,
    rows: Int32s,
    before: SplitTable,
    staying: Mapping[str, int] | None = None,
) -> SplitAssignment:
    """Assign the clips whose numbers are `rows`, in the order of their ids. `before`: the
    `splits.parquet` to continue; `staying`: µs that other clips fill in each split (`staying.py`).

    RunError if two lists name clips that belong together, or leave nothing for train.
    """
    published_names, kinds = set[str](), set[str]()
    for part in before(["kind", "split"]):
        published_names |= set(pc.unique(part["split"]).to_pylist())
        kinds |= set(pc.unique(part["kind"]).to_pylist())
    names = sorted({REST, *settings.splits, *published_names})
    nodes, nowhere = components.nodes_of(clips.names, rows), np.int16(-1)
    length = clips.length[rows]
    text = _applied(settings, nodes, length, kinds)
    of_node = components.published_splits(nodes, before, names)
    most, joining = _sides(nodes, of_node, len(names))
    component = components.components_of(nodes, of_node, ~joining)
    count = int(component.max(initial=-1)) + 1
    of_component, torn = components.agreed(component, most, count)
    bridge = (component >= 0) & torn[component]
    kept = ~(joining | bridge)
    matches = split_by_list.match(clips.listed, rows, len(clips), names)
    free = kept & (component >= 0) & (of_component[component] < 0)
    matched = np.where(free, matches.split, nowhere)
    of_component = split_by_list.extend(clips.listed, rows, component, matched, of_component, names)
    by_list = free & (of_component[component] >= 0)
    number, of_text = np.zeros(0, np.int32), np.zeros(0, np.int16)
    if text is not None:
        number, of_text = _known_texts(text, of_node, component, most, kept)
        component, of_component = text_splits.united(
            component, of_component, number, of_text, np.where(kept, length, 0), by_list
        )
        count = len(of_component) - 1
    free = kept & (component >= 0) & (of_component[component] < 0)

    fixed = np.where(component >= 0, of_component[component], most)
    hours = _summed(np.where(kept & ~free, fixed, nowhere), length, len(names))
    del fixed, matched
    fresh = np.where(free, component, np.int32(-1))
    new = np.unique(fresh[free])
    sizes = _summed(fresh, length, count)[new]
    del fresh
    train = names.index(REST)
    others = np.array([(staying or {}).get(name, 0) for name in names], np.int64)
    hours += others
    total = int(length[kept].sum() + others.sum())
    targets = split_allocation.targets(settings, names, total)
    order = split_allocation.order(settings.seed, nodes, component, free)
    of_component[new[order]] = split_allocation.allocate(
        sizes[order], targets - hours, hours, train
    )

    split = np.where(component >= 0, of_component[component], most)
    split[~kept] = -1
    repeating = np.zeros(0, np.int64)
    if text is not None:
        listed = np.where(by_list, split, nowhere)
        np.maximum.at(of_text, number[number >= 0], listed[number >= 0])
        asked = (targets > 0) & (np.arange(len(names)) != train)
        shares = {n: float(targets[n]) / max(total, 1) for n in np.flatnonzero(asked).tolist()}
        of_text = text_splits.of_texts(number, split, length, of_text, shares, train)
        text_side = np.append(of_text, nowhere)[number]
        repeating = np.flatnonzero((split >= 0) & (text_side >= 0) & (split != text_side))
        split[repeating] = -1
        nodes.of_row[TEXT] = text
    repeats = _repeats(of_text, number, repeating, names)
    if by_list.any() and not (split == train).any():
        raise RunError(
            "package.splits: the lists name a clip of every component, so nothing is left for "
            "train: what package.disjoint names (speakers, recordings, …) is never separated"
        )
    has = others + _summed(split, length, len(names))
    notes = matches.notes + _notes(settings, names, split, has, matches.split, targets)
    if len(repeating):
        notes.append(
            f"package.disjoint: {counted(len(repeating), 'clip')} "
            f"({length[repeating].sum() / HOUR:.4f} h) {'is' if len(repeating) == 1 else 'are'} "
            "left out, because another split has their texts"
        )
    out = np.flatnonzero(~kept)
    joins = _joins(nodes, of_node, out, joining[out], names)
    table = partial(_table, nodes, of_node, split, before, names)
    described = matches.described
    return SplitAssignment(names, split, out, joins, repeating, repeats, table, described, notes)


def _applied(
    settings: PackageSettings, nodes: components.Nodes, length: Int64s, kinds: set[str]
) -> Int32s | None:
    """Take the nodes out that may be in two splits, and texts, which connect later: those of each
    clip if they may not. `kinds`: what is in `splits.parquet`."""
    text = nodes.of_row[TEXT].copy()
    recording = nodes.of_row[KINDS.index("recording")]
    splits = len({REST, *settings.splits})
    read = "text" in kinds or (not kinds and text_splits.is_read(text, recording, length, splits))
    wanted = kinds_apart(settings.disjoint, read)
    for number, kind in enumerate(KINDS):
        if kind not in wanted or kind == "text":
            nodes.of_row[number] = -1
    return text if "text" in wanted else None


def kinds_apart(disjoint: Sequence[str] | None, read: bool) -> set[str]:
    """Kinds that may not be in two splits, by `package.disjoint`. `read`: it is read speech."""
    if disjoint is None:
        return {*DEFAULT, "text"} if read else {*DEFAULT}
    return {AUDIO.get(name, name) for name in disjoint}


def _known_texts(
    text: Int32s, of_node: Sides, component: Int32s, most: Sides, kept: Bools
) -> tuple[Int32s, Sides]:
    """A number for the text of each clip, -1 for none; and the split of each, if it is in just one
    by what was published."""
    nodes = np.unique(text[text >= 0])
    number = np.where(text >= 0, np.searchsorted(nodes, text), -1).astype(np.int32)
    of_text = of_node[nodes]
    published = kept & (component < 0) & (most >= 0) & (number >= 0)
    high, low = np.full(len(of_text), -1, np.int16), np.full(len(of_text), np.iinfo(np.int16).max)
    np.maximum.at(high, number[published], most[published])
    np.minimum.at(low, number[published], most[published])
    return number, np.where((of_text < 0) & (high == low), high, of_text).astype(np.int16)


def _repeats(of_text: Sides, number: Int32s, clips: Int64s, names: list[str]) -> pa.DictionaryArray:
    """Where the text of each of these clips is, in words."""
    words = [f"its text is in {name}" for name in names]
    codes = of_text[number[clips]] if len(clips) else np.zeros(0, np.int16)
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words))


def _sides(nodes: components.Nodes, of_node: Sides, splits: int) -> tuple[Sides, Bools]:
    """The split that the nodes of each clip have (-1: none), and whether they have several."""
    count = nodes.of_row.shape[1]
    most, least = np.full(count, -1, np.int16), np.full(count, splits, np.int16)
    for kind in range(len(KINDS)):
        side = _side(nodes, of_node, kind)
        np.maximum(most, side, out=most)
        np.minimum(least, np.where(side >= 0, side, np.int16(splits)), out=least)
    return most, most > least


def _side(nodes: components.Nodes, of_node: Sides, kind: int) -> Sides:
    """For each clip, the split of its recording, speaker or samples (`kind`); -1: none."""
    side: Sides = np.append(of_node, np.int16(-1))[nodes.of_row[kind]]  # the last: where none is
    return side


def _summed(group: Sides | Int32s, length: Int64s, count: int) -> Int64s:
    """µs of each group; clips of group -1 do not count. Takes some clips at a time."""
    sums = np.zeros(count, np.int64)
    for begin in range(0, len(group), AT_ONCE):
        some, lengths = group[begin : begin + AT_ONCE], length[begin : begin + AT_ONCE]
        has = some >= 0
        sums += np.bincount(some[has], lengths[has], count).astype(np.int64)
    return sums


def _table(
    nodes: components.Nodes, of_node: Sides, split: Sides, before: SplitTable, names: list[str]
) -> Iterator[pa.Table]:
    """`before`, and the nodes that were assigned now."""
    for part in before(SPLITS.names):
        yield part.select(SPLITS.names).cast(SPLITS)
    now = np.full(len(of_node), -1, np.int16)
    for row in nodes.of_row:
        has = (row >= 0) & (split >= 0)
        now[row[has]] = split[has]
    new = np.flatnonzero((of_node < 0) & (now >= 0))
    for number, kind in enumerate(KINDS):
        of_kind = new[nodes.kind[new] == number]
        for begin in range(0, len(of_kind), BATCH):
            some = of_kind[begin : begin + BATCH]
            sides = pa.DictionaryArray.from_arrays(pa.array(now[some]), pa.array(names))
            columns = [pa.array([kind] * len(some)), nodes.called(some), sides]
            yield pa.table(columns, SPLITS.names).cast(SPLITS)


def _joins(
    nodes: components.Nodes, of_node: Sides, clips: Int64s, joining: Bools, names: list[str]
) -> pa.DictionaryArray:
    """What each of these clips would join, in words."""
    direct = np.stack([_side(nodes, of_node, kind)[clips] for kind in range(len(KINDS))])
    kinds, kind_of_clip = np.unique(direct, axis=1, return_inverse=True)
    words = [*(_joined(column, names) for column in kinds.T), "joins clips of two splits"]
    codes = np.where(joining, kind_of_clip.reshape(-1), len(words) - 1)
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(words))


def _joined(direct: Sides, names: list[str]) -> str:
    parts = [f"{kind} in {names[s]}" for kind, s in zip(KINDS, direct, strict=True) if s >= 0]
    return f"would join two splits: {', '.join(parts)}"


def _notes(
    settings: PackageSettings,
    names: list[str],
    split: Sides,
    has: Int64s,
    listed: Sides,
    targets: Int64s,
) -> list[str]:
    """Sentences about splits that differ from what was asked; `has`: µs of each split."""
    notes = []
    elsewhere = (listed >= 0) & (split >= 0) & (split != listed)
    for number in np.unique(listed[elsewhere]).tolist():
        count = int((elsewhere & (listed == number)).sum())
        are = "is" if count == 1 else "are"
        notes.append(
            f"package.splits.{names[number]}.list: {count} of the clips it names {are} in "
            "another split since an earlier version, and stay there; package.resplit assigns "
            "them anew"
        )
    for number, name in enumerate(names):
        share = settings.splits.get(name)
        if name == REST or share is None or (isinstance(share, Split) and share.list is not None):
            continue
        if not 0.5 <= has[number] / max(float(targets[number]), 1.0) <= 2:
            notes.append(
                f"split {name} has {has[number] / HOUR:.4f} h, where {targets[number] / HOUR:.4f} h"
                " were asked for: speakers and recordings are never separated, and what is "
                "published stays"
            )
    return notes
