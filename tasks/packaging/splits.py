"""Splits: which clips are train, and which dev, test or what else `package.splits` names.

`{dev: 0.05, test: {hours: 2}, hard: {list: hard.txt}}`; the rest is `train`.

**What is never parted.** Clips of one recording, clips of one speaker (a speaker's name holds for
its dataset), and clips of the same samples (equal sha256). All clips that are connected that way
are a group; a group is on one side. Copies that differ in their samples are found by the filter
`duplicate`, which leaves one of each, so that there are none left to be parted.

**What stays.** A version holds `splits.parquet`: the split of every speaker, recording and PCM
that was ever on a side. What is in it stays there, also while it is away; new clips of a known
speaker or recording follow it. A new clip that would join two sides (a new recording of speakers
on either, a copy of a clip on another side) is dropped as `package.split_conflict`, with all new
clips that hang together with it; a published clip only when its source has come to name another
speaker for it. Other fractions move nothing that is published; `package.resplit` deals all anew.
A version without splits says nothing: where they are first asked for, everything is dealt.

**What is new** is dealt in the order of a seeded hash of the group's name, each group to the split
that lacks most hours among those that have room for all of it. Then a split takes the smallest
group that is left if that brings it nearer to its hours, or if it would else be empty. So where
enough is new, the hours of a split are within one group of what was asked, whatever the group's
size. A group is given away only if train keeps as much as that; where other splits ask for hours
and not for fractions, they get at most half of all hours.

No side depends on the order of the rows. Memory and time grow as rows do (n log n).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import storage
from tasks.errors import RunError
from tasks.packaging import dealing, groups, split_lists
from tasks.packaging.dealing import HOUR
from tasks.packaging.groups import KINDS, Ints
from tasks.schema import SPLITS
from tasks.settings import PackageSettings, Split
from tasks.settings.portions import REST
from tasks.storage import tables

FILE = "splits.parquet"


class Sides(NamedTuple):
    """`split`: of each row, by number in `names`; -1 where the row joins `names` of `joins`."""

    names: list[str]
    split: Ints
    joins: dict[int, str]  # by row
    table: pa.Table  # SPLITS: what `splits.parquet` will hold
    lists: dict[str, Any]
    notes: list[str]  # for people, one sentence each


def known(version: Path | None) -> pa.Table:
    """What the last version says; nothing where it was published without splits."""
    if version is None or not storage.exists(version / FILE):
        return SPLITS.empty_table()
    return tables.read(version / FILE)


def assign(settings: PackageSettings, rows: pa.Table, before: pa.Table) -> Sides:
    """Sides of all rows (columns id, dataset, recording, source_id, speaker, sha256, num_samples,
    sample_rate). `before` is what `known` gave.

    RunError when two lists name clips that belong together, or leave nothing for train.
    """
    names = sorted({REST, *settings.splits, *pc.unique(before["split"]).to_pylist()})
    nodes = groups.nodes_of(rows)
    side = groups.sides_before(nodes, before, names)
    direct = np.where(nodes.of_row >= 0, side[nodes.of_row], -1)
    most = direct.max(axis=0, initial=-1)
    least = np.where(direct >= 0, direct, len(names)).min(axis=0, initial=len(names))
    joining = most > least

    group = groups.groups_of(nodes, side, ~joining)  # of each row; -1: all its nodes are known
    count = int(group.max(initial=-1)) + 1
    of_group, torn = groups.agreed(group, most, count)
    bridge = (group >= 0) & torn[group]
    kept = ~(joining | bridge)
    length = dealing.microseconds(rows)
    listed, lists, notes = _listed(settings, rows, names)
    free = kept & (group >= 0) & (of_group[group] < 0)
    of_group = _by_lists(rows, group, np.where(free, listed, -1), of_group, names)
    by_list = free & (of_group[group] >= 0)
    free &= ~by_list

    there = np.where(group >= 0, of_group[group], most)
    hours = np.bincount(there[kept & ~free], length[kept & ~free], len(names)).astype(np.int64)
    fresh = np.unique(group[free])
    sizes = np.bincount(group[free], length[free], count)[fresh].astype(np.int64)
    train = names.index(REST)
    wanted = dealing.wanted(settings, names, int(length[kept].sum()))
    order = dealing.order(settings.seed, nodes, group, free)
    of_group[fresh[order]] = dealing.deal(sizes[order], wanted - hours, hours, train)

    split = np.where(group >= 0, of_group[group], most)
    split[~kept] = -1
    if by_list.any() and not (split == train).any():
        raise RunError(
            "package.splits: the lists name a clip of every group, so nothing is left for train: "
            "clips of a speaker or of a recording are never parted"
        )
    notes += _notes(settings, names, split, length, listed, wanted)
    table = _table(nodes, side, split, before, names)
    joins = {int(row): _of_two(direct[:, row], names) for row in np.flatnonzero(joining)}
    joins |= dict.fromkeys(np.flatnonzero(bridge).tolist(), "joins clips of two splits")
    return Sides(names, split, joins, table, lists, notes)


def _listed(
    settings: PackageSettings, rows: pa.Table, names: list[str]
) -> tuple[Ints, dict[str, Any], list[str]]:
    """Side of each row by the lists, or -1; what dataset.json says of them; notes."""
    side = np.full(rows.num_rows, -1, np.int64)
    described, notes = {}, []
    for listed in split_lists.read(settings):
        hit, unmatched = split_lists.match(listed, rows)
        both = hit & (side >= 0)
        if both.any():
            raise RunError(_two_lists(rows, int(np.argmax(both)), listed.split))
        side[hit] = names.index(listed.split)
        described[listed.split] = split_lists.described(listed, unmatched)
        if unmatched:
            notes.append(
                f"package.splits.{listed.split}.list: {len(unmatched)} of {len(listed.names)} names"
                f" match no packaged clip: {', '.join(unmatched[:5])}"
            )
    return side, described, notes


def _by_lists(rows: pa.Table, group: Ints, listed: Ints, of_group: Ints, names: list[str]) -> Ints:
    """Sides of groups with those that the lists give."""
    by_list, torn = groups.agreed(group, listed, len(of_group) - 1)
    if torn.any():
        row = int(np.argmax((group >= 0) & torn[group] & (listed >= 0)))
        raise RunError(_two_lists(rows, row, names[listed[row]]))
    return np.where(by_list >= 0, by_list, of_group)


def _two_lists(rows: pa.Table, row: int, split: str) -> str:
    found = rows.select(["id", "recording"]).slice(row, 1).to_pylist()[0]
    return (
        f"package.splits: the list of {split} names {found['id']} ({found['recording']}), and "
        "another split's list something of the same recording, speaker or samples: these are never "
        "parted; leave one of them out"
    )


def _table(
    nodes: groups.Nodes, side: Ints, split: Ints, before: pa.Table, names: list[str]
) -> pa.Table:
    """`before`, and what is new on a side."""
    now = np.full(len(side), -1, np.int64)
    for row in nodes.of_row:
        on = (row >= 0) & (split >= 0)
        now[row[on]] = split[on]
    new = np.flatnonzero((side < 0) & (now >= 0))
    kinds = pa.DictionaryArray.from_arrays(pa.array(nodes.kind[new]), pa.array(KINDS))
    sides = pa.DictionaryArray.from_arrays(pa.array(now[new]), pa.array(names))
    added = pa.table(
        [kinds.cast(pa.string()), nodes.name.take(new), sides.cast(pa.string())], schema=SPLITS
    )
    whole = pa.concat_tables([before.select(SPLITS.names).cast(SPLITS), added])
    return whole.combine_chunks()


def _of_two(direct: Ints, names: list[str]) -> str:
    parts = [f"{kind} in {names[s]}" for kind, s in zip(KINDS, direct, strict=True) if s >= 0]
    return f"would join two splits: {', '.join(parts)}"


def _notes(
    settings: PackageSettings, names: list[str], split: Ints, length: Ints, listed: Ints,
    wanted: Ints,
) -> list[str]:  # fmt: skip
    notes = []
    elsewhere = (listed >= 0) & (split >= 0) & (split != listed)
    for side in np.unique(listed[elsewhere]).tolist():
        notes.append(
            f"package.splits.{names[side]}.list: {int((elsewhere & (listed == side)).sum())} clips "
            "that it names belong to what another split has since an earlier version, and stay "
            "there; package.resplit deals anew"
        )
    hours = np.bincount(split[split >= 0], length[split >= 0], len(names)) / HOUR
    for side, name in enumerate(names):
        share = settings.splits.get(name)
        if isinstance(share, Split) and share.list is not None:
            continue
        if (
            name != REST
            and share is not None
            and not 0.5 <= hours[side] * HOUR / max(float(wanted[side]), 1.0) <= 2
        ):
            notes.append(
                f"split {name} has {hours[side]:.4f} h, where {wanted[side] / HOUR:.4f} h were "
                "asked for: speakers and recordings are not parted, and what is published stays"
            )
    return notes


def faults(rows: pa.Table, table: pa.Table) -> list[str]:
    """What is wrong with the splits of a published version: `verify` asks."""
    found = []
    nodes = groups.nodes_of(rows)
    names: Sequence[str] = sorted({*pc.unique(rows["split"]).to_pylist(),
                                   *pc.unique(table["split"]).to_pylist()})  # fmt: skip
    split = pc.index_in(rows["split"], pa.array(names, pa.string())).to_numpy().astype(np.int64)
    stored = groups.sides_before(nodes, table, list(names))
    for kind, row in zip(KINDS, nodes.of_row, strict=True):
        has = row >= 0
        _, torn = groups.agreed(row, split, len(nodes.kind))
        if torn.any():
            name = nodes.name[int(np.argmax(torn))].as_py()
            found.append(f"the {kind} {name} is in two splits")
        if (stored[row[has]] != split[has]).any():
            found.append(f"{FILE} and utterances.parquet differ in the split of a {kind}")
    return found
